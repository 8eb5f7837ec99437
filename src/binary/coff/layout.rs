//! The layout of a rewritten file.
//!
//! Addresses never change, and neither does the section's size in memory. "PE Format" requires sections to be ascending
//! and adjacent. Windows refuses an image in which a section does not begin at the end of the one before it, rounded up
//! to the section alignment. Only the section's size in the file is reduced, to the units of file alignment that the
//! form needs. By the same specification, memory beyond that is zero, and its pages are allocated only when they are
//! accessed.

use std::ops::Range;

use object::pe;

use super::FatCoff;
use super::image::{PeImage, PeSection};
use crate::binary::BinaryError;

/// The bytes that are removed and added. Offsets are those of the original file.
#[derive(Debug)]
pub(super) struct PeLayout {
    /// Device code or a marker. Nothing else may refer to it.
    replaced: Range<u64>,
    /// The part that is removed. What follows it moves.
    pub(super) cut: Range<u64>,
    /// Bytes that are added in its place.
    pub(super) added: u64,
    /// The certificates at the end of the file, which are removed.
    pub(super) certificates: Range<u64>,
}

impl PeLayout {
    /// The layout for a form of this length.
    pub(super) fn plan(fat: &FatCoff, form: u64) -> Result<Self, BinaryError> {
        let device = &fat.device;
        let loaded = fat.image.sections.get(fat.section).map_or(0, PeSection::loaded_size);
        if form > loaded {
            return Err(BinaryError::unsupported("its device code is too small"));
        }
        // The rest of the file moves by whole units, so its alignment stays the same.
        let unit = fat.image.file_unit();
        let start = device.offsets.start + form.next_multiple_of(unit);
        let length = device.offsets.end.saturating_sub(start) / unit * unit;
        let start = start.min(device.offsets.end);
        let certificates = certificates(&fat.image);
        Ok(Self { replaced: device.offsets.clone(), cut: start..start + length, added: 0, certificates })
    }

    /// The layout with `added` more bytes at the end of `replaced`.
    pub(super) fn grown(image: &PeImage, replaced: Range<u64>, added: u64) -> Self {
        let cut = replaced.end..replaced.end;
        Self { replaced, cut, added, certificates: certificates(image) }
    }

    /// The offset in the new file of an offset of the original. 0 means "none" and stays 0.
    pub(super) fn moved(&self, offset: u32) -> Result<u32, BinaryError> {
        let old = u64::from(offset);
        if self.replaced.contains(&old) || self.certificates.contains(&old) {
            return Err(BinaryError::unsupported(format!("its headers refer to offset {old:#x}, which is replaced")));
        }
        let moves = old >= self.cut.end && old > 0;
        let new = if moves { old - (self.cut.end - self.cut.start) + self.added } else { old };
        u32::try_from(new).map_err(|_| BinaryError::malformed("an offset does not fit"))
    }
}

/// The certificates to remove: all, if they are at the end of the file, where signing puts them. Their signature does
/// not cover the new file. Windows takes a wrong signature for a sign of tampering, so no signature is better.
/// Certificates elsewhere stay, unreferenced, as a part of an unknown overlay.
fn certificates(image: &PeImage) -> Range<u64> {
    let file = image.content.size();
    let Some((start, size)) = image.directory(pe::IMAGE_DIRECTORY_ENTRY_SECURITY) else { return file..file };
    let is_behind = start >= image.end_of_sections();
    if is_behind && start + size == file { start..file } else { file..file }
}
