//! File offsets in an image, apart from those of sections' bytes: headers, debug data, certificates.

use object::pe::{self, ImageDataDirectory, ImageDebugDirectory, ImageNtHeaders64, ImageSectionHeader};
use object::pod::{bytes_of, bytes_of_slice, slice_from_bytes};
use object::{LittleEndian as LE, U32};

use super::checksum::{CHECKSUM_SIZE, FIELD};
use super::image::{PeImage, PeSection};
use super::layout::PeLayout;
use crate::binary::BinaryError;
use crate::binary::changes::{Patch, PatchPiece};
use crate::rope::{head, tail, to_usize};

/// The most debug directory entries that are read. Linkers write a few.
pub(super) const MAX_DEBUG: u64 = 1024;

/// The header of a section in the new file. A section that is replaced keeps its offset.
pub(super) fn moved_section(
    section: &PeSection,
    is_replaced: bool,
    layout: &PeLayout,
) -> Result<ImageSectionHeader, BinaryError> {
    let mut header = section.header;
    if section.raw_size > 0 && !is_replaced {
        header.pointer_to_raw_data = U32::new(LE, layout.moved(header.pointer_to_raw_data.get(LE))?);
    }
    header.pointer_to_relocations = U32::new(LE, layout.moved(header.pointer_to_relocations.get(LE))?);
    header.pointer_to_linenumbers = U32::new(LE, layout.moved(header.pointer_to_linenumbers.get(LE))?);
    Ok(header)
}

/// The file and optional header, without a checksum.
pub(super) fn moved_headers(image: &PeImage, layout: &PeLayout) -> Result<ImageNtHeaders64, BinaryError> {
    let mut headers = image.headers;
    let symbols = layout.moved(headers.file_header.pointer_to_symbol_table.get(LE))?;
    headers.file_header.pointer_to_symbol_table = U32::new(LE, symbols);
    headers.optional_header.check_sum = U32::new(LE, 0);
    Ok(headers)
}

/// Replaces the image's headers. If the file had a checksum, a new one is computed.
pub(super) fn patch_headers(image: &PeImage, headers: &ImageNtHeaders64) -> Patch {
    let (start, bytes) = (image.headers_offset, bytes_of(headers));
    if image.headers.optional_header.check_sum.get(LE) == 0 {
        return Patch::overwrite(start, bytes);
    }
    let field = to_usize(FIELD);
    let behind = field + to_usize(CHECKSUM_SIZE);
    let replacement =
        vec![PatchPiece::literal(head(bytes, field)), PatchPiece::Checksum, PatchPiece::literal(tail(bytes, behind))];
    Patch { start, end: start + bytes.len() as u64, replacement }
}

/// Moves the debug directory's file offsets. It has RVAs as well, because debug data need not be loaded.
pub(super) fn move_debug_data(image: &PeImage, layout: &PeLayout) -> Result<Option<Patch>, BinaryError> {
    let Some((address, size)) = image.directory(pe::IMAGE_DIRECTORY_ENTRY_DEBUG) else { return Ok(None) };
    let count = size / size_of::<ImageDebugDirectory>() as u64;
    if count > MAX_DEBUG {
        return Err(BinaryError::unsupported(format!("it has {count} debug directory entries")));
    }
    let addresses = address..address + size;
    // Relocations, for example, would have other addresses after the change.
    if let Some(other) = image.directories_in(&addresses).find(|&number| number != pe::IMAGE_DIRECTORY_ENTRY_DEBUG) {
        return Err(BinaryError::unsupported(format!("data directory {other} overlaps its debug directory")));
    }
    let malformed = || BinaryError::malformed("its debug directory is not in the file");
    let start = image.offset_of(address, size).ok_or_else(malformed)?;
    let bytes = image.read_at_address(address, size)?;
    let count = usize::try_from(count).map_err(|_| malformed())?;
    let (entries, _) = slice_from_bytes::<ImageDebugDirectory>(&bytes, count).map_err(|()| malformed())?;
    let mut entries = entries.to_vec();
    for entry in &mut entries {
        entry.pointer_to_raw_data = U32::new(LE, layout.moved(entry.pointer_to_raw_data.get(LE))?);
    }
    Ok(Some(Patch::overwrite(start, bytes_of_slice(&entries))))
}

/// Removes the reference to the signature, which is invalid after any change; see [`PeLayout::certificates`].
pub(super) fn drop_signature(image: &PeImage, layout: &PeLayout) -> Vec<Patch> {
    let index = pe::IMAGE_DIRECTORY_ENTRY_SECURITY;
    if image.directories.get(index).is_none() {
        return Vec::new();
    }
    let size = size_of::<ImageDataDirectory>();
    let entry = image.directories_offset() + (index * size) as u64;
    vec![Patch::overwrite(entry, vec![0; size]), Patch::cut(layout.certificates.start, layout.certificates.end)]
}
