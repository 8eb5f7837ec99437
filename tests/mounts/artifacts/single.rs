//! Tests with a single binary as input.

use std::fs;

use crate::artifacts::place::{Mounted, Place, set};
use crate::common::can_mount;

#[test]
fn a_binary_is_split_with_its_archives_beside_it() {
    for (fixture, name) in [("plain.so", "libx.so.1.2"), ("exe-pie", "tool"), ("win.dll", "x y.dll")] {
        let place = Place::new();
        place.fixture(name, fixture);
        place.succeeds(&["split", name, "-o", "out"]);
        let group = name.replace(' ', "_");
        assert_eq!(place.files("out/host"), set([name]));
        assert!(place.names("out").is_superset(&set(["gfx90a", "host"])));
        let archive = format!(".kpack/{group}_gfx90a.kpack");
        assert_eq!(place.files("out/gfx90a"), set([archive.as_str()]));
        assert!(place.archive(&format!("out/gfx90a/{archive}")).contains(&(format!("{name}#0"), "gfx90a".to_owned())));
        let verified = place.run(&["verify", "out", "--against", name]);
        assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
        // The bytes are the same as from a tree that contains it, except for the name of the archives.
        place.fixture(&format!("tree/{name}"), fixture);
        place.succeeds(&["split", "tree", "-o", "of-tree", "--group", &group]);
        assert_eq!(place.files("out"), place.files("of-tree"));
        for file in place.files("of-tree") {
            let [one, other] = ["out", "of-tree"].map(|root| fs::read(place.at(root).join(&file)).unwrap());
            assert!(one == other, "{name}: {file}");
        }
    }
}

#[test]
fn it_can_be_thinned_inspected_and_mounted() {
    let place = Place::new();
    place.fixture("libx.so", "plain.so").fixture("m/.keep", "README.md");
    place.succeeds(&["split", "libx.so", "-o", "out", "--view", "thin/gfx90a"]);
    place.succeeds(&["kpack", "unbundle", "out/thin/gfx90a/libx.so", "-o", "code"]);
    assert!(place.names("code").iter().all(|name| name.ends_with(".gfx90a.hsaco")));
    let said = place.run(&["inspect", "libx.so"]).stdout;
    assert!(String::from_utf8(said).unwrap().contains("Split of libx.so: 1 entry"));
    if can_mount() {
        let point = place.at("m");
        place.succeeds(&["mount", "libx.so", "m"]);
        let _mounted = Mounted(&point);
        let verified = place.run(&["verify", "m", "--against", "libx.so"]);
        assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
        assert_eq!(place.names("m/merged/gfx1030"), set([".kpack", "libx.so"]));
    }
}

#[test]
fn what_is_no_binary_or_has_no_code_is_named() {
    let place = Place::new();
    place.file("notes.so", "text").file("short", "\x7fEL").fixture("host.so", "host-only.so");
    for file in ["notes.so", "short"] {
        let said = place.fails(5, &["split", file, "-o", "out"]);
        assert!(said.contains(&format!("{file}: a file of no known format")), "{said}");
    }
    let said = place.fails(1, &["split", "host.so", "-o", "out"]);
    assert!(said.contains("host.so: nothing to split: it has no HIP wrappers with code and no kernel databases: 1 file, 1 binary; data was not searched"), "{said}");
    let said = place.fails(1, &["split", "host.so", "-o", "out", "--format", "wheel"]);
    assert!(said.contains("nothing to split") || said.contains("wheels can be made of a wheel only"), "{said}");
}
