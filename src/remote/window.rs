//! Which bytes a request asks for, so that few requests are made and few bytes come that nobody reads.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::rope::to_usize;

/// Bytes of a block, the unit in which a file is kept.
pub(super) const BLOCK: u64 = 16 << 10;

/// The most bytes of one request.
const MOST: u64 = 8 << 20;

/// Members that take less are read with their neighbours: reading these takes no longer than another request.
const SMALL: u64 = 256 << 10;

/// The same of binaries that are not deflated, of which headers, tables and data are read at some places.
const SMALL_BINARY: u64 = 2 << 20;

/// The blocks of a request for a part of such a binary: its tables are near each other. As many of an answer are read at once, so that
/// its connection is free again.
pub(super) const NEAR: u64 = 32;

/// A block is read with up to so many between it and one that is there: reading these takes no longer than another request.
const REACH: u64 = 64;

/// A reader that has read some bytes in order will read this multiple of them.
const GROWTH: u64 = 2;

/// Bytes at the beginning and at the end of a binary that have its tables, deflated.
const TABLES: u64 = 1 << 20;

/// How a member is likely to be read. A wrong guess costs requests or bytes, and no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemberAccess {
    /// To its end, which is where a binary has the table of its sections.
    Whole,
    /// Headers, tables and data of a binary.
    Sections,
    /// Its beginning, or pieces of it.
    Pieces,
}

/// How a block is read after it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockUse {
    /// Again: it is at the beginning or at the end of a binary that is inflated.
    Tables,
    /// Once: it is between these.
    Passing,
    /// By others that need neighbouring members.
    Other,
}

/// A part of the file.
#[derive(Debug)]
struct FilePart {
    end: u64,
    /// Whether it is several members that are read together.
    is_group: bool,
    access: MemberAccess,
    /// Whether all of it was asked for.
    is_asked: AtomicBool,
}

/// The parts of a file, in order.
#[derive(Debug, Default)]
pub(super) struct FileParts(Vec<FilePart>);

impl FileParts {
    /// The parts of a file whose members end here. At most `most` bytes are read at a time.
    pub(super) fn of_members(mut members: Vec<(u64, MemberAccess)>, most: u64) -> Self {
        members.sort_unstable_by_key(|(end, _)| *end);
        let mut parts: Vec<FilePart> = Vec::new();
        let (mut start, mut of_group) = (0, 0);
        for (end, access) in members {
            let small = match access {
                MemberAccess::Whole => most,
                MemberAccess::Sections => SMALL_BINARY.min(most),
                MemberAccess::Pieces => SMALL,
            };
            let is_group = end - start <= small;
            let group = parts.last_mut().filter(|last| last.is_group && is_group && end - of_group <= most);
            if let Some(group) = group {
                group.end = end;
            } else {
                of_group = start;
                let access = if is_group { MemberAccess::Pieces } else { access };
                parts.push(FilePart { end, is_group, access, is_asked: AtomicBool::new(false) });
            }
            start = end;
        }
        Self(parts)
    }

    /// How a block is read after it has come.
    pub(super) fn use_of(&self, block: u64) -> BlockUse {
        let (offset, last) = (block * BLOCK, block * BLOCK + BLOCK - 1);
        let parts = [offset, last].into_iter().filter_map(|byte| self.at(byte));
        let inflated = parts.filter(|(_, part)| part.access == MemberAccess::Whole);
        let is_near = |(start, part): (u64, &FilePart)| last < start + TABLES + BLOCK || part.end < offset + TABLES;
        match inflated.map(is_near).max() {
            Some(true) => BlockUse::Tables,
            Some(false) => BlockUse::Passing,
            None => BlockUse::Other,
        }
    }

    /// Where the part with this byte begins, and the part.
    fn at(&self, offset: u64) -> Option<(u64, &FilePart)> {
        let number = self.0.partition_point(|part| part.end <= offset);
        let start = number.checked_sub(1).and_then(|before| self.0.get(before)).map_or(0, |before| before.end);
        Some((start, self.0.get(number)?))
    }
}

/// What a request is decided by.
pub(super) struct WindowFacts<'a> {
    /// The bytes that are not kept from the beginning.
    pub(super) size: u64,
    /// The parts, once they are known.
    pub(super) parts: Option<&'a FileParts>,
    /// The most bytes of one request.
    pub(super) most: u64,
    /// Whether a block is there, or is on its way.
    pub(super) is_there: &'a dyn Fn(u64) -> bool,
}

/// The most bytes of one request with a cache of this size, in which those of several readers have room.
pub(super) fn most(cache: u64) -> u64 {
    MOST.min(cache / 4).max(BLOCK)
}

/// The most bytes of members that are asked for together. The cache holds them for readers that come in another order.
pub(super) fn most_together(cache: u64) -> u64 {
    (cache / 2).max(BLOCK)
}

impl FilePart {
    /// Whether all of it is asked for with this call.
    fn ask(&self) -> bool {
        !self.is_asked.swap(true, Ordering::Relaxed)
    }
}

impl WindowFacts<'_> {
    /// The blocks to ask for if these bytes are read, the first of which are missing.
    pub(super) fn blocks(&self, wanted: &Range<u64>) -> Range<u64> {
        let first = wanted.start / BLOCK;
        let found = self.parts.and_then(|parts| parts.at(wanted.start));
        let end = found.map_or(self.size, |(_, part)| part.end.min(self.size)).div_ceil(BLOCK).max(first + 1);
        let access = found.map(|(_, part)| part.access);
        if let Some((start, part)) = found.filter(|(_, part)| part.is_group && part.ask()) {
            let next = self.parts.and_then(|parts| parts.at(part.end)).map(|(_, next)| next);
            let whole =
                next.filter(|next| next.access == MemberAccess::Whole && !next.is_asked.load(Ordering::Relaxed));
            let end = whole.map_or(end, |next| next.end.min(self.size).div_ceil(BLOCK));
            // With the end of what is before it, where an archive has its table of contents, and with the binary behind it.
            let asked = self.missing(access, start / BLOCK / NEAR * NEAR..end, first);
            // Much that is there may be in front of it.
            whole.filter(|_| asked.end > part.end.div_ceil(BLOCK)).map(FilePart::ask);
            return asked;
        }
        let most = self.most / BLOCK;
        // Bundles in a library that is stored, and lengths in front of code objects, are near each other.
        let reach = if access == Some(MemberAccess::Whole) { 1 } else { REACH };
        let before = (first.saturating_sub(reach)..first).rev().find(|block| (self.is_there)(*block));
        let in_order = (0..before.unwrap_or(0)).rev().take(to_usize(most / GROWTH));
        let in_order = in_order.take_while(|block| (self.is_there)(*block)).count() as u64;
        let read = before.map_or(0, |before| first - before + in_order);
        let asked = wanted.end.div_ceil(BLOCK) - first;
        let is_begun = |start: u64| read > 0 || first == start / BLOCK;
        let length = match found {
            // Once. What is not kept of it is in pieces.
            Some((start, part)) if part.access == MemberAccess::Whole && is_begun(start) && part.ask() => end - first,
            // The directory is read to its end, which is near that of the file.
            None if end - first <= most => most,
            _ => asked.max(read * GROWTH).clamp(1, most),
        };
        // Tables at the end of a binary come with those at the beginning of the next one.
        let near = if access == Some(MemberAccess::Sections) { NEAR.min(most) } else { 1 };
        let start = first / near * near;
        let end = end.min(first + length).max(start + near).min(self.size.div_ceil(BLOCK));
        self.missing(access, start..end, first)
    }

    /// The blocks around `wanted`, up to those that are there. Of small members some are read again, for those behind them that are missing.
    fn missing(&self, access: Option<MemberAccess>, window: Range<u64>, wanted: u64) -> Range<u64> {
        let before = (window.start..wanted).rev().take_while(|block| !(self.is_there)(*block)).count() as u64;
        let reach = if access == Some(MemberAccess::Pieces) { REACH } else { 1 };
        let mut last = wanted;
        for block in (wanted..window.end).filter(|block| !(self.is_there)(*block)) {
            if block - last > reach {
                break;
            }
            last = block;
        }
        wanted - before..last + 1
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    use super::MemberAccess::{self, Pieces, Sections, Whole};
    use super::{BLOCK, BlockUse, FileParts, NEAR, SMALL, WindowFacts, most, to_usize};

    /// The requests for a file of this size when these bytes are read in order.
    fn requests(
        size: u64,
        members: Option<Vec<(u64, MemberAccess)>>,
        reads: impl IntoIterator<Item = u64>,
    ) -> Vec<(u64, u64)> {
        requests_for_rest([], size, members, reads)
    }

    /// The same if some blocks are there.
    fn requests_for_rest(
        kept: impl IntoIterator<Item = u64>,
        size: u64,
        members: Option<Vec<(u64, MemberAccess)>>,
        reads: impl IntoIterator<Item = u64>,
    ) -> Vec<(u64, u64)> {
        let most = most(128 << 20);
        let parts = members.map(|members| FileParts::of_members(members, most));
        let there = RefCell::new(BTreeSet::from_iter(kept));
        let is_there = |block: u64| there.borrow().contains(&block);
        let facts = WindowFacts { size, parts: parts.as_ref(), most, is_there: &is_there };
        let mut made = Vec::new();
        for offset in reads {
            if !is_there(offset / BLOCK) {
                let blocks = facts.blocks(&(offset..offset + 1));
                assert!(blocks.contains(&(offset / BLOCK)) && !is_there(blocks.start) && !is_there(blocks.end - 1));
                made.push((blocks.start, blocks.end));
                there.borrow_mut().extend(blocks);
            }
        }
        made
    }

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_large_member_costs_a_block_or_few_requests() {
        let members = |access| Some(vec![(SMALL / 2, Pieces), (100 * MIB, access)]);
        assert_eq!(requests(100 * MIB, members(Pieces), [SMALL / 2]), [(8, 9)]);
        assert_eq!(requests(100 * MIB, members(Whole), [SMALL / 4, SMALL / 2, 50 * MIB]).len(), 1);
        for (access, most) in [(Pieces, 100 / 8 + 7), (Sections, 100 / 8 + 4), (Whole, 1)] {
            let read = requests(100 * MIB, members(access), (SMALL / 2..100 * MIB).step_by(4096));
            assert!(read.len() as u64 <= most, "{read:?}");
            assert_eq!(read.last().unwrap().1, 100 * MIB / BLOCK);
        }
    }

    #[test]
    fn members_that_are_read_anyway_are_read_together_in_any_order() {
        for (length, access) in [(10_000, Pieces), (1_000_000, Whole)] {
            let members: Vec<_> = (1..=100_000_000 / length).map(|number| (number * length, access)).collect();
            for order in [members.clone(), members.iter().rev().copied().collect()] {
                let made = requests(100_000_000, Some(members.clone()), order.iter().map(|(end, _)| end - 5000));
                assert!(made.len() <= 13, "{made:?}");
            }
        }
    }

    #[test]
    fn what_is_not_kept_of_a_member_is_read_in_pieces() {
        let parts = FileParts::of_members(vec![(100 * MIB, Whole)], most(128 << 20));
        let facts = WindowFacts { size: 100 * MIB, parts: Some(&parts), most: most(128 << 20), is_there: &|_| false };
        assert_eq!(facts.blocks(&(0..1)), 0..100 * MIB / BLOCK);
        assert_eq!(facts.blocks(&(0..1)), 0..1);
        // Nor are its neighbours, if they were read with it.
        let members = (1..=100).map(|number| (number * 10_000, Pieces)).collect();
        let parts = FileParts::of_members(members, most(128 << 20));
        let facts = WindowFacts { size: MIB, parts: Some(&parts), ..facts };
        assert_eq!(facts.blocks(&(500_000..500_001)), 0..1_000_000_u64.div_ceil(BLOCK));
        assert_eq!(facts.blocks(&(0..1)), 0..1);
    }

    #[test]
    fn a_binary_that_is_not_reached_with_the_members_before_it_is_read_at_once_later() {
        let members = (1..=20).map(|number| (number * BLOCK * 10, Pieces)).chain([(50 * MIB, Whole)]).collect();
        let read = requests_for_rest(10..190, 50 * MIB, Some(members), [0, 190 * BLOCK, 200 * BLOCK]);
        assert_eq!(read, [(0, 10), (190, 200), (200, 50 * MIB / BLOCK)]);
    }

    #[test]
    fn tables_are_at_both_ends_of_a_long_binary() {
        let parts = FileParts::of_members(vec![(100_000, Pieces), (50 * MIB, Whole), (100 * MIB, Sections)], 8 * MIB);
        let found =
            (0..100 * MIB / BLOCK).filter(|block| parts.use_of(*block) == BlockUse::Tables).map(|block| block * BLOCK);
        let (first, last): (Vec<_>, Vec<_>) = found.partition(|at| *at < 10 * MIB);
        assert!(first.contains(&(100_000 / BLOCK * BLOCK)) && last.contains(&(50 * MIB - BLOCK)));
        for (found, places) in [(first, 0..MIB + 200_000), (last, 49 * MIB..50 * MIB)] {
            assert!((60..70).contains(&found.len()) && found.iter().all(|at| places.contains(at)), "{found:?}");
        }
    }

    #[test]
    fn pieces_that_are_near_each_other_are_read_with_what_is_between() {
        let read =
            |access, step| requests(100 * MIB, Some(vec![(100 * MIB, access)]), (0..100 * MIB).step_by(step)).len();
        for step in [20_000, 100_000, 250_000, 1_000_000] {
            for access in [Pieces, Sections] {
                assert!(read(access, step) <= 100 / 8 + 7, "{access:?} {step}: {}", read(access, step));
            }
        }
        assert_eq!(read(Pieces, 2 << 20), 50);
    }

    #[test]
    fn what_is_missing_between_blocks_that_are_there_is_read_together() {
        let kept = (0..100 * MIB / BLOCK).step_by(2);
        let parts = || Some(vec![(100 * MIB, Pieces)]);
        let read = requests_for_rest(kept, 100 * MIB, parts(), (0..100 * MIB).step_by(to_usize(BLOCK)));
        assert!(read.len() <= 100 / 8 + 7, "{read:?}");
        // Much that is there is not read again.
        let kept = (0..MIB / BLOCK * 4).filter(|block| block % 100 != 5);
        assert_eq!(requests_for_rest(kept, 4 * MIB, parts(), [5 * BLOCK, 105 * BLOCK]), [(5, 6), (105, 106)]);
    }

    #[test]
    fn tables_of_a_binary_that_are_near_each_other_are_read_together() {
        let at = |read: u64| requests(300 * MIB, Some(vec![(300 * MIB, Sections)]), [read, read + 100_000]);
        assert_eq!(at(200 * MIB), [(200 * MIB / BLOCK, 200 * MIB / BLOCK + NEAR)]);
        // Small ones are read as a whole, with their neighbours.
        let members = (1..=8).map(|number| (number * MIB, Sections)).collect();
        assert_eq!(requests(9 * MIB, Some(members), (0..8 * MIB).step_by(4096)), [(0, 8 * MIB / BLOCK)]);
    }

    #[test]
    fn a_directory_is_read_at_once() {
        let size = 500 * MIB;
        assert_eq!(requests(size, None, (size - MIB..size).step_by(4096)), [((size - MIB) / BLOCK, size / BLOCK)]);
        assert_eq!(requests(size, None, [0]), [(0, 1)]);
    }
}
