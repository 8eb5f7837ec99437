//! LLVM offload binaries (LLVM's `Object/OffloadBinary.h` and `OffloadBinary.cpp`): the magic `10 ff 10 ad`, u32 version, u64
//! size, u64 offset of the entries, u64 their number (version 1 has one entry), and from version 3 on u64 the inflated size if
//! what follows is compressed. An entry is u16 kind of image, u16 kind of offloading, u32 flags, u64 offset and number of its
//! strings, u64 offset and size of its image. A string is u64 offsets of key and value, and from version 2 on u64 size of the
//! value. All integers are little-endian, and all offsets from the beginning.

use std::sync::Arc;

use super::effort::Effort;
use super::form::DeviceForm;
use super::found::CodePiece;
use super::frame::Beginning;
use crate::gpu::TargetId;
use crate::memory::{Parser, WholeFile};
use crate::rope::Content;

/// Bytes of the header of versions 1 and 2. That of version 3 has a field more.
const HEADER: u64 = 32;

/// Bytes of an entry.
const ENTRY: u64 = 40;

/// The most entries and strings that are read. An entry is made for each GPU, and has a handful of strings.
const MAX_ENTRIES: u64 = 4096;
const MAX_STRINGS: u64 = 64;

/// The longest key or value that is read.
const MAX_STRING: u64 = 256;

/// The beginnings of triples of AMD's GPUs. The others are those of NVIDIA's and Intel's.
const TRIPLES: [&[u8]; 3] = [b"amdgcn", b"amdgpu", b"spirv64-amd"];

/// The offload binary at `offset`, which has to end at `end`, if it has code for AMD's GPUs, or may have. An error if it is
/// damaged or of a later version.
pub(super) fn read(
    content: &Arc<dyn Content>,
    offset: u64,
    end: u64,
    effort: &Effort,
) -> Option<Result<CodePiece, DeviceForm>> {
    let piece = parse(content, offset, end, effort);
    let has_code = piece.as_ref().map_or(!effort.is_spent(), |piece| !piece.code.is_empty());
    has_code.then_some(piece.ok_or(DeviceForm::OffloadBinary))
}

/// `None` if it cannot be read.
fn parse(content: &Arc<dyn Content>, offset: u64, end: u64, effort: &Effort) -> Option<CodePiece> {
    let bytes = OffloadBytes { content: Arc::clone(content), start: offset, end };
    let [version, size, entries, count] = bytes.header(effort)?;
    let end = offset.checked_add(size).filter(|&it| it <= end && size >= HEADER)?;
    let inflated = if version >= 3 { bytes.number(HEADER, effort)? } else { 0 };
    let code = if inflated == 0 {
        OffloadBytes { end, ..bytes }.code(version, entries, count, effort)?
    } else {
        let body = Beginning::of_any(content, offset.checked_add(entries)?, end, effort)?;
        let head = bytes.read(0, entries, effort)?;
        let content = body.behind(&head, inflated)?;
        let unpacked = OffloadBytes { end: content.size(), start: 0, content };
        unpacked.code(version, entries, count, effort)?
    };
    Some(CodePiece { form: DeviceForm::OffloadBinary, frames: Vec::new(), length: size, code })
}

struct OffloadBytes {
    content: Arc<dyn Content>,
    start: u64,
    end: u64,
}

impl OffloadBytes {
    /// Version, size, offset of the entries and their number.
    fn header(&self, effort: &Effort) -> Option<[u64; 4]> {
        let head = self.read(0, HEADER, effort)?;
        let rest = head.strip_prefix(DeviceForm::OffloadBinary.row().magic)?;
        let (version, rest) = rest.split_first_chunk()?;
        let version = u32::from_le_bytes(*version).into();
        let [size, entries, count] = numbers(rest)?;
        let count = if version == 1 { 1 } else { count };
        ((1..=3).contains(&version) && count <= MAX_ENTRIES).then_some([version, size, entries, count])
    }

    /// The code for AMD's GPUs.
    fn code(&self, version: u64, entries: u64, count: u64, effort: &Effort) -> Option<Vec<(Option<TargetId>, u64)>> {
        let table = self.read(entries, ENTRY.checked_mul(count)?, effort)?;
        let mut code = Vec::new();
        for entry in table.chunks_exact(usize::try_from(ENTRY).ok()?) {
            let [strings, number, _, size] = numbers(entry.get(8..)?)?;
            let (triple, arch) = self.names(version, strings, number, effort)?;
            if TRIPLES.iter().any(|known| triple.starts_with(known)) {
                code.push((std::str::from_utf8(&arch).ok().and_then(|arch| arch.parse().ok()), size));
            }
        }
        Some(code)
    }

    /// The triple and the architecture of an entry.
    fn names(&self, version: u64, offset: u64, number: u64, effort: &Effort) -> Option<(Vec<u8>, Vec<u8>)> {
        let length = if version == 1 { 16 } else { 24 };
        let table = self.read(offset, length * number.min(MAX_STRINGS), effort)?;
        let (mut triple, mut arch) = (Vec::new(), Vec::new());
        for string in table.chunks_exact(usize::try_from(length).ok()?) {
            let [key, value] = numbers(string)?;
            match &*self.text(key, effort)? {
                b"triple" => triple = self.text(value, effort)?,
                b"arch" => arch = self.text(value, effort)?,
                _ => {}
            }
        }
        Some((triple, arch))
    }

    /// The text at an offset, which ends with a zero.
    fn text(&self, offset: u64, effort: &Effort) -> Option<Vec<u8>> {
        let rest = self.end.checked_sub(self.start.checked_add(offset)?)?;
        let mut bytes = self.read(offset, rest.min(MAX_STRING), effort)?;
        bytes.truncate(memchr::memchr(0, &bytes)?);
        Some(bytes)
    }

    fn number(&self, offset: u64, effort: &Effort) -> Option<u64> {
        numbers::<1>(&self.read(offset, 8, effort)?).map(|[number]| number)
    }

    fn read(&self, offset: u64, length: u64, effort: &Effort) -> Option<Vec<u8>> {
        let start = self.start.checked_add(offset)?;
        start.checked_add(length).filter(|&end| end <= self.end)?;
        effort.spend(length)?;
        Some(WholeFile::part(Parser::DeviceCode, &*self.content, start, length).ok()?.into_bytes())
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
