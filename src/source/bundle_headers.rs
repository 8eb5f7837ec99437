//! Headers of bundles, captured while a member is first inflated.
//!
//! An ELF file describes its device code at its end. Planning then reads the header of each offload bundle, somewhere
//! in the middle. Inflating from the nearest checkpoint for each header would cost half as much as the first pass
//! again. So the first pass keeps the headers.

use std::sync::Arc;

use crate::memory::{Budget, ByteCache, Weight};
use crate::metrics::MemoryClass;
use crate::rope::{head, to_usize};

/// Linkers and loaders align bundles to this many bytes.
const PAGE: usize = 4096;

/// The magics of bundles (clang's documentation, "Clang Offload Bundler" and "Compressed and Uncompressed HIP Device
/// Code"), and how many bytes are kept of each. The table of a compressed bundle is in its first block, which takes 20
/// KiB or more in known files.
const KINDS: [(&[u8], usize); 2] = [(b"__CLANG_OFFLOAD_BUNDLE__", PAGE), (b"CCOB", 16 * PAGE)];

/// Captured headers take at most the budget divided by this. They stay, since inflating again for them costs more than all
/// that could take their place.
const PART: u64 = 16;

/// Bytes of an entry of the cache without its page.
const ENTRY: u64 = 128;

/// Bytes that are kept of a code object: its ELF header and program headers, of which known ones have up to 10.
const OF_CODE: u64 = 1024;

/// The bytes that are read of something that was found. Code objects in bundles are at pages, and their headers are read. What
/// is elsewhere may be compressed, and its first block is read.
fn reach(found: u64) -> u64 {
    if found.is_multiple_of(PAGE as u64) { OF_CODE } else { 3 * PAGE as u64 }
}

/// Captured headers of all members, by page. The least recently used pages leave for others, and all of them when
/// nothing is read for a while.
#[derive(Debug)]
pub(super) struct BundleHeaderCache(ByteCache<(usize, u64), HeaderPage>);

/// A captured page, or its beginning, without the zeros at its end: a table is much shorter than its page.
#[derive(Clone, Debug)]
struct HeaderPage {
    bytes: Arc<[u8]>,
    length: usize,
}

impl Weight for HeaderPage {
    fn weight(&self) -> u64 {
        self.bytes.len() as u64 + ENTRY
    }
}

impl BundleHeaderCache {
    pub(super) fn new(budget: &Arc<Budget>) -> Self {
        Self(ByteCache::staying(budget, MemoryClass::Streams, budget.capacity() / PART))
    }

    /// Captures the pages of bundle headers in `bytes`, which are at `offset` of a member, and those of what was `found` in
    /// them, in ascending order. `end` is where the previous header ends. Returns where the last header ends.
    pub(super) fn observe(&self, member: usize, offset: u64, bytes: &[u8], mut end: u64, found: &[u64]) -> u64 {
        let first = offset.next_multiple_of(PAGE as u64);
        let skipped = to_usize(first - offset);
        let (mut at, mut found) = (first, found.iter().copied().peekable());
        for page in bytes.get(skipped..).unwrap_or_default().chunks(PAGE) {
            if let Some((_, length)) = KINDS.iter().find(|(magic, _)| page.starts_with(magic)) {
                end = end.max(at.saturating_add(*length as u64));
            }
            let page_end = at.saturating_add(PAGE as u64);
            while let Some(place) = found.next_if(|place| *place < page_end) {
                end = end.max(place.saturating_add(reach(place)));
            }
            if at < end {
                let kept = page.get(..to_usize(end - at)).unwrap_or(page);
                let used = kept.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
                let page = HeaderPage { bytes: head(kept, used).into(), length: kept.len() };
                self.0.put((member, at / PAGE as u64), page);
            }
            at = page_end;
        }
        end
    }

    /// Fills `buffer` with the bytes at `offset` of a member. Returns `false` unless all of them are in the cache.
    pub(super) fn read(&self, member: usize, mut offset: u64, mut buffer: &mut [u8]) -> bool {
        while !buffer.is_empty() {
            let Some(page) = self.0.get(&(member, offset / PAGE as u64)) else { return false };
            let skipped = to_usize(offset % PAGE as u64);
            let count = page.length.saturating_sub(skipped).min(buffer.len());
            if count == 0 {
                return false;
            }
            let (piece, rest) = buffer.split_at_mut(count);
            let bytes = page.bytes.get(skipped..).unwrap_or_default();
            let bytes = head(bytes, count.min(bytes.len()));
            let (copied, zeros) = piece.split_at_mut(bytes.len());
            copied.copy_from_slice(bytes);
            zeros.fill(0);
            offset += count as u64;
            buffer = rest;
        }
        true
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    const MEMBER: usize = 7;

    fn found(cache: &BundleHeaderCache, offset: usize, length: usize) -> Option<Vec<u8>> {
        let mut buffer = vec![0; length];
        cache.read(MEMBER, offset as u64, &mut buffer).then_some(buffer)
    }

    #[test]
    fn headers_are_captured_however_the_bytes_come() {
        let mut bytes: Vec<u8> = (0..60 * PAGE + 1000).map(|at| u8::try_from(at % 251).unwrap()).collect();
        // One magic that is not at a page boundary, and three that are. The last one is near the end.
        for (at, kind) in [(PAGE + 8, 0), (2 * PAGE, 0), (20 * PAGE, 1), (55 * PAGE, 1)] {
            bytes[at..at + KINDS[kind].0.len()].copy_from_slice(KINDS[kind].0);
        }
        for step in [1000, PAGE, 3 * PAGE, 7 * PAGE + 100, bytes.len()] {
            let cache = BundleHeaderCache::new(&Budget::new(16 << 20));
            // Each piece but the first begins at a page boundary, as the chunks of a member do.
            let (mut at, mut last) = (100, 0);
            while at < bytes.len() {
                let end = (at + step).next_multiple_of(PAGE).min(bytes.len());
                last = cache.observe(MEMBER, at as u64, &bytes[at..end], last, &[]);
                at = end;
            }
            assert_eq!(found(&cache, PAGE + 8, 10), None);
            assert_eq!(found(&cache, 2 * PAGE - 1, 10), None);
            for (at, length) in [(2 * PAGE, 1024), (2 * PAGE, PAGE), (20 * PAGE + 32, PAGE), (20 * PAGE, 16 * PAGE)] {
                assert_eq!(found(&cache, at, length).unwrap(), bytes[at..at + length], "{step} {at}");
            }
            assert_eq!(found(&cache, 36 * PAGE - 5, 6), None);
            assert_eq!(found(&cache, 55 * PAGE, bytes.len() - 55 * PAGE).unwrap(), bytes[55 * PAGE..]);
            assert_eq!(found(&cache, 55 * PAGE, bytes.len() - 55 * PAGE + 1), None, "behind the end");
            assert!(!cache.read(MEMBER + 1, 2 * PAGE as u64, &mut [0; 8]), "another member");
        }
    }

    #[test]
    fn what_was_found_is_captured_as_far_as_it_is_read() {
        let cache = BundleHeaderCache::new(&Budget::new(16 << 20));
        let bytes: Vec<u8> = (0..16 * PAGE).map(|at| u8::try_from(at % 251).unwrap()).collect();
        let (half, places) = (8 * PAGE, [2 * PAGE, 7 * PAGE + 10].map(|at| at as u64));
        let last = cache.observe(MEMBER, 0, &bytes[..half], 0, &places);
        cache.observe(MEMBER, half as u64, &bytes[half..], last, &[]);
        for (at, length) in [(2 * PAGE, to_usize(OF_CODE)), (7 * PAGE, 3 * PAGE + 10)] {
            assert_eq!(found(&cache, at, length).unwrap(), bytes[at..at + length]);
            assert!(found(&cache, at - 1, 2).is_none() && found(&cache, at + length - 1, 2).is_none());
        }
    }

    #[test]
    fn headers_stay_when_others_need_memory() {
        let budget = Budget::new(16 << 20);
        let cache = BundleHeaderCache::new(&budget);
        let others = ByteCache::<i32, Arc<[u8]>>::new(&budget, MemoryClass::Spans);
        let mut page = vec![0; PAGE];
        page[..100].fill(b'x');
        page[..KINDS[0].0.len()].copy_from_slice(KINDS[0].0);
        cache.observe(MEMBER, 0, &page, 0, &[]);
        assert!(budget.gauges().streams < 300, "zeros at the end take no memory");
        (0..100).for_each(|number| drop(others.put(number, vec![1; 1 << 20].into())));
        drop(budget.reserve(MemoryClass::Bundles, 16 << 20));
        assert_eq!(found(&cache, 50, PAGE - 50).unwrap(), page[50..]);
    }

    /// Many members full of overlapping headers.
    #[test]
    fn memory_is_bounded_for_all_members_and_given_back_when_idle() {
        let budget = Budget::new(1 << 20);
        let cache = BundleHeaderCache::new(&budget);
        let mut page = vec![1; PAGE];
        page[..4].copy_from_slice(b"CCOB");
        let pages = page.repeat(200);
        for member in 0..=MEMBER {
            cache.observe(member, 0, &pages, 0, &[]);
        }
        assert_eq!(found(&cache, 199 * PAGE, PAGE).unwrap(), page, "the last one is there");
        assert!((1..=budget.capacity() / PART).contains(&budget.gauges().streams));
        budget.release_unused();
        assert_eq!(budget.gauges().streams, 0);
        assert_eq!(found(&cache, 199 * PAGE, PAGE), None);
    }
}
