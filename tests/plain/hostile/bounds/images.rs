//! Documents of container images. Layers are tar archives, which `listed.rs` has.

use std::fs;
use std::path::{Path, PathBuf};

use super::Costly;
use super::binaries::library;
use super::listed::header;
use crate::common::{gzip, sha256};

/// The largest document.
const MOST: usize = 1 << 20;

/// Writes a blob, and returns its descriptor.
fn blob(place: &Path, bytes: &[u8], kind: &str) -> String {
    let digest = sha256(bytes);
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

/// A layer with this library, with records in an extended header.
fn layer(place: &Path, files: &[(&str, &[u8])], records: &[(&str, &[u8])]) -> (String, String) {
    let mut tar = ::tar::Builder::new(Vec::new());
    for (name, bytes) in files {
        tar.append_pax_extensions(records.iter().copied()).unwrap();
        tar.append(&header(::tar::EntryType::Regular, name, bytes.len() as u64), *bytes).unwrap();
    }
    let tar = tar.into_inner().unwrap();
    (
        blob(place, &gzip(&tar), "layer").replace("layer.v1+json", "layer.v1.tar+gzip"),
        format!("sha256:{}", sha256(&tar)),
    )
}

/// The descriptor of an image with these layers, and more in its configuration and in its manifest.
fn image(place: &Path, tag: &str, layers: &[(String, String)], (config, manifest): (&str, &str)) -> String {
    let ids: Vec<_> = layers.iter().map(|(_, id)| format!("{id:?}")).collect();
    let config =
        format!(r#"{{"architecture":"amd64","os":"linux","rootfs":{{"diff_ids":[{}]}}{config}}}"#, ids.join(","));
    let config = blob(place, config.as_bytes(), "config");
    let layers: Vec<_> = layers.iter().map(|(layer, _)| layer.as_str()).collect();
    let layers = layers.join(",");
    let text = format!(r#"{{"schemaVersion":2,"config":{config},"layers":[{layers}]{manifest}}}"#);
    let descriptor = blob(place, text.as_bytes(), "manifest");
    let annotations = format!(r#","annotations":{{"org.opencontainers.image.ref.name":"{tag}"}}}}"#);
    descriptor.trim_end_matches('}').to_owned() + &annotations
}

/// A layout with these images. `entries` and `names` are for the formula.
fn images(place: &Path, images: &[String], entries: u64, names: u64) -> Costly {
    let index = format!(r#"{{"schemaVersion":2,"manifests":[{}]}}"#, images.join(","));
    let Costly { path, .. } = layout(place, &index);
    Costly::new(path, entries, names)
}

pub(super) fn layers(place: &Path, scale: usize) -> Costly {
    let (place, count) = (&place.join("layout"), 200 + 30 * scale);
    let layers = (0..count).map(|number| {
        let (name, library) = (format!("lib/{number}.so"), library());
        layer(place, &[(&name, &library), ("lib/x.so", &library)], &[])
    });
    let of_all = image(place, "x", &layers.collect::<Vec<_>>(), ("", ""));
    images(place, &[of_all], 10 * count as u64, 100 * count as u64)
}

pub(super) fn attributes(place: &Path, scale: usize) -> Costly {
    let value = vec![b'v'; 900_000];
    let (place, count, records) = (&place.join("layout"), 80 + 20 * scale, [("SCHILY.xattr.user.x", &*value)]);
    let names: Vec<_> = (0..count).map(|number| format!("lib/{number}.so")).collect();
    let library = library();
    let files: Vec<_> = names.iter().map(|name| (name.as_str(), &*library)).collect();
    let of_all = image(place, "x", &[layer(place, &files, &records)], ("", ""));
    images(place, &[of_all], count as u64, (count * value.len()) as u64)
}

/// A small image, and a layout with many others.
pub(super) fn many(place: &Path, scale: usize) -> Costly {
    let (input, other) = (place.join("input"), place.join("other"));
    let small = layer(&input, &[("lib/x.so", &library())], &[]);
    let small = image(&input, "x", &[small], ("", ""));
    let shared = layer(&other, &[("lib/x.so", &library())], &[]);
    let arrays = "[],".repeat((MOST - 1000) / 3);
    let of_tag = |tag: usize| {
        image(&other, &tag.to_string(), std::slice::from_ref(&shared), (&format!(r#","a":[{arrays}{tag}]"#), ""))
    };
    let tags: Vec<_> = (0..30 + 10 * scale).map(of_tag).collect();
    images(&other, &tags, 1, 1);
    Costly { before: Some(other), ..images(&input, &[small], 10, 100) }
}

pub(super) fn manifests(place: &Path, scale: usize) -> Costly {
    let shared = layer(place, &[("lib/x.so", &library())], &[]);
    let text = "x".repeat(MOST - 2000);
    let of_tag = |tag: usize| {
        image(
            place,
            &tag.to_string(),
            std::slice::from_ref(&shared),
            ("", &format!(r#","annotations":{{"a":"{tag}{text}"}}"#)),
        )
    };
    let tags: Vec<_> = (0..100 + 20 * scale).map(of_tag).collect();
    images(place, &tags, 100, 1000)
}

/// Indexes of many short annotations, each in another.
pub(super) fn nested(place: &Path, _: usize) -> Costly {
    let mut inner = String::new();
    for number in 0..12_usize {
        let pairs: Vec<_> = (0..MOST / 16).map(|pair| format!(r#""{pair:x}.{number:x}":"""#)).collect();
        let annotations = pairs.join(",");
        let text = format!(r#"{{"schemaVersion":2,"manifests":[{inner}],"annotations":{{{annotations}}}}}"#);
        inner = blob(place, text.as_bytes(), "index");
    }
    layout(place, &format!(r#"{{"schemaVersion":2,"manifests":[{inner}]}}"#))
}
