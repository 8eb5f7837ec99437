//! Reads arbitrary bytes as a `.kpm` manifest.

use kpackfs::artifact::Kpm;

/// Checks bytes that may be a manifest: written again it is the same, and merged with itself, too.
pub(crate) fn run(bytes: &[u8]) {
    let Ok(kpm) = Kpm::parse(bytes) else { return };
    assert_eq!(Kpm::parse(&kpm.to_bytes()).expect("as before"), kpm);
    let mut merged = kpm.clone();
    merged.merge(kpm.clone()).expect("nothing contradicts itself");
    assert_eq!(merged, kpm);
}
