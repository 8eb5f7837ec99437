//! Which frames of an archive are made ahead of a sequential reader.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Reads count as sequential if they skip at most this many frames: requests of one reader overtake each other.
const DISORDER: usize = 8;

/// The frames of an archive in its order, and how far they were asked for ahead.
#[derive(Debug)]
pub(super) struct ReadAhead {
    /// Where each frame ends, in bytes of frames.
    ends: Vec<u64>,
    /// The number of the frame that was read last.
    last: AtomicUsize,
    /// The end of the frames that were asked for.
    asked: AtomicUsize,
}

impl ReadAhead {
    pub(super) fn new(lengths: &[u64]) -> Self {
        let ends = lengths.iter().scan(0_u64, |end, length| {
            *end = end.saturating_add(*length);
            Some(*end)
        });
        Self { ends: ends.collect(), last: AtomicUsize::new(0), asked: AtomicUsize::new(0) }
    }

    /// The frames to be made when a sequential reader has reached this one, as many as take `room` bytes. `is_made` tells
    /// whether this one is made; then there is no hurry. Each frame is asked for once in a pass, even if it does not stay
    /// until it is read.
    pub(super) fn next(&self, number: usize, room: u64, is_made: impl FnOnce() -> bool) -> Range<usize> {
        let last = self.last.swap(number, Ordering::Relaxed);
        let nothing = number..number;
        if number.abs_diff(last) > DISORDER {
            // Another reader, or another pass.
            self.asked.store(number, Ordering::Relaxed);
            return nothing;
        }
        if last > number || is_made() {
            return nothing;
        }
        let start = number.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        let end = self.ends.partition_point(|end| end.saturating_sub(start) < room);
        let begin = self.asked.fetch_max(end, Ordering::Relaxed).max(number);
        begin..end.max(begin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_asks_for_each_frame_once_even_if_none_stays() {
        let frames = ReadAhead::new(&[10; 1000]);
        for _ in 0..2 {
            let asked: Vec<_> = (0..1000).flat_map(|number| frames.next(number, 101, || false)).collect();
            assert!(asked.is_sorted() && asked.len() >= 990 && asked.len() <= 1000, "{}", asked.len());
        }
        assert_eq!(frames.next(500, 101, || false), 500..500, "a jump");
        assert_eq!(frames.next(501, 101, || false), 501..511);
        assert_eq!(frames.next(502, 101, || true), 502..502);
        assert_eq!(frames.next(503, 101, || false), 511..513);
    }
}
