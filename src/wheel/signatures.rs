//! Attestations and signatures next to a wheel. They hold for exactly its bytes.

use std::path::{Path, PathBuf};

/// The suffix of a signature by GPG (PEP 503).
pub const GPG: &str = ".asc";

/// Suffixes of attestations for indexes (PEP 740), of bundles of Sigstore, and of signatures by GPG.
const SUFFIXES: [&str; 4] = [".publish.attestation", ".sigstore.json", ".sigstore", GPG];

/// The attestations and signatures next to a file: their suffixes and paths.
pub fn signatures_of(file: &Path) -> Vec<(&'static str, PathBuf)> {
    let with = |suffix| {
        let mut path = file.as_os_str().to_owned();
        path.push(suffix);
        (suffix, PathBuf::from(path))
    };
    SUFFIXES.into_iter().map(with).filter(|(_, path)| path.is_file()).collect()
}

/// Whether a file next to wheels may be an attestation or a signature of one.
pub fn may_be_signature(path: &Path) -> bool {
    let name = path.as_os_str().as_encoded_bytes();
    SUFFIXES.iter().any(|suffix| name.ends_with(suffix.as_bytes()))
}
