//! Attestations and signatures next to a wheel. They hold for exactly its bytes.

use std::path::{Path, PathBuf};

use crate::disk;

/// The suffix of a signature by GPG (PEP 503).
pub const GPG: &str = ".asc";

/// Suffixes of attestations for indexes (PEP 740), of bundles of Sigstore, and of signatures by GPG.
const SUFFIXES: [&str; 4] = [".publish.attestation", ".sigstore.json", ".sigstore", GPG];

/// The attestations and signatures next to a file: their suffixes and paths. Symlinks that lead to files elsewhere are none.
pub fn signatures_of(file: &Path) -> Vec<(&'static str, PathBuf)> {
    named(file).filter_map(|(suffix, path)| Some((suffix, disk::beside(&path)?))).collect()
}

/// What is called like an attestation or a signature of a file, and cannot be used as one.
pub fn unusable_signatures(file: &Path) -> Vec<PathBuf> {
    let is_unusable = |path: &PathBuf| path.symlink_metadata().is_ok() && disk::beside(path).is_none();
    named(file).map(|(_, path)| path).filter(is_unusable).collect()
}

/// The paths that attestations and signatures of a file have.
fn named(file: &Path) -> impl Iterator<Item = (&'static str, PathBuf)> {
    SUFFIXES.into_iter().map(|suffix| {
        let mut path = file.as_os_str().to_owned();
        path.push(suffix);
        (suffix, PathBuf::from(path))
    })
}

/// Whether a file next to wheels may be an attestation or a signature of one.
pub fn may_be_signature(path: &Path) -> bool {
    let name = path.as_os_str().as_encoded_bytes();
    SUFFIXES.iter().any(|suffix| name.ends_with(suffix.as_bytes()))
}
