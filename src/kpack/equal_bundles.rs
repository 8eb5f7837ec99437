//! Frames that are made already, of a bundle that is equal byte for byte.
//!
//! Headers tell which bundles may be equal; they are known without inflating anything. No frame is used for another bundle
//! before the compressed bytes of both were compared, because headers can lie.

use std::collections::HashMap;

use super::frame::{Frame, MadeFrame};
use crate::fatbin::{BundleClaims, Compressed};
use crate::sync::{Arc, Mutex, Weak};

/// How many bundles with equal claims are remembered, and so how many one is compared with. Bundles with equal claims that
/// differ are rare, except in an input that was made to cost time. Of more equal ones, the first are as good as the others.
const CANDIDATES: usize = 8;

/// How many comparisons are remembered, in about 3 MB. A forgotten one is done again.
const COMPARED: usize = 1 << 16;

/// The bundles of the archives, and which of them are equal.
#[derive(Debug, Default)]
pub(super) struct EqualBundles {
    /// At most one key and one pointer for each bundle, so it grows with the inputs and not with what is read of them.
    by_claims: Mutex<HashMap<BundleClaims, Vec<Weak<Compressed>>>>,
    /// Whether two bundles are equal, by their numbers.
    compared: Mutex<HashMap<(u64, u64), bool>>,
}

impl EqualBundles {
    /// Adds a bundle.
    pub(super) fn add(&self, bundle: &Arc<Compressed>) {
        let mut by_claims = self.by_claims.lock();
        let candidates = by_claims.entry(bundle.claims()).or_default();
        candidates.retain(|other| other.strong_count() > 0);
        if candidates.len() < CANDIDATES {
            candidates.push(Arc::downgrade(bundle));
        }
    }

    /// A frame of an equal bundle that is made, with the same code object. `frames_of` returns the frames of a bundle.
    pub(super) fn made(&self, frame: &Frame, frames_of: impl Fn(&Compressed) -> Vec<Arc<Frame>>) -> Option<MadeFrame> {
        let bundle = frame.object.bundle.as_ref()?;
        self.candidates(bundle).into_iter().find_map(|other| {
            let counterpart = frames_of(&other).into_iter().find(|counterpart| counterpart.is_of_same_code(frame))?;
            let made = counterpart.made()?;
            self.are_equal(bundle, &other).then_some(made)
        })
    }

    /// The largest number of bundles that one is compared with.
    #[cfg(test)]
    pub(super) fn most_candidates(&self) -> usize {
        let by_claims = self.by_claims.lock();
        by_claims.values().map(Vec::len).max().unwrap_or(0)
    }

    fn candidates(&self, bundle: &Compressed) -> Vec<Arc<Compressed>> {
        let by_claims = self.by_claims.lock();
        let bundles = by_claims.get(&bundle.claims()).into_iter().flatten().filter_map(Weak::upgrade);
        bundles.filter(|other| other.id() != bundle.id()).collect()
    }

    fn are_equal(&self, bundle: &Compressed, other: &Compressed) -> bool {
        let key = (bundle.id(), other.id());
        let known = self.compared.lock().get(&key).copied();
        known.unwrap_or_else(|| {
            // If one of them cannot be read now, the frame is made, which names the error.
            let Ok(is_equal) = bundle.is_equal(other) else { return false };
            let mut compared = self.compared.lock();
            if compared.len() >= COMPARED {
                compared.clear();
            }
            compared.insert(key, is_equal);
            is_equal
        })
    }
}
