//! Where everything is in the rewritten file.
//!
//! Addresses never change, and so neither does the section's size in memory: "PE Format" wants sections to be in
//! ascending order and adjacent, and Windows refuses an image in which a section does not begin where the one before it
//! ends, rounded up to the section alignment. Only its size in the file is reduced, to as many units of the file alignment
//! as the form takes. What memory has beyond that is zero by the same specification, and pages of it that nobody
//! touches are never made.

use std::ops::Range;

use object::LittleEndian as LE;
use object::pe;

use super::FatCoff;
use crate::binary::BinaryError;

/// What leaves the file. Offsets are those of the original file.
#[derive(Debug)]
pub(super) struct Layout {
    /// The device code, which nothing else may refer to.
    device: Range<u64>,
    /// The device code but for its first bytes.
    pub(super) cut: Range<u64>,
    /// The certificates at the end of the file.
    pub(super) certificates: Range<u64>,
}

impl Layout {
    /// Plans for a form of this length.
    pub(super) fn plan(fat: &FatCoff, form: u64) -> Result<Self, BinaryError> {
        let device = &fat.device;
        let loaded = fat.image.sections.get(fat.section).map_or(0, super::Section::loaded_size);
        if form > loaded {
            return Err(BinaryError::unsupported("its device code is too small"));
        }
        // What follows in the file moves by whole units, so it is aligned as before.
        let unit = u64::from(fat.image.headers.optional_header.file_alignment.get(LE)).max(1);
        let start = device.offsets.start + form.next_multiple_of(unit);
        let length = device.offsets.end.saturating_sub(start) / unit * unit;
        let start = start.min(device.offsets.end);
        Ok(Self { device: device.offsets.clone(), cut: start..start + length, certificates: certificates(fat) })
    }

    /// Where a file offset of the original is in the new file. 0 means that there is nothing, and stays.
    pub(super) fn moved(&self, offset: u32) -> Result<u32, BinaryError> {
        let old = u64::from(offset);
        if self.device.contains(&old) || self.certificates.contains(&old) {
            return Err(BinaryError::unsupported(format!("its headers refer to offset {old:#x}, which is replaced")));
        }
        let new = if old >= self.cut.end { old - (self.cut.end - self.cut.start) } else { old };
        u32::try_from(new).map_err(|_| BinaryError::malformed("an offset does not fit"))
    }
}

/// The certificates that leave the file: all if they are the end of it, where signing puts them. Their signature does not
/// cover the new file, and one that is wrong is worse than none, as Windows takes it for a sign of tampering. Anywhere else
/// they stay, unreferenced, as a part of an overlay that is not understood.
fn certificates(fat: &FatCoff) -> Range<u64> {
    let file = fat.image.content.size();
    let Some((start, size)) = fat.image.directory(pe::IMAGE_DIRECTORY_ENTRY_SECURITY) else { return file..file };
    let sections = fat.image.sections.iter().filter(|section| section.raw_size > 0).map(super::Section::end);
    let is_behind = sections.max().is_some_and(|end| start >= end);
    if is_behind && start + size == file { start..file } else { file..file }
}
