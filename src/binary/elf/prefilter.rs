//! Whether a file can have device code at all, judged by its dynamic symbols.
//!
//! clang emits a constructor with every fat binary wrapper. The constructor passes the wrapper to
//! `__hipRegisterFatBinary` (HIP's `hip_fatbin.cpp`; clang's CGCUDANV.cpp). So a dynamic object without that name among
//! its dynamic strings has device code only if the HIP runtime is linked into it. In that case it names functions of
//! the layers below.
//!
//! In a compressed file this avoids decompressing what follows the dynamic section. In a library with debug
//! information, that is nearly all of it.

use std::sync::Arc;

use memchr::memmem;
use object::LittleEndian as LE;
use object::elf::{self, DynamicTag, FileHeader64};

use super::dynamic::entries;
use super::image::{read_segments, read_table};
use crate::binary::BinaryError;
use crate::binary::pod::read_pod;
use crate::rope::Content;

/// Names in an object with device code: the registration function, or functions that the HIP runtime itself calls.
const NAMES: [&[u8]; 4] = [b"__hipRegisterFatBinary", b"hsa_", b"hsaKmt", b"amdgpu_device"];

/// Bytes searched at a time.
const STEP: u64 = 1 << 20;

/// The most entries of a dynamic section that are read. Real ones have less than a hundred.
const MAX_ENTRIES: u64 = 4096;

/// Whether there can be device code. `true` also if this check cannot decide.
pub(super) fn is_possible(content: &Arc<dyn Content>) -> Result<bool, BinaryError> {
    match registers(content) {
        Err(BinaryError::Malformed(_)) => Ok(true),
        result => result,
    }
}

fn registers(content: &Arc<dyn Content>) -> Result<bool, BinaryError> {
    let Ok(header) = read_pod::<FileHeader64<LE>>(content, 0) else { return Ok(true) };
    if header.e_ident.class != elf::ELFCLASS64 || header.e_ident.data != elf::ELFDATA2LSB {
        return Ok(true);
    }
    let segments = read_segments(content, &header)?;
    let Some(dynamic) = segments.iter().find(|segment| segment.kind == elf::PT_DYNAMIC) else { return Ok(true) };
    let entries = entries(content, dynamic, MAX_ENTRIES)?;
    let get = |wanted: DynamicTag| Some(entries.iter().rfind(|(tag, _)| *tag == wanted)?.1);
    let (Some(address), Some(size)) = (get(elf::DT_STRTAB), get(elf::DT_STRSZ)) else { return Ok(true) };
    let mut loads = segments.iter().filter(|segment| segment.kind == elf::PT_LOAD);
    let Some(offset) = loads.find_map(|load| load.offset_of(address, size)) else { return Ok(true) };
    contains_any(content, offset, size)
}

fn contains_any(content: &Arc<dyn Content>, offset: u64, size: u64) -> Result<bool, BinaryError> {
    let end = offset.saturating_add(size);
    let overlap = NAMES.iter().map(|name| name.len() as u64).max().unwrap_or(0);
    let mut at = offset;
    while at < end {
        let bytes = read_table::<u8>(content, at, STEP.min(end - at))?;
        if NAMES.iter().any(|name| memmem::find(&bytes, name).is_some()) {
            return Ok(true);
        }
        let next = at + bytes.len() as u64;
        at = if next < end { next - overlap } else { next };
    }
    Ok(false)
}

#[cfg(test)]
mod tests {

    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::binary::elf::FatElf;
    use crate::rope::{Rope, Segment as Piece};

    #[test]
    fn no_fixture_with_device_code_is_passed_over() {
        let mut ruled_out = Vec::new();
        for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                continue;
            }
            let bytes = fs::read(&path).unwrap();
            let content: Arc<dyn Content> = Arc::new(Rope::new([Piece::literal(bytes)]).unwrap());
            let mut magic = [0; 4];
            content.read_at(0, &mut magic).unwrap();
            if magic == elf::ELFMAG && !is_possible(&content).unwrap_or(true) {
                assert!(matches!(FatElf::scan(&content), Ok(None)), "{}", path.display());
                ruled_out.push(path.file_name().unwrap().to_owned());
            }
        }
        assert!(ruled_out.iter().any(|name| name == "host-only.so"), "{ruled_out:?}");
    }

    #[test]
    fn names_across_two_reads_are_found() {
        let mut bytes = vec![b'x'; usize::try_from(STEP).unwrap() * 2];
        let content = |bytes: &[u8]| -> Arc<dyn Content> { Arc::new(Rope::new([Piece::literal(bytes)]).unwrap()) };
        assert!(!contains_any(&content(&bytes), 0, bytes.len() as u64).unwrap());
        let at = usize::try_from(STEP).unwrap() - 5;
        bytes[at..at + NAMES[0].len()].copy_from_slice(NAMES[0]);
        assert!(contains_any(&content(&bytes), 0, bytes.len() as u64).unwrap());
    }
}
