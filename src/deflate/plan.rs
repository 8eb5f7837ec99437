//! Which blocks of the original's deflate stream are taken over, and what is encoded again.

use std::ops::Range;

use super::WINDOW;
use super::change::ChangedRange;
use crate::rope::BlockBoundary;

/// Shorter stretches are not worth taking over: each one makes the encoder begin a new block behind it.
const WORTH: u64 = 4 << 10;

/// The same in compressed bits, so that a stretch has at least a byte of its own.
const WORTH_BITS: u64 = 16;

/// A piece of the new stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StreamPart {
    /// These bytes of the new content are encoded again.
    Anew(Range<u64>),
    /// The blocks between these boundaries are taken over.
    TakenOver(BlockBoundary, BlockBoundary),
}

/// An unchanged range of the original and where it begins in the new content.
struct UnchangedRange {
    old: Range<u64>,
    new: u64,
}

/// Divides the new content. `size` is the original's.
pub(super) fn plan(changes: &[ChangedRange], boundaries: &[BlockBoundary], size: u64) -> Vec<StreamPart> {
    let (unchanged, new_size) = unchanged(changes, size);
    let mut parts = Vec::new();
    let mut at = 0;
    for range in unchanged {
        let moved = |old: u64| range.new + (old - range.old.start);
        // The decoder must find the same history behind it. At its beginning the original had none, so that there any
        // will do.
        let reach = if range.old.start == 0 { 0 } else { range.old.start.saturating_add(WINDOW) };
        // The last block is marked as final.
        let may_end = range.old.end == size && moved(size) == new_size;
        let usable =
            if may_end { boundaries } else { boundaries.split_last().map_or(boundaries, |(_, boundaries)| boundaries) };
        let first = usable.partition_point(|boundary| boundary.output < reach);
        let end = usable.partition_point(|boundary| boundary.output <= range.old.end);
        let Some([from, .., to]) = usable.get(first..end) else { continue };
        if to.output - from.output < WORTH || to.bit.saturating_sub(from.bit) < WORTH_BITS {
            continue;
        }
        if moved(from.output) > at {
            parts.push(StreamPart::Anew(at..moved(from.output)));
        }
        parts.push(StreamPart::TakenOver(*from, *to));
        at = moved(to.output);
    }
    if at < new_size {
        parts.push(StreamPart::Anew(at..new_size));
    }
    parts
}

/// What lies between the changes, and the new content's size.
fn unchanged(changes: &[ChangedRange], size: u64) -> (Vec<UnchangedRange>, u64) {
    let mut ranges = Vec::with_capacity(changes.len() + 1);
    let (mut old, mut new) = (0, 0);
    for change in changes {
        ranges.push(UnchangedRange { old: old..change.start, new });
        new += change.start - old + change.added;
        old = change.end;
    }
    ranges.push(UnchangedRange { old: old..size, new });
    (ranges, new + (size - old))
}
