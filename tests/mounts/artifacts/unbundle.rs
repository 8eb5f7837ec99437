//! Extracts code objects from binaries and bundles.

use std::fs;

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::artifacts::place::{Place, renamed, set};

/// Extracts the code objects of a fixture, and compares them with `expected.json`.
fn check(fixture: &str) {
    let place = Place::new();
    place.fixture(fixture, fixture);
    place.succeeds(&["kpack", "unbundle", fixture, "-o", "out"]);
    let expected: Value = serde_json::from_slice(&fs::read("tests/fixtures/expected.json").unwrap()).unwrap();
    let mut count = 0;
    for (number, wrapper) in expected[fixture]["wrappers"].as_array().unwrap().iter().enumerate() {
        for (target, object) in wrapper.as_object().unwrap() {
            let bytes = fs::read(place.at(&format!("out/{fixture}.{number}.{target}.hsaco"))).unwrap();
            let digest = Sha256::digest(&bytes).iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
            assert_eq!(object["sha256"], digest.as_str(), "{fixture} {number} {target}");
            count += 1;
        }
    }
    assert!(count > 0);
    assert_eq!(place.names("out").len(), count);
}

#[test]
fn binaries() {
    for fixture in
        ["plain.so", "features.so", "mixed-shuffled.so", "ccob-mixed.so", "ccob-v1.so", "win.dll", "exe-nopie"]
    {
        check(fixture);
    }
}

/// The offload bundles of a fixture, as stored in the section.
fn section(fixture: &str) -> Vec<u8> {
    use object::{Object, ObjectSection};
    let bytes = fs::read(format!("tests/fixtures/{fixture}")).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    file.section_by_name(".hip_fatbin").unwrap().data().unwrap().to_vec()
}

/// An entry behind one that fits all of its GPUs is found by no runtime, like a second one for the same target.
#[test]
fn code_behind_code_for_the_same_gpus_is_kept_apart() {
    let place = Place::new();
    // The first entry of this binary's bundles is that for gfx1030.
    for (place_of_mode, first, second, expected) in [
        ("behind", "gfx90a", "gfx90a:xnack-", "unknown-gfx90a.3axnack.2d"),
        ("before", "gfx90a:xnack-", "gfx90a", "gfx90a:xnack-"),
    ] {
        let name = format!("{place_of_mode}.so");
        place.file(&name, renamed("plain.so", &[("gfx1030", first), ("gfx90a", second)]));
        place.succeeds(&["kpack", "unbundle", &name, "-o", place_of_mode]);
        let expected = ["gfx90a", expected].map(|target| (0..2).map(move |of| (of, target)));
        let expected = expected.into_iter().flatten().map(|(of, target)| format!("{name}.{of}.{target}.hsaco"));
        assert_eq!(place.names(place_of_mode), expected.collect());
    }
}

#[test]
fn bundles_compressed_or_not_with_padding_between() {
    for fixture in ["plain.so", "compressed.so", "ccob-v3.so", "ccob-mixed.so"] {
        let place = Place::new();
        place.file("x.hipfb", section(fixture)).fixture("lib.so", fixture);
        place.succeeds(&["kpack", "unbundle", "x.hipfb", "-o", "bundles"]);
        place.succeeds(&["kpack", "unbundle", "lib.so", "-o", "binary"]);
        let mut contents = ["bundles", "binary"].map(|root| {
            place.names(root).iter().map(|name| fs::read(place.at(root).join(name)).unwrap()).collect::<Vec<_>>()
        });
        for contents in &mut contents {
            contents.sort();
        }
        assert!(contents[0] == contents[1] && !contents[0].is_empty(), "{fixture}");
    }
}

#[test]
fn one_target() {
    let place = Place::new();
    place.fixture("x.so", "features.so").fixture("y.so", "plain.so");
    place.succeeds(&["kpack", "unbundle", "x.so", "-o", "exact", "--target", "gfx90a:xnack-"]);
    assert_eq!(place.names("exact"), set(["x.so.0.gfx90a:xnack-.hsaco"]));
    place.succeeds(&["kpack", "unbundle", "x.so", "y.so", "-o", "bare", "--gfx-arch", "gfx90a"]);
    assert!(place.names("bare").contains("x.so.0.gfx90a:xnack+.hsaco"));
    assert!(place.names("bare").contains("y.so.1.gfx90a.hsaco"));
    assert!(!place.names("bare").iter().any(|name| name.contains("gfx1030")));
    let said = place.fails(1, &["kpack", "unbundle", "x.so", "-o", "none", "--target", "gfx942"]);
    assert!(said.contains("x.so: no code objects for gfx942"), "{said}");
    assert!(!place.at("none").exists());
}

#[test]
fn what_has_no_code() {
    let place = Place::new();
    place.fixture("host.so", "host-only.so").file("text", "no bundle").file("empty", "");
    for file in ["host.so", "text", "empty"] {
        let said = place.fails(1, &["kpack", "unbundle", file, "-o", "out"]);
        let wanted = format!("{file}: it is neither a binary with device code nor an offload bundle");
        assert!(said.contains(&wanted), "{said}");
    }
    let long = "x".repeat(251);
    let said = place.fixture(&long, "plain.so").fails(1, &["kpack", "unbundle", &long, "-o", "out"]);
    assert!(said.contains(".hsaco\": the name is too long for a file system"), "{said}");
    // Two files of one name are refused before anything is written.
    place.fixture("a/x.so", "plain.so").fixture("b/x.so", "plain.so");
    let said = place.fails(1, &["kpack", "unbundle", "a/x.so", "b/x.so", "-o", "out"]);
    assert!(said.contains("both a/x.so (bundle 0, gfx1030) and b/x.so (bundle 0, gfx1030)"), "{said}");
    assert!(!place.at("out").exists());
}
