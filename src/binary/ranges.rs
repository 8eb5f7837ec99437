//! Ranges of bytes that overlap.

use std::collections::BTreeMap;
use std::ops::Range;

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
