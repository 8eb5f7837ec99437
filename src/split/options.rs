//! The user's choices.

use super::file_digest::FileDigest;
use super::selection::Targets;
use crate::database::{Arch, Databases};
use crate::gpu::{BundleKey, TargetId};
use crate::kpack::Compression;
use crate::source::EntryPath;

/// The user's choices.
#[derive(Clone, Debug, Default)]
pub struct PlanOptions {
    /// The databases that are moved out of the host part.
    pub databases: Databases,
    /// The wanted targets.
    pub targets: Targets,
    /// How device parts are divided.
    pub packaging: Packaging,
    /// Directories that contain a `.kpack` directory each. If `None`, these are the top-level packages of a wheel that
    /// have device code, or the root of an install tree; in `usr` and `opt` of a tree, the directories of binaries.
    pub overlay_roots: Option<Vec<EntryPath>>,
    /// First part of the archives' names. If `None`, the name of the wheel, or `rocm` for an install tree; in its `usr` and
    /// `opt`, the name of the binary.
    pub group: Option<String>,
    /// The compression of code objects.
    pub compression: Compression,
    /// How the digests in the manifests of trees and artifacts are computed; `None` if there are no manifests.
    pub manifests: Option<FileDigest>,
}

/// How device parts are divided, and where archives are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Packaging {
    /// As in wheels: a part for each bundle key, and an archive in each overlay root.
    #[default]
    Bundles,
    /// As in artifacts: a part for each processor. The overlay roots are prefixes that an installation lays over each
    /// other. So there is one archive for each target, in the first prefix that has code for it, and binaries are named
    /// by their whole path.
    Processors,
}

impl Packaging {
    /// The device part for code for `target`.
    pub fn key_of(self, target: &TargetId) -> BundleKey {
        match self {
            Self::Bundles => BundleKey::of(target),
            Self::Processors => BundleKey::of_processor(target),
        }
    }

    /// The device part for a database file.
    pub fn key_of_database(self, arch: &Arch) -> BundleKey {
        match arch {
            Arch::Target(target) => self.key_of(target),
            Arch::Bundle(key) => key.clone(),
        }
    }
}
