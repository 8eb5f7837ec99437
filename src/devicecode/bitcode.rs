//! LLVM bitcode ("LLVM Bitcode File Format") that is a file or a member of a static library: what compilers write with `-flto` in
//! place of an object file, and device libraries. It is a stream of bits in which no bytes can be looked for. Its triple says for
//! which machine it is.

use memchr::memmem;

use super::effort::SearchedRange;
use super::form::DeviceForm;
use super::found::CodePiece;
use super::offload_binary::form_for;
use crate::rope::to_usize;

/// Bytes of the header of a member of a static library (`ar(5)`), and how it ends.
const HEADER: u64 = 60;
const HEADER_END: &[u8] = b"`\n";

/// The longest name between the header of a member and its content, as BSD writes it.
const LONGEST_NAME: u64 = 256;

/// Abbreviation IDs: what follows is a block, or a record without abbreviation.
const ENTER_BLOCK: u64 = 1;
const RECORD: u64 = 3;

/// The ID of the block of a module, and the code of the record with its triple.
const MODULE: u64 = 8;
const TRIPLE: u64 = 2;

/// The most bits that are read of blocks' headers and of records. LLVM writes the triple behind a handful of blocks, which are
/// skipped, and the names of COMDATs.
const MAX_BITS: u64 = 8 * (64 << 10);

/// The longest triple.
const MAX_TRIPLE: u64 = 256;

/// Bytes that are read at a time.
const WINDOW: u64 = 1 << 10;

/// The first word of a wrapper around bitcode, in which offset and size of the bitcode follow a version.
const WRAPPER: u64 = 0x0B17_C0DE;

/// The bitcode in a range that begins with it, unless that is in other data.
pub(super) fn read(range: SearchedRange<'_>) -> Option<CodePiece> {
    let length = if range.is_whole() { range.end } else { member_length(range)? };
    let end = range.start.saturating_add(length).min(range.end);
    let form = match triple(SearchedRange { end, ..range }).map(|triple| form_for(&triple)) {
        Some(Some(form)) if form.is_amd() => DeviceForm::Bitcode,
        Some(Some(form)) => form,
        Some(None) | None => DeviceForm::HostBitcode,
    };
    Some(CodePiece::opaque(form, end - range.start))
}

/// Bytes of the member of a static library that begins here, if one does.
fn member_length(range: SearchedRange<'_>) -> Option<u64> {
    let length = range.start.min(HEADER + LONGEST_NAME);
    let before = SearchedRange { start: range.start - length, ..range }.bytes(0, length)?;
    let end = memmem::rfind(&before, HEADER_END)? + HEADER_END.len();
    let header = before.get(end.checked_sub(to_usize(HEADER))?..end)?;
    let number = |text: &[u8]| str::from_utf8(text).ok()?.trim_end().parse::<u64>().ok();
    let name = header.strip_prefix(b"#1/").map_or(Some(0), |name| number(name.get(..13)?))?;
    let is_here = (before.len() - end) as u64 == name;
    number(header.get(48..58)?)?.checked_sub(name).filter(|_| is_here)
}

/// The triple of bitcode.
fn triple(range: SearchedRange<'_>) -> Option<Vec<u8>> {
    let mut bits = Bits { range, at: 0, left: MAX_BITS, window: Vec::new(), start: 0 };
    if bits.fixed(32)? == WRAPPER {
        bits.fixed(32)?;
        bits.at = bits.fixed(32)?.checked_mul(8)?;
        bits.fixed(32)?;
    }
    let mut width = 2;
    loop {
        match bits.fixed(width)? {
            ENTER_BLOCK => {
                let (block, inner) = (bits.variable(8)?, bits.variable(4)?);
                bits.at = bits.at.checked_next_multiple_of(32)?;
                let words = bits.fixed(32)?;
                if block == MODULE && width == 2 {
                    width = u32::try_from(inner).ok().filter(|width| (2..=32).contains(width))?;
                } else {
                    bits.at = words.checked_mul(32)?.checked_add(bits.at)?;
                }
            }
            RECORD => {
                let (code, length) = (bits.variable(6)?, bits.variable(6)?);
                let mut values = (0..length).map(|_| bits.variable(6));
                if code == TRIPLE && length <= MAX_TRIPLE {
                    return values.map(|value| u8::try_from(value?).ok()).collect();
                }
                values.try_for_each(|value| value.map(drop))?;
            }
            _ => return None,
        }
    }
}

/// The bits of a range, the lowest of a byte first.
struct Bits<'a> {
    range: SearchedRange<'a>,
    /// The number of the next bit.
    at: u64,
    /// How many more may be read.
    left: u64,
    /// Bytes that were read, and where they start.
    window: Vec<u8>,
    start: u64,
}

impl Bits<'_> {
    /// A number of at most 32 bits.
    fn fixed(&mut self, width: u32) -> Option<u64> {
        self.left = self.left.checked_sub(u64::from(width))?;
        let (byte, shift) = (self.at / 8, self.at % 8);
        let bytes = u64::from(width).checked_add(shift)?.div_ceil(8);
        let is_read = |start: u64, length: usize| byte >= start && byte + bytes <= start + length as u64;
        if !is_read(self.start, self.window.len()) {
            let rest = (self.range.end - self.range.start).checked_sub(byte)?;
            self.window = self.range.bytes(byte, rest.min(WINDOW))?;
            self.start = byte;
        }
        let from = to_usize(byte.checked_sub(self.start)?);
        let bytes = self.window.get(from..from.checked_add(to_usize(bytes))?)?;
        let number = bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
        self.at += u64::from(width);
        Some(number >> shift & ((1 << width) - 1))
    }

    /// A number in pieces of some bits, of which the highest says whether another one follows.
    fn variable(&mut self, width: u32) -> Option<u64> {
        let more = 1 << (width - 1);
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(to_usize(u64::from(width - 1))) {
            let piece = self.fixed(width)?;
            number |= (piece & (more - 1)).checked_shl(shift)?;
            if piece & more == 0 {
                return Some(number);
            }
        }
        None
    }
}
