//! Pages that planning will come back to.
//!
//! Where an ELF file has its device code stands at the file's end, and what is in that at the beginning of each offload
//! bundle, somewhere in the middle. So the first pass over a member keeps the pages on which bundles begin; inflating from
//! the nearest checkpoint for each of them would cost half as much as the pass.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bundles are aligned to this by linkers and loaders.
const PAGE: usize = 4096;

/// What a page begins with that is kept: clang's documentation, "Clang Offload Bundler".
const MAGIC: &[u8] = b"__CLANG_OFFLOAD_BUNDLE__";

/// The most pages that are kept of a member.
const MOST: usize = 2048;

/// Pages of one member by their offset. Each is handed out once.
#[derive(Debug, Default)]
pub(super) struct Landmarks(Mutex<BTreeMap<u64, Box<[u8]>>>);

impl Landmarks {
    fn pages(&self) -> MutexGuard<'_, BTreeMap<u64, Box<[u8]>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks for such pages in the bytes at `offset`, of which the first page boundary is the first that counts.
    pub(super) fn look(&self, offset: u64, bytes: &[u8]) {
        let skipped = usize::try_from(offset.next_multiple_of(PAGE as u64) - offset).unwrap_or(0);
        for (number, page) in bytes.get(skipped..).unwrap_or_default().chunks_exact(PAGE).enumerate() {
            if page.starts_with(MAGIC) {
                let mut pages = self.pages();
                if pages.len() < MOST {
                    pages.insert(offset + (skipped + number * PAGE) as u64, page.into());
                }
            }
        }
    }

    /// Fills `buffer` with the bytes at `offset` if a page begins there and has them. The page is given up.
    pub(super) fn take(&self, offset: u64, buffer: &mut [u8]) -> bool {
        let mut pages = self.pages();
        let Some(bytes) = pages.get(&offset).and_then(|page| page.get(..buffer.len())) else { return false };
        buffer.copy_from_slice(bytes);
        pages.remove(&offset);
        true
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn pages_with_bundles_are_kept_until_somebody_reads_them() {
        let mut bytes = vec![7; 5 * PAGE];
        // Not where a page begins; two that are; the last one is cut off.
        for at in [PAGE + 8, 2 * PAGE, 3 * PAGE, 5 * PAGE - 100] {
            bytes[at..at + MAGIC.len()].copy_from_slice(MAGIC);
        }
        let landmarks = Landmarks::default();
        let offset = 10 * PAGE as u64 + 100;
        landmarks.look(offset, &bytes[100..]);
        assert_eq!(landmarks.pages().keys().copied().collect::<Vec<_>>(), [12, 13].map(|page| page * PAGE as u64));
        let mut buffer = [0; 1024];
        assert!(!landmarks.take(11 * PAGE as u64, &mut buffer));
        assert!(!landmarks.take(12 * PAGE as u64, &mut [0; PAGE + 1]));
        assert!(landmarks.take(12 * PAGE as u64, &mut buffer));
        assert_eq!(buffer, bytes[2 * PAGE..2 * PAGE + 1024]);
        assert!(!landmarks.take(12 * PAGE as u64, &mut buffer));
    }
}
