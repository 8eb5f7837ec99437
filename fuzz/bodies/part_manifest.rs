//! Reads arbitrary bytes as the manifest of a part.

use std::collections::HashSet;

use kpackfs::split::PartManifest;

/// Checks bytes that may be a manifest: its digests have the announced size, and no path is listed twice.
pub(crate) fn run(bytes: &[u8]) {
    let Ok(manifest) = PartManifest::parse(bytes) else { return };
    let mut paths = HashSet::new();
    for file in &manifest.files {
        assert!(paths.insert(&file.path), "{}", file.path);
        assert_eq!(file.digest.len(), manifest.digest.size());
    }
    let entries = manifest.files.iter().flat_map(|file| file.entries.iter().flatten()).count();
    assert!(manifest.files.len() + manifest.parts.len() + entries <= bytes.len());
}
