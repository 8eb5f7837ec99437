//! Reads arbitrary bytes as `artifact_manifest.txt`.

use std::path::Path;

use kpackfs::artifact::Manifest;

/// Checks bytes that may be a manifest: what is written from its prefixes has the same prefixes.
pub(crate) fn run(bytes: &[u8]) {
    let place = Path::new("artifact_manifest.txt");
    let Ok(manifest) = Manifest::parse(bytes, place) else { return };
    let mut text = Vec::new();
    for prefix in &manifest.prefixes {
        for component in prefix.as_bytes().split(|&byte| byte == b'/').filter(|_| !prefix.is_root()) {
            assert!(!matches!(component, b"" | b"." | b".."), "{prefix}");
        }
        // Without the slashes, white space at the ends of a name would not be part of it.
        let line = if prefix.is_root() { vec![b'.'] } else { [b"./", prefix.as_bytes(), b"/"].concat() };
        text.extend(line);
        text.push(b'\n');
    }
    assert_eq!(Manifest::parse(&text, place).expect("as before"), manifest);
}
