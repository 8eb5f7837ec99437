//! Reads the markers of a split file.

use std::sync::Arc;

use super::image::{ElfImage, ElfSection};
use crate::binary::BinaryError;
use crate::binary::marker::MAX_MARKER;
use crate::rope::to_usize;

/// Whether an address is in a section.
pub(super) fn contains(section: &ElfSection, address: u64) -> bool {
    address.checked_sub(section.address).is_some_and(|inside| inside < section.size)
}

/// The bytes at a pointer that are mapped from the file, up to the end of the marker's section if the pointer is in it.
pub(super) fn read_marker(
    image: &ElfImage,
    section: Option<&ElfSection>,
    address: u64,
) -> Result<Arc<[u8]>, BinaryError> {
    let unmapped = || BinaryError::malformed(format!("its pointer leads to {address:#x}, where nothing is loaded"));
    let rest = image.loaded_from(address).ok_or_else(unmapped)?;
    let in_section = section.filter(|section| contains(section, address));
    let limit = in_section.map_or(u64::MAX, |section| section.size - (address - section.address));
    let length = rest.min(limit).min(MAX_MARKER);
    let offset = image.offset_of(address, length).ok_or_else(unmapped)?;
    let mut bytes = vec![0; to_usize(length)];
    image.content.read_at(offset, &mut bytes)?;
    Ok(bytes.into())
}
