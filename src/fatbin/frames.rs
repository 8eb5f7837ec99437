//! Zstd files of several frames (RFC 8878), which pzstd writes: with a frame before each that decoders skip.

use std::sync::Arc;

use super::packing::frame_header_size;
use crate::rope::{Content, ReadError, Rope, Segment, head_mut, to_usize};

/// The magic of a zstd frame.
const ZSTD: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];

/// Bytes of the longest header of a frame, and of that of a block (RFC 8878, 3.1.1.1 and 3.1.1.2).
pub(crate) const MAX_FRAME_HEADER: u64 = 18;
pub(super) const BLOCK_HEADER: u64 = 3;

/// Bytes of the header of a frame that is skipped: its magic and its length.
const SKIPPED_HEADER: usize = 8;

/// The most frames that are skipped.
const MAX_SKIPPED: usize = 16;

/// Bytes of a content whose size is not known, so that everything that it claims fits.
pub(crate) const ANY_SIZE: u64 = 1 << 40;

/// Whether this begins as a frame that decoders skip (RFC 8878, 3.1.2).
pub(crate) fn is_skipped_frame(head: &[u8]) -> bool {
    matches!(head, [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..])
}

/// A zstd file from its first frame on. Frames before it that decoders skip are left out: pzstd writes one.
/// `None` if it is no such file.
pub(crate) fn from_first_frame(content: &Arc<dyn Content>) -> Result<Option<Arc<dyn Content>>, ReadError> {
    let (mut start, size) = (0, content.size());
    for _ in 0..=MAX_SKIPPED {
        let mut head = [0; SKIPPED_HEADER];
        let length = to_usize(size.saturating_sub(start)).min(SKIPPED_HEADER);
        let bytes = head_mut(&mut head, length);
        if start == 0 {
            content.peek(bytes)?;
        } else {
            content.read_at(start, bytes)?;
        }
        match head {
            _ if head.starts_with(&ZSTD) && start == 0 => return Ok(Some(Arc::clone(content))),
            _ if head.starts_with(&ZSTD) => {
                return Ok(Some(Arc::new(Rope::new([Segment::range(Arc::clone(content), start, size - start)?])?)));
            }
            [_, _, _, _, length @ ..] if is_skipped_frame(&head) => {
                start = start.saturating_add(SKIPPED_HEADER as u64).saturating_add(u32::from_le_bytes(length).into());
            }
            _ => break,
        }
    }
    Ok(None)
}

/// What `read` makes of what the frames of a file hold, by its size: that which the first frame states, or any if further frames
/// follow. These are looked for if the stated size is too small, at the cost of `spend` for each block of the first frame.
pub(crate) fn in_frames<T>(
    content: &dyn Content,
    stated: Option<u64>,
    spend: impl FnMut() -> Option<()>,
    read: impl Fn(u64) -> Option<T>,
) -> Option<T> {
    let has_further = || {
        let end = frame_length(content, 0, content.size(), spend)?;
        let next = header_at(content, end, content.size(), ZSTD.len() as u64)?;
        Some(next == ZSTD || is_skipped_frame(&next)).filter(|is_frame| *is_frame)
    };
    read(stated.unwrap_or(ANY_SIZE)).or_else(|| stated.and_then(|_| has_further()).and_then(|_| read(ANY_SIZE)))
}

/// The bytes of a frame in a file, at most those up to `end`: the header, then blocks with a header of three bytes each, and a
/// checksum (RFC 8878, 3.1.1). `None` if it does not end there, or `spend` fails, which is called for each block.
pub(crate) fn frame_length(
    content: &dyn Content,
    start: u64,
    end: u64,
    mut spend: impl FnMut() -> Option<()>,
) -> Option<u64> {
    let beginning = header_at(content, start, end, MAX_FRAME_HEADER)?;
    let checksum = if beginning.get(4)? & 4 == 0 { 0 } else { 4 };
    let mut at = start.checked_add(frame_header_size(&beginning)?)?;
    loop {
        spend()?;
        let [low, middle, high] = header_at(content, at, end, BLOCK_HEADER)?[..] else { return None };
        let header = u32::from_le_bytes([low, middle, high, 0]);
        // Type 1 is a byte that is repeated.
        let size = if header >> 1 & 3 == 1 { 1 } else { header >> 3 };
        at = at.checked_add(BLOCK_HEADER)?.checked_add(size.into())?;
        if header & 1 != 0 {
            let end_of_frame = at.checked_add(checksum)?;
            return (end_of_frame <= end).then(|| end_of_frame - start);
        }
    }
}

/// The first bytes between two offsets, or all of them. `length` is that of a header.
pub(crate) fn header_at(content: &dyn Content, start: u64, end: u64, length: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; to_usize(length.min(end.checked_sub(start)?))];
    content.read_at(start, &mut bytes).ok()?;
    Some(bytes)
}
