//! Where everything is in a changed file.
//!
//! Addresses never change, and so neither does the section's size in memory: "PE Format" wants sections to be in
//! ascending order and adjacent, and Windows refuses an image in which a section does not begin where the one before it
//! ends, rounded up to the section alignment. Only its size in the file is reduced, to as many units of the file alignment
//! as the form takes. What memory has beyond that is zero by the same specification, and pages of it that nobody
//! touches are never made.

use std::ops::Range;

use object::pe;

use super::FatCoff;
use super::image::{PeImage, PeSection};
use crate::binary::BinaryError;

/// What leaves the file, and what comes into it. Offsets are those of the original file.
#[derive(Debug)]
pub(super) struct PeLayout {
    /// Device code or a marker, which nothing else may refer to.
    replaced: Range<u64>,
    /// What is left out of it. What follows moves.
    pub(super) cut: Range<u64>,
    /// Bytes that stand there instead.
    pub(super) added: u64,
    /// The certificates at the end of the file.
    pub(super) certificates: Range<u64>,
}

impl PeLayout {
    /// Plans for a form of this length.
    pub(super) fn plan(fat: &FatCoff, form: u64) -> Result<Self, BinaryError> {
        let device = &fat.device;
        let loaded = fat.image.sections.get(fat.section).map_or(0, PeSection::loaded_size);
        if form > loaded {
            return Err(BinaryError::unsupported("its device code is too small"));
        }
        // What follows in the file moves by whole units, so it is aligned as before.
        let unit = fat.image.file_unit();
        let start = device.offsets.start + form.next_multiple_of(unit);
        let length = device.offsets.end.saturating_sub(start) / unit * unit;
        let start = start.min(device.offsets.end);
        let certificates = certificates(&fat.image);
        Ok(Self { replaced: device.offsets.clone(), cut: start..start + length, added: 0, certificates })
    }

    /// Plans for `added` more bytes at the end of what is replaced.
    pub(super) fn grown(image: &PeImage, replaced: Range<u64>, added: u64) -> Self {
        let cut = replaced.end..replaced.end;
        Self { replaced, cut, added, certificates: certificates(image) }
    }

    /// Where a file offset of the original is in the new file. 0 means that there is nothing, and stays.
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

/// The certificates that leave the file: all if they are the end of it, where signing puts them. Their signature does not
/// cover the new file, and one that is wrong is worse than none, as Windows takes it for a sign of tampering. Anywhere else
/// they stay, unreferenced, as a part of an overlay that is not understood.
fn certificates(image: &PeImage) -> Range<u64> {
    let file = image.content.size();
    let Some((start, size)) = image.directory(pe::IMAGE_DIRECTORY_ENTRY_SECURITY) else { return file..file };
    let is_behind = start >= image.end_of_sections();
    if is_behind && start + size == file { start..file } else { file..file }
}
