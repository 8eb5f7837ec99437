//! Takes arbitrary bytes for the documents of an image or for its layers, and lists its root file system.

use std::fmt::Write;
use std::fs;

use kpackfs::image::{ImageReference, LayoutForm, open_root};
use kpackfs::rope::Sha256;
use tempfile::TempDir;

use super::support::{MOST, content, directory, read, resources, stays_in_the_tree};

/// The number of files that are read; more would only take time.
const FILES: usize = 16;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// Writes a blob, and returns its descriptor.
fn blob(place: &TempDir, bytes: &[u8], media_type: &str) -> String {
    let mut sum = Sha256::default();
    sum.update(bytes);
    let digest = sum.finish().iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string grows");
        text
    });
    fs::write(place.path().join("blobs/sha256").join(&digest), bytes).expect("a file can be written");
    format!(r#"{{"mediaType":"{media_type}","digest":"sha256:{digest}","size":{}}}"#, bytes.len())
}

/// Checks an image of which the first byte says what the others are.
pub(crate) fn run(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    let place = directory();
    fs::create_dir_all(place.path().join("blobs/sha256")).expect("a directory can be made");
    fs::write(place.path().join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).expect("a file can be written");
    let index = match kind % 4 {
        0 => bytes.to_vec(),
        1 => format!(r#"{{"schemaVersion":2,"manifests":[{}]}}"#, blob(&place, bytes, MANIFEST)).into_bytes(),
        _ => {
            let (lower, upper) = bytes.split_at(bytes.len() / 1024 * 512);
            let layer = |bytes| blob(&place, bytes, "application/vnd.oci.image.layer.v1.tar");
            let layers = format!("[{},{}]", layer(lower), layer(upper));
            let config = if kind % 4 == 2 { bytes } else { br#"{"rootfs":{"diff_ids":["",""]}}"#.as_slice() };
            let config = blob(&place, config, "application/vnd.oci.image.config.v1+json");
            let manifest = format!(r#"{{"schemaVersion":2,"config":{config},"layers":{layers}}}"#);
            let manifest = blob(&place, manifest.as_bytes(), MANIFEST);
            format!(r#"{{"schemaVersion":2,"manifests":[{manifest}]}}"#).into_bytes()
        }
    };
    fs::write(place.path().join("index.json"), index).expect("a file can be written");
    let reference = ImageReference { layout: place.path().to_owned(), form: LayoutForm::Directory, tag: None };
    let Ok(input) = open_root(&reference, &resources()) else { return };
    assert!(input.entries.windows(2).all(|pair| pair[0].path < pair[1].path), "sorted, and each path once");
    for entry in &input.entries {
        stays_in_the_tree(&input, entry);
    }
    for content in input.entries.iter().filter_map(content).filter(|content| content.size() <= MOST).take(FILES) {
        read(content).expect("a range of the archive");
    }
}
