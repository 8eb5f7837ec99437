//! Reading a content, or a range of one, from its beginning to its end.

use std::ops::Range;

use super::{Content, ReadError, head_mut, to_usize};

/// Bytes read at a time.
const STEP: usize = 1 << 20;

/// Passes all bytes of a content to `take`, in pieces. The content may be larger than the memory.
pub fn read_all(content: &dyn Content, take: impl FnMut(&[u8])) -> Result<(), ReadError> {
    read_range(content, 0..content.size(), take)
}

/// Passes a range of a content to `take`, in pieces. `take` must not wait for memory; see [`InOrderReader`].
pub fn read_range(content: &dyn Content, range: Range<u64>, mut take: impl FnMut(&[u8])) -> Result<(), ReadError> {
    let mut buffer = vec![0; to_usize(range.end.saturating_sub(range.start)).min(STEP)];
    let mut reader = content.reader(range.start);
    let mut at = range.start;
    while at < range.end {
        let length = to_usize(range.end - at).min(STEP);
        let buffer = head_mut(&mut buffer, length);
        reader.read(buffer)?;
        take(buffer);
        at += length as u64;
    }
    Ok(())
}
