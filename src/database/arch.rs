//! The architecture of a database file.

use crate::gpu::{BundleKey, TargetId};

/// The architecture of a database file.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Display)]
pub enum Arch {
    /// One target, with the features in the name.
    Target(TargetId),
    /// All targets of a family or sub-family.
    Bundle(BundleKey),
}

impl Arch {
    /// The key whose package the file belongs to.
    pub fn key(&self) -> BundleKey {
        match self {
            Self::Target(target) => BundleKey::of(target),
            Self::Bundle(key) => key.clone(),
        }
    }

    /// Whether files for it are for this GPU.
    pub fn is_for(&self, gpu: &TargetId) -> bool {
        match self {
            Self::Target(target) => target.processor() == gpu.processor(),
            Self::Bundle(key) => BundleKey::of(gpu).packaging_chain().contains(key),
        }
    }
}
