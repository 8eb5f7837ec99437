//! Hostile input: small malformed files of every kind, and all files that fuzzing found. Each gets a result that is
//! quick, takes little memory and is never wrong. `fuzz/README.md` says how to fuzz.

mod absurd_entries;
mod binaries;
mod bounds;
mod bundles;
mod code_forms;
pub(crate) mod elf;
mod indexes;
mod manifests;
mod memory;
pub(crate) mod plain_bundle;
mod split_inputs;
mod texts;
mod wheels;

#[path = "../../../fuzz/bodies/artifact_manifest.rs"]
mod artifact_manifest;
#[path = "../../../fuzz/bodies/binary.rs"]
mod binary;
#[path = "../../../fuzz/bodies/bundle.rs"]
mod bundle;
#[path = "../../../fuzz/bodies/collection.rs"]
mod collection;
#[path = "../../../fuzz/bodies/deflate.rs"]
mod deflate;
#[path = "../../../fuzz/bodies/device_code.rs"]
mod device_code;
#[path = "../../../fuzz/bodies/dist_info.rs"]
mod dist_info;
#[path = "../../../fuzz/bodies/frame_segment.rs"]
mod frame_segment;
#[path = "../../../fuzz/bodies/image.rs"]
mod image;
#[path = "../../../fuzz/bodies/index_file.rs"]
mod index_file;
#[path = "../../../fuzz/bodies/kpm.rs"]
mod kpm;
#[path = "../../../fuzz/bodies/marker.rs"]
mod marker;
#[path = "../../../fuzz/bodies/mount_options.rs"]
mod mount_options;
#[path = "../../../fuzz/bodies/pack.rs"]
mod pack;
#[path = "../../../fuzz/bodies/part_manifest.rs"]
mod part_manifest;
#[path = "../../../fuzz/bodies/records.rs"]
mod records;
#[path = "../../../fuzz/bodies/ring_request.rs"]
mod ring_request;
#[path = "../../../fuzz/bodies/split_input.rs"]
mod split_input;
#[path = "../../../fuzz/bodies/statement.rs"]
mod statement;
#[path = "../../../fuzz/bodies/support.rs"]
mod support;
#[path = "../../../fuzz/bodies/tar.rs"]
mod tar;
#[path = "../../../fuzz/bodies/wheel.rs"]
mod wheel;
#[path = "../../../fuzz/bodies/zipped.rs"]
mod zipped;

use std::fs;
use std::path::{Path, PathBuf};

type Body = fn(&[u8]);

/// The fuzz targets that are replayed here.
const TARGETS: [(&str, Body); 21] = [
    ("wheel", wheel::run),
    ("deflate", deflate::run),
    ("elf", binary::run),
    ("coff", binary::run),
    ("bundle", bundle::run),
    ("device_code", device_code::run),
    ("marker", marker::run),
    ("split_input", split_input::run),
    ("dist_info", dist_info::run),
    ("index_file", index_file::run),
    ("mount_options", mount_options::run),
    ("tar", tar::run),
    ("image", image::run),
    ("frame_segment", frame_segment::run),
    ("artifact_manifest", artifact_manifest::run),
    ("kpm", kpm::run),
    ("statement", statement::run),
    ("part_manifest", part_manifest::run),
    ("collection", collection::run),
    ("pack", pack::run),
    ("ring_request", ring_request::run),
];

/// The name of an input, and its bytes.
type Kind = (&'static str, Vec<u8>);

/// The most memory, in bytes, that kpackfs may allocate for any of these inputs.
const MOST_MEMORY: usize = 32 << 20;

/// All inputs that are generated for a target.
fn kinds(target: &str) -> Vec<Kind> {
    match target {
        "wheel" => wheels::kinds(),
        "deflate" => wheels::streams(),
        "elf" => binaries::elf_kinds(),
        "coff" => binaries::coff_kinds(),
        "bundle" => bundles::kinds(),
        "device_code" => code_forms::kinds(),
        "marker" => texts::markers(),
        "split_input" => split_inputs::kinds(),
        "dist_info" => texts::dist_info(),
        "index_file" => indexes::kinds(),
        "mount_options" => texts::mount_options(),
        "tar" => manifests::tars(),
        "image" => manifests::images(),
        "frame_segment" => manifests::segments(),
        "artifact_manifest" => manifests::artifact_manifests(),
        "kpm" => manifests::kpms(),
        "statement" => manifests::statements(),
        "part_manifest" => manifests::part_manifests(),
        "collection" => manifests::collections(),
        "pack" => manifests::packed(),
        "ring_request" => texts::ring_requests(),
        other => panic!("{other}"),
    }
}

fn regressions(target: &str) -> PathBuf {
    Path::new("fuzz/regressions").join(target)
}

/// Runs a body and fails if it takes too much memory.
fn replay(name: &str, body: Body, bytes: &[u8]) {
    let most = memory::most_during(|| body(bytes));
    assert!(most < MOST_MEMORY, "{name}: {most} bytes of memory for {} of input", bytes.len());
}

#[test]
fn what_fuzzing_found_is_mended() {
    for (target, body) in TARGETS {
        let files = fs::read_dir(regressions(target)).unwrap_or_else(|error| panic!("{target}: {error}"));
        let mut count = 0;
        for file in files {
            let path = file.unwrap().path();
            println!("{}", path.display());
            replay(&path.display().to_string(), body, &fs::read(&path).unwrap());
            count += 1;
        }
        assert!(
            count >= kinds(target).len(),
            "{target}: {count} inputs; `the_kinds_are_written` writes those made here"
        );
    }
}

#[test]
fn every_kind_has_an_answer() {
    for (target, body) in TARGETS {
        for (kind, bytes) in kinds(target) {
            println!("{target}: {kind}");
            replay(kind, body, &bytes);
        }
    }
}

/// Writes these inputs as files to fuzz from: `cargo test --test hostile -- --ignored the_kinds_are_written`.
#[test]
#[ignore = "writes to the source tree"]
fn the_kinds_are_written() {
    for (target, _) in TARGETS {
        fs::create_dir_all(regressions(target)).unwrap();
        for (kind, bytes) in kinds(target) {
            assert!(bytes.len() <= 24 << 10, "{target}: {kind} has {} bytes", bytes.len());
            fs::write(regressions(target).join(kind.replace([' ', '/'], "-")), bytes).unwrap();
        }
    }
}
