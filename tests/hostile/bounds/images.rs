//! Documents of container images. Layers are tar archives, which `listed.rs` has.

use std::fs;
use std::path::{Path, PathBuf};

use kpackfs::rope::Sha256;
use kpackfs::split::hex;

use super::Costly;

/// The largest document.
const MOST: usize = 1 << 20;

/// Writes a blob, and returns its descriptor.
fn blob(place: &Path, bytes: &[u8], kind: &str) -> String {
    let mut sum = Sha256::default();
    sum.update(bytes);
    let digest = hex(&sum.finish());
    fs::create_dir_all(place.join("blobs/sha256")).unwrap();
    fs::write(place.join("blobs/sha256").join(&digest), bytes).unwrap();
    format!(
        r#"{{"mediaType":"application/vnd.oci.image.{kind}.v1+json","digest":"sha256:{digest}","size":{}}}"#,
        bytes.len()
    )
}

fn layout(place: &Path, index: &str) -> Costly {
    fs::write(place.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
    fs::write(place.join("index.json"), index).unwrap();
    Costly::new(PathBuf::from(format!("oci:{}", place.display())), 1, 1)
}

/// Empty arrays: one value for each three bytes.
pub(super) fn configuration(place: &Path, _: usize) -> Costly {
    let arrays = "[],".repeat((MOST - 100) / 3);
    let config = blob(place, format!(r#"{{"a":[{arrays}0],"rootfs":{{"diff_ids":[]}}}}"#).as_bytes(), "config");
    let manifest = format!(r#"{{"schemaVersion":2,"config":{config},"layers":[]}}"#);
    let manifest = blob(place, manifest.as_bytes(), "manifest");
    layout(place, &format!(r#"{{"schemaVersion":2,"manifests":[{manifest}]}}"#))
}

pub(super) fn annotations(place: &Path, _: usize) -> Costly {
    let pairs: Vec<_> = (0..MOST / 11).map(|number| format!(r#""{number:x}":"""#)).collect();
    let pairs = pairs.join(",");
    layout(place, &format!(r#"{{"schemaVersion":2,"manifests":[],"annotations":{{{}}}}}"#, &pairs))
}
