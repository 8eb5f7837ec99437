//! Stretches that planning will come back to.
//!
//! Where an ELF file has its device code stands at the file's end, and what is in that at the beginning of each offload
//! bundle, somewhere in the middle. So the first pass over a member keeps the beginnings of bundles; inflating from
//! the nearest checkpoint for each of them would cost half as much as the pass.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bundles are aligned to this by linkers and loaders.
const PAGE: usize = 4096;

/// What a bundle begins with (clang's documentation, "Clang Offload Bundler" and "Compressed and Uncompressed HIP Device
/// Code"), and how many bytes of it are kept. The table of a compressed one is in its first block, which takes 20 KiB and
/// more in known files.
const KINDS: [(&[u8], usize); 2] = [(b"__CLANG_OFFLOAD_BUNDLE__", PAGE), (b"CCOB", 16 * PAGE)];

/// The most bytes that are kept of a member.
const MOST: usize = 8 << 20;

/// Stretches of one member.
#[derive(Debug, Default)]
pub(super) struct Landmarks(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// By their offset.
    stretches: BTreeMap<u64, Vec<u8>>,
    /// Of all that there ever were.
    bytes: usize,
    /// How many more of what comes next belong to the last one.
    wanted: usize,
    /// Everything before this offset has been looked at.
    seen: u64,
}

impl Landmarks {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps what is wanted of the bytes at `offset`. They come behind those of the call before, but for a decoder that has
    /// to be led to where another stood; then they were looked at before.
    pub(super) fn look(&self, offset: u64, bytes: &[u8]) {
        let mut state = self.lock();
        let end = offset.saturating_add(bytes.len() as u64);
        if end <= state.seen {
            return;
        }
        if offset != state.seen {
            state.wanted = 0;
        }
        state.seen = end;
        state.extend(bytes);
        let skipped = usize::try_from(offset.next_multiple_of(PAGE as u64) - offset).unwrap_or(0);
        for (number, page) in bytes.get(skipped..).unwrap_or_default().chunks_exact(PAGE).enumerate() {
            if let Some((_, wanted)) = KINDS.iter().find(|(magic, _)| page.starts_with(magic)) {
                let at = skipped + number * PAGE;
                state.begin(offset + at as u64, *wanted);
                state.extend(bytes.get(at..).unwrap_or_default());
            }
        }
    }

    /// Fills `buffer` with the bytes at `offset` if one stretch has them all. Those before it are given up: bundles are
    /// looked at one after the other.
    pub(super) fn take(&self, offset: u64, buffer: &mut [u8]) -> bool {
        let mut state = self.lock();
        let Some((&start, stretch)) = state.stretches.range(..=offset).next_back() else { return false };
        let bytes =
            usize::try_from(offset - start).ok().and_then(|skipped| stretch.get(skipped..)?.get(..buffer.len()));
        let Some(bytes) = bytes else { return false };
        buffer.copy_from_slice(bytes);
        state.stretches = state.stretches.split_off(&start);
        true
    }
}

impl State {
    /// Begins a stretch, unless there is no room for it.
    fn begin(&mut self, start: u64, wanted: usize) {
        self.wanted = if wanted <= MOST - self.bytes { wanted } else { 0 };
        if self.wanted > 0 {
            self.stretches.insert(start, Vec::new());
            self.bytes += wanted;
        }
    }

    /// Adds what comes next to the last stretch.
    fn extend(&mut self, bytes: &[u8]) {
        let Some(mut last) = self.stretches.last_entry() else { return };
        let count = bytes.len().min(self.wanted);
        last.get_mut().extend_from_slice(bytes.get(..count).unwrap_or_default());
        self.wanted -= count;
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    fn found(landmarks: &Landmarks, offset: usize, length: usize) -> Option<Vec<u8>> {
        let mut buffer = vec![0; length];
        landmarks.take(offset as u64, &mut buffer).then_some(buffer)
    }

    #[test]
    fn beginnings_of_bundles_are_kept_however_the_bytes_come() {
        let mut bytes: Vec<u8> = (0..60 * PAGE).map(|at| u8::try_from(at % 251).unwrap()).collect();
        // Not where a page begins; three that are, of which one is near the end.
        for (at, kind) in [(PAGE + 8, 0), (2 * PAGE, 0), (20 * PAGE, 1), (55 * PAGE, 1)] {
            bytes[at..at + KINDS[kind].0.len()].copy_from_slice(KINDS[kind].0);
        }
        for step in [1000, PAGE, 3 * PAGE, 7 * PAGE + 100, bytes.len()] {
            let landmarks = Landmarks::default();
            // As the chunks of a member do, each piece but the first begins with a page.
            let mut at = 100;
            while at < bytes.len() {
                let end = (at + step).next_multiple_of(PAGE).min(bytes.len());
                landmarks.look(at as u64, &bytes[at..end]);
                at = end;
            }
            assert_eq!(found(&landmarks, PAGE + 8, 10), None);
            assert_eq!(found(&landmarks, 2 * PAGE - 1, 10), None);
            for (at, length) in [(2 * PAGE, 1024), (2 * PAGE, PAGE), (20 * PAGE + 32, PAGE), (20 * PAGE, 16 * PAGE)] {
                assert_eq!(found(&landmarks, at, length).unwrap(), bytes[at..at + length], "{step} {at}");
            }
            assert_eq!(found(&landmarks, 36 * PAGE - 5, 6), None);
            assert_eq!(found(&landmarks, 2 * PAGE, 1024), None, "given up");
            assert_eq!(found(&landmarks, 55 * PAGE, 5 * PAGE).unwrap(), bytes[55 * PAGE..]);
        }
    }

    #[test]
    fn what_comes_again_or_behind_a_gap_belongs_to_no_stretch() {
        let mut page = vec![1; PAGE];
        page[..4].copy_from_slice(b"CCOB");
        let landmarks = Landmarks::default();
        let at = |number: usize| (number * PAGE) as u64;
        landmarks.look(at(0), &vec![7; 3 * PAGE]);
        landmarks.look(at(3), &page);
        landmarks.look(at(1), &vec![7; 2 * PAGE]);
        landmarks.look(at(4), &vec![2; PAGE]);
        let both = [page.as_slice(), &vec![2; PAGE]].concat();
        assert_eq!(found(&landmarks, 3 * PAGE, 2 * PAGE).unwrap(), both);
        landmarks.look(at(6), &vec![3; PAGE]);
        assert_eq!(found(&landmarks, 3 * PAGE, 2 * PAGE).unwrap(), both);
        assert_eq!(found(&landmarks, 3 * PAGE, 3 * PAGE), None);
    }

    #[test]
    fn memory_is_bounded() {
        let landmarks = Landmarks::default();
        let mut pages = vec![0; 20 * PAGE];
        pages[..4].copy_from_slice(b"CCOB");
        for number in 0..MOST / PAGE {
            landmarks.look((number * pages.len()) as u64, &pages);
        }
        assert_eq!(landmarks.lock().stretches.values().map(Vec::len).sum::<usize>(), MOST);
        assert_eq!(found(&landmarks, 0, PAGE).unwrap(), pages[..PAGE]);
    }
}
