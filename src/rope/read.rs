//! Reading contents from the beginning to the end.

use std::ops::Range;

use super::content::PositionedReader;
use super::{Content, InOrderReader, ReadError, head_mut, to_usize};

/// Bytes read at a time: few enough to be in the processor's cache when they are used, and for each thread to have as many.
const STEP: usize = 256 << 10;

/// Bytes that are compared at a time. Bundles that differ do so in their first bytes, where their tables are.
const COMPARED: usize = 64 << 10;

/// Passes all bytes of a content to `take`, in pieces. The content may be larger than the memory.
pub fn read_all(content: &dyn Content, take: impl FnMut(&[u8])) -> Result<(), ReadError> {
    read_range(content, 0..content.size(), take)
}

/// Passes a range of a content to `take`, in pieces. `take` must not wait for memory; see [`super::InOrderReader`].
pub fn read_range(content: &dyn Content, range: Range<u64>, mut take: impl FnMut(&[u8])) -> Result<(), ReadError> {
    let mut reader = content.reader(range.start);
    let pass = |piece: &[u8]| {
        take(piece);
        Ok(())
    };
    in_pieces(range.end.saturating_sub(range.start), |piece| reader.read(piece), pass)
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
    // Their own readers may hold memory of one class each, for which one of them would wait.
    let readers = [a, b].map(|content| Box::new(PositionedReader { content, at: 0 }) as Box<dyn InOrderReader>);
    Ok(a.size() == b.size() && are_equal(readers, a.size())?)
}

/// Whether the next `length` bytes of two readers are equal.
pub(crate) fn are_equal(
    [mut left, mut right]: [Box<dyn InOrderReader + '_>; 2],
    length: u64,
) -> Result<bool, ReadError> {
    let mut buffers = [(); 2].map(|()| vec![0; to_usize(length).min(COMPARED)]);
    let mut rest = length;
    while rest > 0 {
        let here = to_usize(rest).min(COMPARED);
        let [mine, others] = buffers.each_mut().map(|buffer| head_mut(buffer, here));
        left.read(mine)?;
        right.read(others)?;
        if mine != others {
            return Ok(false);
        }
        rest -= here as u64;
    }
    Ok(true)
}
