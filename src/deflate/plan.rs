//! Which blocks of the original's deflate stream are reused, and which ranges are encoded again.

use std::ops::Range;

use super::change::{ChangedRange, WINDOW};
use crate::rope::BlockBoundary;

/// Shorter ranges, in bytes, are not reused: after each one the encoder has to begin a new block.
const MIN_REUSED: u64 = 4 << 10;

/// The least compressed bits of a reused range, so that it has at least one byte of its own.
const MIN_REUSED_BITS: u64 = 16;

/// A piece of the new stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StreamPart {
    /// These bytes of the new content are encoded again.
    Encoded(Range<u64>),
    /// The blocks between these boundaries are reused.
    Reused(BlockBoundary, BlockBoundary),
}

/// An unchanged range of the original, and its offset in the new content.
struct UnchangedRange {
    old: Range<u64>,
    new: u64,
}

/// Divides the new content into parts. `size` is the original's size.
pub(super) fn plan(changes: &[ChangedRange], boundaries: &[BlockBoundary], size: u64) -> Vec<StreamPart> {
    let (unchanged, new_size) = unchanged(changes, size);
    let mut parts = Vec::new();
    let mut at = 0;
    for range in unchanged {
        let moved = |old: u64| range.new + (old - range.old.start);
        // After it, the decoder must have the same history. At the beginning the original had no history, so that any
        // history will do.
        let reach = if range.old.start == 0 { 0 } else { range.old.start.saturating_add(WINDOW) };
        // The last block is marked as final.
        let may_end = range.old.end == size && moved(size) == new_size;
        let usable =
            if may_end { boundaries } else { boundaries.split_last().map_or(boundaries, |(_, boundaries)| boundaries) };
        let first = usable.partition_point(|boundary| boundary.output < reach);
        let end = usable.partition_point(|boundary| boundary.output <= range.old.end);
        let Some([from, .., to]) = usable.get(first..end) else { continue };
        if to.output - from.output < MIN_REUSED || to.bit.saturating_sub(from.bit) < MIN_REUSED_BITS {
            continue;
        }
        if moved(from.output) > at {
            parts.push(StreamPart::Encoded(at..moved(from.output)));
        }
        parts.push(StreamPart::Reused(*from, *to));
        at = moved(to.output);
    }
    if at < new_size {
        parts.push(StreamPart::Encoded(at..new_size));
    }
    parts
}

/// The ranges between the changes, and the size of the new content.
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
