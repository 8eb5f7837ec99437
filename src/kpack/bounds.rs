//! The size of an archive before its code objects are compressed.

use super::layout::ArchiveRope;
use crate::rope::SizeBounds;

/// Bytes before each frame: its length.
const LENGTH_FIELD: u64 = 4;

/// What is known of an archive's size without compressing anything: each code object may be as compressible as any input can
/// be, or not at all. All other bytes depend on names and lengths.
pub(super) fn bounds_of(archive: &ArchiveRope) -> SizeBounds {
    let (least, most): (Vec<_>, Vec<_>) =
        archive.frames().map(|frame| frame.bounds()).map(|length| (length.least, length.most)).unzip();
    let size = |lengths: &[u64]| {
        let (header, toc) = archive.frame_around(lengths);
        let frames = lengths.iter().fold(0, |sum: u64, length| sum.saturating_add(LENGTH_FIELD + length));
        frames.saturating_add((header.len() + toc.len()) as u64)
    };
    SizeBounds { least: size(&least), most: size(&most) }
}
