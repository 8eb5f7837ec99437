//! Checked ranges, and parts of slices.

use super::ReadError;

/// A length or an offset as an index in memory. Lossless, since kpackfs is built for 64-bit systems only.
#[expect(clippy::cast_possible_truncation, reason = "the assertion proves that there is none")]
pub(crate) const fn to_usize(value: u64) -> usize {
    const { assert!(usize::BITS >= u64::BITS) };
    value as usize
}

/// The first `length` items. Panics if there are fewer, so the caller checks the length. A mount answers a panic with EIO
/// and a line in the log.
pub(crate) fn head<T>(items: &[T], length: usize) -> &[T] {
    items.split_at(length).0
}

/// Like [`head`], mutable.
pub(crate) fn head_mut<T>(items: &mut [T], length: usize) -> &mut [T] {
    items.split_at_mut(length).0
}

/// The items behind the first `length`; see [`head`].
pub(crate) fn tail<T>(items: &[T], length: usize) -> &[T] {
    items.split_at(length).1
}

/// Checks that `offset..offset + length` lies inside `size` bytes.
pub fn check_range(offset: u64, length: usize, size: u64) -> Result<(), ReadError> {
    let length = length as u64;
    match offset.checked_add(length) {
        Some(end) if end <= size => Ok(()),
        _ => Err(ReadError::OutOfRange { offset, length, size }),
    }
}

/// Fills `buffer` with the part of `bytes` that starts at `offset`. Fails if `bytes` is too short.
pub fn copy_from(bytes: &[u8], offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
    let start = to_usize(offset);
    let piece = bytes.get(start..start.saturating_add(buffer.len()));
    let out_of_range = || ReadError::OutOfRange { offset, length: buffer.len() as u64, size: bytes.len() as u64 };
    buffer.copy_from_slice(piece.ok_or_else(out_of_range)?);
    Ok(())
}
