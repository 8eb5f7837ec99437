//! Trees and artifacts in tar archives give the same as directories.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use crate::artifacts::place::{Mounted, Place};
use crate::common::can_mount;

const ENDS: [&str; 4] = ["tar", "tar.gz", "tar.zst", "tar.xz"];

/// Packs the content of a directory.
fn pack(place: &Place, directory: &str, archive: &str) {
    let mut tar = tar::Builder::new(Vec::new());
    tar.follow_symlinks(false);
    tar.append_dir_all(".", place.at(directory)).unwrap();
    let tar = tar.into_inner().unwrap();
    let end = Path::new(archive).extension().and_then(|end| end.to_str());
    let bytes = match end {
        Some("gz") => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(1));
            encoder.write_all(&tar).unwrap();
            encoder.finish().unwrap()
        }
        Some("zst") => zstd::bulk::compress(&tar, 1).unwrap(),
        _ => tar,
    };
    place.file(archive, bytes);
    if end == Some("xz") {
        // kpackfs depends on nothing that writes xz.
        let xz = "import lzma, sys; p = sys.argv[1]; d = open(p, 'rb').read(); lzma.open(p, 'wb', preset=1).write(d)";
        assert!(Command::new("python3").args(["-c", xz]).arg(place.at(archive)).status().unwrap().success());
    }
}

/// Checks that two directories contain the same files with the same bytes.
fn check_same(place: &Place, one: &str, other: &str) {
    assert_eq!(place.files(one), place.files(other), "{one} {other}");
    for file in place.files(one) {
        let read = |directory: &str| fs::read(place.at(directory).join(&file));
        assert!(read(one).unwrap() == read(other).unwrap(), "{one} {other} {file}");
    }
}

fn tree(place: &Place) {
    place.fixture("tree/lib/x.so", "plain.so").fixture("tree/lib/ccob.so", "ccob-v3.so").file("tree/share/x.txt", "x");
    place.file("tree/lib/rocblas/library/Kernels_gfx90a.hsaco", "database").link("tree/lib/link.so", "x.so");
}

#[test]
fn trees_in_archives_are_split_as_directories_are() {
    let place = Place::new();
    tree(&place);
    place.succeeds(&["split", "tree", "-o", "out", "--group", "x"]);
    let inspected = |input: &str| {
        let text = String::from_utf8(place.run(&["inspect", input, "--json", "--group", "x"]).stdout).unwrap();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        json["binaries"].clone()
    };
    for end in ENDS {
        let (archive, out) = (format!("tree.{end}"), format!("out of {end}/"));
        pack(&place, "tree", &archive);
        place.succeeds(&["split", &archive, "-o", &out, "--group", "x"]);
        check_same(&place, "out", &out);
        assert_eq!(inspected(&archive), inspected("tree"), "{end}");
    }
}

#[test]
fn artifacts_in_archives_are_split_and_recombined_as_directories_are() {
    let place = Place::new();
    let config = r#"{"primary_shard": "a", "architecture_groups": {"all": {"architectures": ["gfx90a", "gfx1030"]}}}"#;
    place.file("config.json", config);
    let artifact = "directories/a/x_lib_gfx90X";
    place.manifest(artifact, &["stage"]).file(&format!("{artifact}/stage/share/x.txt"), "x");
    place.fixture(&format!("{artifact}/stage/lib/x.so"), "plain.so");
    place.succeeds(&["split", artifact, "-o", "split"]);
    place.succeeds(&["recombine", "config.json", "directories", "-o", "packages"]);
    for end in ENDS {
        let shards = format!("shards.{end}");
        let archive = format!("{shards}/a/x_lib_gfx90X.{end}");
        pack(&place, artifact, &archive);
        place.succeeds(&["split", &archive, "-o", &format!("split of {end}/")]);
        check_same(&place, "split", &format!("split of {end}/"));
        place.succeeds(&["split", &format!("{shards}/a"), "-o", &format!("batch of {end}/")]);
        check_same(&place, "split", &format!("batch of {end}/"));
        place.succeeds(&["recombine", "config.json", &shards, "-o", &format!("packages of {end}/")]);
        check_same(&place, "packages", &format!("packages of {end}/"));
    }
    // The name alone does not make a tree an artifact.
    tree(&place);
    pack(&place, "tree", "tree_gfx90a.tar.zst");
    place.succeeds(&["split", "tree_gfx90a.tar.zst", "-o", "of-tree"]);
    assert!(place.names("of-tree").contains("host"));
}

#[test]
fn archives_are_mounted_unless_they_are_streams() {
    let place = Place::new();
    tree(&place);
    place.succeeds(&["split", "tree", "-o", "out", "--group", "x"]);
    fs::create_dir(place.at("mnt")).unwrap();
    for end in ["tar.zst", "tar.xz"] {
        pack(&place, "tree", &format!("x.{end}"));
        let said = place.fails(5, &["mount", &format!("x.{end}"), "mnt"]);
        assert!(said.contains("a mount cannot read a tar archive") && said.contains("unpack it"), "{said}");
    }
    if !can_mount() {
        return;
    }
    for end in ["tar", "tar.gz"] {
        pack(&place, "tree", &format!("x.{end}"));
        place.succeeds(&["mount", &format!("x.{end}"), "mnt", "--group", "x"]);
        let point = place.at("mnt");
        let mounted = Mounted(&point);
        for part in ["host", "gfx90a", "gfx1030"] {
            check_same(&place, &format!("out/{part}"), &format!("mnt/{part}"));
        }
        drop(mounted);
    }
}
