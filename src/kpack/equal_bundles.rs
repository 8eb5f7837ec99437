//! Frames that are made already, of a bundle that is equal byte for byte.
//!
//! Headers tell which bundles may be equal; they are known without inflating anything. No frame is used for another bundle
//! before the compressed bytes of both were compared, because headers can lie.

use std::collections::HashMap;

use super::frame::{Frame, MadeFrame};
use crate::fatbin::{BundleClaims, Compressed};
use crate::sync::{Arc, Mutex, PoisonError, Weak};

/// How many bundles one is compared with. Bundles with equal claims that differ are rare, except in an input that was made
/// to cost time.
const CANDIDATES: usize = 8;

/// The bundles of the archives, and which of them are equal.
#[derive(Debug, Default)]
pub(super) struct EqualBundles {
    by_claims: Mutex<HashMap<BundleClaims, Vec<Weak<Compressed>>>>,
    /// Whether two bundles are equal, by their numbers.
    compared: Mutex<HashMap<(u64, u64), bool>>,
}

impl EqualBundles {
    /// Adds a bundle.
    pub(super) fn add(&self, bundle: &Arc<Compressed>) {
        let mut by_claims = self.by_claims.lock().unwrap_or_else(PoisonError::into_inner);
        by_claims.entry(bundle.claims()).or_default().push(Arc::downgrade(bundle));
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

    fn candidates(&self, bundle: &Compressed) -> Vec<Arc<Compressed>> {
        let by_claims = self.by_claims.lock().unwrap_or_else(PoisonError::into_inner);
        let bundles = by_claims.get(&bundle.claims()).into_iter().flatten().filter_map(Weak::upgrade);
        bundles.filter(|other| other.id() != bundle.id()).take(CANDIDATES).collect()
    }

    fn are_equal(&self, bundle: &Compressed, other: &Compressed) -> bool {
        let key = (bundle.id(), other.id());
        let known = self.compared.lock().unwrap_or_else(PoisonError::into_inner).get(&key).copied();
        known.unwrap_or_else(|| {
            // If one of them cannot be read now, the frame is made, which names the error.
            let Ok(is_equal) = bundle.is_equal(other) else { return false };
            self.compared.lock().unwrap_or_else(PoisonError::into_inner).insert(key, is_equal);
            is_equal
        })
    }
}
