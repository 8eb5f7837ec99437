//! The image checksum. "PE Format" refers to `IMAGHELP.DLL` (`CheckSumMappedFile`) for it: the ones' complement sum of
//! all 16-bit words of the file except those of the checksum field, plus the file's length.

use std::sync::Arc;

use object::pe::{ImageNtHeaders64, ImageOptionalHeader64};

use crate::rope::{Content, LazyContent, ReadError, Rope, Segment, read_all};

/// Offset of the field from the beginning of the headers.
pub(super) const FIELD: u64 = (std::mem::offset_of!(ImageNtHeaders64, optional_header)
    + std::mem::offset_of!(ImageOptionalHeader64, check_sum)) as u64;

/// Bytes of the field.
pub(in crate::binary) const CHECKSUM_SIZE: u64 = 4;

/// The four bytes of the checksum of a file that has zeros in the field. They depend on the whole file, and are computed when they
/// are read first.
pub(in crate::binary) fn computed_checksum(file: Arc<dyn Content>) -> LazyContent {
    LazyContent::new("checksum", CHECKSUM_SIZE, None, move || {
        Rope::new([Segment::literal(compute(&*file)?.to_le_bytes())])
    })
}

pub(super) fn compute(file: &dyn Content) -> Result<u32, ReadError> {
    let size = file.size();
    let mut sum = 0_u64;
    // All pieces but the last have an even length, so that no word is split.
    read_all(file, |piece| {
        let (words, last) = piece.as_chunks::<2>();
        sum += words.iter().map(|word| u64::from(u16::from_le_bytes(*word))).sum::<u64>();
        // A file of odd length ends with half a word.
        sum += last.first().map_or(0, |&byte| u64::from(byte));
    })?;
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    // Offsets in an image have 32 bits. The length of a larger overlay is truncated to the width of the field.
    let length = u32::try_from(size & u64::from(u32::MAX)).unwrap_or(u32::MAX);
    Ok(u32::try_from(sum).unwrap_or(u32::MAX).wrapping_add(length))
}
