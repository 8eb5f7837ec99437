//! Offsets of what is looked for in the bytes of a member, found while the member is first inflated: inflating it once more to
//! search it would take as long.

use std::ops::Range;

use crate::resources::MAX_FOUND;

/// The most offsets that are kept of a member.
const MOST: usize = 64 << 10;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct FoundOffsets {
    offsets: Vec<u64>,
    /// Everything before this was looked through.
    end: u64,
    /// The last bytes before it, in which something may begin.
    tail: Vec<u8>,
}

impl FoundOffsets {
    /// Looks through the bytes at `start`, unless something before them is missing. Returns what begins in them.
    pub(super) fn observe(&mut self, start: u64, bytes: &[u8], find: impl Fn(&[u8]) -> Vec<usize>) -> Vec<u64> {
        if start != self.end || self.offsets.len() > MOST {
            return Vec::new();
        }
        let tail = self.tail.len();
        let reach = bytes.get(..bytes.len().min(MAX_FOUND - 1)).unwrap_or_default();
        let edge = [&self.tail, reach].concat();
        self.offsets.extend(find(&edge).into_iter().filter(|at| *at < tail).map(|at| start - (tail - at) as u64));
        let found: Vec<_> = find(bytes).into_iter().map(|at| start + at as u64).collect();
        self.offsets.extend(&found);
        self.end = start + bytes.len() as u64;
        let last = if bytes.len() < MAX_FOUND { &*edge } else { bytes };
        self.tail = last.get(last.len().saturating_sub(MAX_FOUND - 1)..).unwrap_or_default().to_vec();
        found
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> u64 {
        (self.offsets.capacity() * size_of::<u64>()) as u64
    }

    /// Those in a range, in ascending order. `None` unless all of it was looked through.
    pub(super) fn within(&self, range: &Range<u64>) -> Option<Vec<u64>> {
        if range.end > self.end || self.offsets.len() > MOST {
            return None;
        }
        let mut found: Vec<_> = self.offsets.iter().copied().filter(|at| range.contains(at)).collect();
        found.sort_unstable();
        found.dedup();
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(bytes: &[u8]) -> Vec<usize> {
        let all = |it: &[u8]| memchr::memmem::find_iter(bytes, it).collect::<Vec<_>>();
        let mut all = [all(b"ab"), all(b"-----------------------c")].concat();
        all.sort_unstable();
        all
    }

    #[test]
    fn what_is_found_does_not_depend_on_pieces() {
        let text = b"ab..-----------------------cab--ab-----------------------cabb".repeat(9);
        let expected: Vec<_> = find(&text).into_iter().map(|at| at as u64).collect();
        for step in [1, 2, 5, 23, 24, 25, 100, text.len()] {
            let mut found = FoundOffsets::default();
            for (number, piece) in text.chunks(step).enumerate() {
                found.observe((number * step) as u64, piece, find);
            }
            assert_eq!(found.within(&(0..text.len() as u64)).unwrap(), expected, "{step}");
            let inside: Vec<_> = expected.iter().copied().filter(|at| (30..90).contains(at)).collect();
            assert_eq!(found.within(&(30..90)).unwrap(), inside);
            assert_eq!(found.within(&(0..text.len() as u64 + 1)), None, "behind the end");
        }
    }

    #[test]
    fn nothing_is_said_where_bytes_are_missing_or_too_much_is_found() {
        let mut found = FoundOffsets::default();
        found.observe(0, b"ab", find);
        found.observe(3, b"ab", find);
        assert_eq!((found.within(&(0..2)), found.within(&(0..5))), (Some(vec![0]), None));
        let mut found = FoundOffsets::default();
        found.observe(0, &b"ab".repeat(MOST + 1), find);
        assert_eq!(found.within(&(0..2)), None);
    }
}
