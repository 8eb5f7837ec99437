//! Ranges of bytes: whether they overlap, and where they differ.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::BinaryError;
use crate::rope::{Content, to_usize};

/// Bytes compared at a time.
pub(super) const STEP: u64 = 1 << 20;

/// Whether two of these ranges of bytes overlap; each is a start and an end.
pub(super) fn any_overlap(mut ranges: Vec<(u64, u64)>) -> bool {
    ranges.sort_unstable();
    ranges.iter().zip(ranges.iter().skip(1)).any(|((_, end), (next, _))| next < end)
}

/// `range` without the ranges of `holes`, which may overlap each other.
pub(super) fn without(range: Range<u64>, holes: &BTreeMap<u64, u64>) -> Vec<Range<u64>> {
    let mut rest = Vec::new();
    let mut at = range.start;
    for (&start, &end) in holes.range(..range.end) {
        if end <= at {
            continue;
        }
        if start > at {
            rest.push(at..start);
        }
        at = end;
    }
    if at < range.end {
        rest.push(at..range.end);
    }
    rest
}

/// The first position at which two ranges of files differ.
pub(super) fn differ(
    a: &Arc<dyn Content>,
    a_at: u64,
    b: &Arc<dyn Content>,
    b_at: u64,
    length: u64,
) -> Result<Option<u64>, BinaryError> {
    let mut done = 0;
    while done < length {
        let here = STEP.min(length - done);
        let mut pieces = [vec![0; to_usize(here)], vec![0; to_usize(here)]];
        let [left, right] = &mut pieces;
        a.read_at(a_at + done, left)?;
        b.read_at(b_at.saturating_add(done), right)?;
        if left != right {
            let equal = left.iter().zip(right.iter()).take_while(|(a, b)| a == b).count();
            return Ok(Some(done + equal as u64));
        }
        done += here;
    }
    Ok(None)
}
