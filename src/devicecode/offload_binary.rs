//! LLVM offload binaries (LLVM's `Object/OffloadBinary.h` and `OffloadBinary.cpp`): the magic `10 ff 10 ad`, u32 version, u64
//! size, u64 offset of the entries, u64 their number (version 1 has one entry), and from version 3 on u64 the inflated size if
//! what follows is compressed. An entry is u16 kind of image, u16 kind of offloading, u32 flags, u64 offset and number of its
//! strings, u64 offset and size of its image. A string is u64 offsets of key and value, and from version 2 on u64 size of the
//! value. All integers are little-endian, and all offsets from the beginning.

use super::effort::SearchedRange;
use super::form::DeviceForm;
use super::found::CodePiece;
use super::frame::Beginning;
use crate::fatbin::is_bitcode;
use crate::memory::{Parser, WholeFile};

/// Bytes of the header of versions 1 and 2. That of version 3 has a field more.
const HEADER: u64 = 32;

/// Bytes of an entry.
const ENTRY: u64 = 40;

/// The kind of an image of bitcode (`IMG_Bitcode`).
const BITCODE: [u8; 2] = [2, 0];

/// The most entries and strings that are read. An entry is made for each GPU, and has a handful of strings.
const MAX_ENTRIES: u64 = 4096;
const MAX_STRINGS: u64 = 64;

/// The most images of a file, which has an offload binary for each.
const MAX_IMAGES: usize = 1 << 15;

/// The longest key or value that is read.
const MAX_STRING: u64 = 256;

/// The beginnings of triples of GPUs, with the form of the code for them.
const TRIPLES: [(&[u8], DeviceForm); 5] = [
    (b"amdgcn", DeviceForm::OffloadBinary),
    (b"amdgpu", DeviceForm::OffloadBinary),
    (b"spirv64-amd", DeviceForm::OffloadBinary),
    (b"nvptx", DeviceForm::NvidiaFatbin),
    (b"spir", DeviceForm::Sycl),
];

/// The form of an offload binary with code for a triple; `None` if that is no GPU's.
pub(super) fn form_for(triple: &[u8]) -> Option<DeviceForm> {
    TRIPLES.iter().find(|(known, _)| triple.starts_with(known)).map(|(_, form)| *form)
}

/// The offload binary that a range begins with, if it has code for GPUs, or may have. Its form is that of the code
/// if none of it is for AMD's. An error if it is damaged or of a later version.
pub(super) fn read(range: SearchedRange<'_>) -> Option<Result<CodePiece, DeviceForm>> {
    let piece = range.parse();
    let has_code = piece.as_ref().map_or(!range.effort.is_spent(), |piece| !piece.code.is_empty());
    has_code.then_some(piece.ok_or(DeviceForm::OffloadBinary))
}

/// The offload binaries of a whole file, which follow each other: one for each image (`extractOffloadBinaries`).
pub(super) fn read_all(range: SearchedRange<'_>) -> Option<Result<CodePiece, DeviceForm>> {
    let magic = DeviceForm::OffloadBinary.magic();
    let mut all: Option<CodePiece> = None;
    loop {
        let start = all.as_ref().map_or(0, |before| before.length);
        let rest = SearchedRange { start, ..range };
        if rest.bytes(0, magic.len() as u64).is_none_or(|head| head != magic) {
            return all.filter(|piece| !piece.code.is_empty()).map(Ok);
        }
        let is_too_long = all.as_ref().is_some_and(|before| before.code.len() > MAX_IMAGES);
        let Some(piece) = rest.parse().filter(|_| !is_too_long) else {
            return (!range.effort.is_spent()).then_some(Err(DeviceForm::OffloadBinary));
        };
        all = Some(match all {
            Some(before) => before.followed_by(piece),
            None => piece,
        });
    }
}

impl CodePiece {
    /// This code and what is behind it. Bitcode counts if there is no linked code, and that of others if there is none for AMD's GPUs.
    fn followed_by(mut self, mut next: Self) -> Self {
        let length = self.length.saturating_add(next.length);
        let is_loaded = |piece: &Self| piece.form == DeviceForm::OffloadBinary;
        let rank = |piece: &Self| (!piece.code.is_empty()).then(|| (is_loaded(piece), piece.form.is_amd()));
        if self.form == next.form && self.form.is_amd() {
            self.code.append(&mut next.code);
        }
        Self { length, ..if rank(&next) > rank(&self) { next } else { self } }
    }
}

impl SearchedRange<'_> {
    /// `None` if it cannot be read.
    fn parse(&self) -> Option<CodePiece> {
        let [version, size, entries, count] = self.header()?;
        let end = self.start.checked_add(size).filter(|&it| it <= self.end && size >= HEADER)?;
        let inflated = if version >= 3 { self.number(HEADER)? } else { 0 };
        let piece = if inflated == 0 {
            SearchedRange { end, ..*self }.piece(version, entries, count)?
        } else {
            let body = Beginning::of_any(SearchedRange { start: self.start.checked_add(entries)?, end, ..*self })?;
            let content = &body.behind(&self.bytes(0, entries)?, inflated)?;
            SearchedRange { content, start: 0, end: content.size(), ..*self }.piece(version, entries, count)?
        };
        Some(CodePiece { length: size, ..piece })
    }

    /// Version, size, offset of the entries and their number.
    fn header(&self) -> Option<[u64; 4]> {
        let head = self.bytes(0, HEADER)?;
        let rest = head.strip_prefix(DeviceForm::OffloadBinary.magic())?;
        let (version, rest) = rest.split_first_chunk()?;
        let version = u32::from_le_bytes(*version).into();
        let [size, entries, count] = numbers(rest)?;
        let count = if version == 1 { 1 } else { count };
        ((1..=3).contains(&version) && count <= MAX_ENTRIES).then_some([version, size, entries, count])
    }

    /// The code for AMD's GPUs; if there is none, their bitcode, or the form of that for others. Its length is not known here.
    fn piece(&self, version: u64, entries: u64, count: u64) -> Option<CodePiece> {
        let table = self.bytes(entries, ENTRY.checked_mul(count)?)?;
        let (mut code, mut bitcode, mut foreign) = (Vec::new(), Vec::new(), None);
        for entry in table.chunks_exact(usize::try_from(ENTRY).ok()?) {
            let [strings, number, image, size] = numbers(entry.get(8..)?)?;
            let (triple, arch) = self.names(version, strings, number)?;
            match form_for(&triple) {
                Some(form) if form.is_amd() => {
                    let target = std::str::from_utf8(&arch).ok().and_then(|arch| arch.parse().ok());
                    let begins = || self.bytes(image, 4).is_some_and(|word| is_bitcode(&word));
                    let is_bitcode = entry.starts_with(&BITCODE) || begins();
                    let images = if is_bitcode { &mut bitcode } else { &mut code };
                    images.push((target, size));
                }
                other => foreign = foreign.or(other),
            }
        }
        Some(match foreign {
            _ if code.is_empty() && !bitcode.is_empty() => {
                CodePiece { code: bitcode, ..CodePiece::opaque(DeviceForm::Bitcode, 0) }
            }
            Some(form) if code.is_empty() => CodePiece::opaque(form, 0),
            _ => CodePiece { form: DeviceForm::OffloadBinary, frames: Vec::new(), length: 0, code },
        })
    }

    /// The triple and the architecture of an entry.
    fn names(&self, version: u64, offset: u64, number: u64) -> Option<(Vec<u8>, Vec<u8>)> {
        let length = if version == 1 { 16 } else { 24 };
        let table = self.bytes(offset, length * number.min(MAX_STRINGS))?;
        let (mut triple, mut arch) = (Vec::new(), Vec::new());
        for string in table.chunks_exact(usize::try_from(length).ok()?) {
            let [key, value] = numbers(string)?;
            match &*self.text(key)? {
                b"triple" => triple = self.text(value)?,
                b"arch" => arch = self.text(value)?,
                _ => {}
            }
        }
        Some((triple, arch))
    }

    /// The text at an offset, which ends with a zero.
    fn text(&self, offset: u64) -> Option<Vec<u8>> {
        let rest = self.end.checked_sub(self.start.checked_add(offset)?)?;
        let mut bytes = self.bytes(offset, rest.min(MAX_STRING))?;
        bytes.truncate(memchr::memchr(0, &bytes)?);
        Some(bytes)
    }

    fn number(&self, offset: u64) -> Option<u64> {
        numbers::<1>(&self.bytes(offset, 8)?).map(|[number]| number)
    }

    pub(super) fn bytes(&self, offset: u64, length: u64) -> Option<Vec<u8>> {
        let start = self.start.checked_add(offset)?;
        start.checked_add(length).filter(|&end| end <= self.end)?;
        self.effort.spend(length)?;
        Some(WholeFile::part(Parser::DeviceCode, &**self.content, start, length).ok()?.into_bytes())
    }
}

/// The first numbers in some bytes.
fn numbers<const N: usize>(bytes: &[u8]) -> Option<[u64; N]> {
    let mut all = [0; N];
    for (number, bytes) in all.iter_mut().zip(bytes.chunks(8)) {
        *number = u64::from_le_bytes(bytes.try_into().ok()?);
    }
    (bytes.len() >= 8 * N).then_some(all)
}
