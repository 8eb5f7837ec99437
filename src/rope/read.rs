//! Reading contents from the beginning to the end.

use std::ops::Range;

use super::{Content, ReadError, head_mut, to_usize};

/// Bytes read at a time.
const STEP: usize = 1 << 20;

/// Passes all bytes of a content to `take`, in pieces. The content may be larger than the memory.
pub fn read_all(content: &dyn Content, take: impl FnMut(&[u8])) -> Result<(), ReadError> {
    read_range(content, 0..content.size(), take)
}

/// Passes a range of a content to `take`, in pieces. `take` must not wait for memory; see [`super::InOrderReader`].
pub fn read_range(content: &dyn Content, range: Range<u64>, mut take: impl FnMut(&[u8])) -> Result<(), ReadError> {
    let mut reader = content.reader(range.start);
    in_pieces(range.end.saturating_sub(range.start), |piece| reader.read(piece), |piece| Ok(take(piece)))
}

/// Passes `length` bytes to `take`, in pieces that `read` fills.
pub(crate) fn in_pieces<E>(
    length: u64,
    mut read: impl FnMut(&mut [u8]) -> Result<(), E>,
    mut take: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut buffer = vec![0; to_usize(length).min(STEP)];
    let mut left = length;
    while left > 0 {
        let piece = head_mut(&mut buffer, to_usize(left).min(STEP));
        read(piece)?;
        take(piece)?;
        left -= piece.len() as u64;
    }
    Ok(())
}

/// Whether two contents have the same bytes.
pub fn equal(a: &dyn Content, b: &dyn Content) -> Result<bool, ReadError> {
    if a.size() != b.size() {
        return Ok(false);
    }
    let length = STEP.min(to_usize(a.size()));
    let (mut left, mut right) = (vec![0; length], vec![0; length]);
    let mut at = 0;
    while at < a.size() {
        let here = length.min(to_usize(a.size() - at));
        let ((left, _), (right, _)) = (left.split_at_mut(here), right.split_at_mut(here));
        a.read_at(at, left)?;
        b.read_at(at, right)?;
        if left != right {
            return Ok(false);
        }
        at += here as u64;
    }
    Ok(true)
}
