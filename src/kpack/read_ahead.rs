//! Which frames of an archive are made ahead of a sequential reader.

use std::ops::Range;

use crate::sync::{Mutex, rank};

/// Reads count as sequential if they skip at most this many frames: requests of one reader overtake each other.
const DISORDER: usize = 8;

/// The most readers of one archive that are told apart, such as programs that read it at different places.
const READERS: usize = 8;

/// The frames of an archive in its order, and its sequential readers.
#[derive(Debug)]
pub(super) struct ReadAhead {
    /// Where each frame ends, in bytes of frames.
    ends: Vec<u64>,
    /// In the order of their last reads. A reader is recognized by its offset.
    readers: Mutex<Vec<FrameReader>, { rank::READERS }>,
}

#[derive(Debug, Default)]
struct FrameReader {
    /// The number of the frame that it read last.
    last: usize,
    /// The end of the frames that were asked for.
    asked: usize,
}

impl ReadAhead {
    pub(super) fn new(lengths: &[u64]) -> Self {
        let ends = lengths.iter().scan(0_u64, |end, length| {
            *end = end.saturating_add(*length);
            Some(*end)
        });
        Self { ends: ends.collect(), readers: Mutex::new(vec![FrameReader::default()]) }
    }

    /// The frames to be made when a sequential reader has reached this one, as many as take `room` bytes. `is_made` tells
    /// whether this one is made; then there is no hurry. Each frame is asked for once in a pass, even if it does not stay
    /// until it is read.
    pub(super) fn next(&self, number: usize, room: u64, is_made: impl FnOnce() -> bool) -> Range<usize> {
        let nothing = number..number;
        let mut readers = self.readers.lock();
        let Some(found) = readers.iter().rposition(|reader| number.abs_diff(reader.last) <= DISORDER) else {
            if readers.len() >= READERS {
                readers.remove(0);
            }
            readers.push(FrameReader { last: number, asked: number });
            return nothing;
        };
        let mut reader = readers.remove(found);
        let is_behind = reader.last > number;
        reader.last = number;
        let mut next = nothing;
        if !is_behind && !is_made() {
            let start = number.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
            let end = self.ends.partition_point(|end| end.saturating_sub(start) < room);
            let begin = reader.asked.max(number);
            next = begin..end.max(begin);
            reader.asked = next.end;
        }
        readers.push(reader);
        next
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

    #[test]
    fn each_of_several_readers_is_prepared_for() {
        let frames = ReadAhead::new(&[10; 1000]);
        let starts = [100, 400, 700];
        for start in starts {
            assert_eq!(frames.next(start, 101, || false), start..start, "a jump");
        }
        for start in starts {
            assert_eq!(frames.next(start + 1, 101, || false), start + 1..start + 11);
        }
    }
}
