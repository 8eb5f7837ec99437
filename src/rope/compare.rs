//! Comparing contents.

use super::{Content, ReadError, to_usize};

/// Bytes compared at a time.
const STEP: usize = 1 << 20;

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
