//! Which code objects a runtime finds by the entry IDs of a bundle. `scripts/check-thin` compares that with AMD's COMGR.

use std::collections::BTreeSet;
use std::fs;

use crate::identity::library::{ANY, BundleEntry, OFF, ON, PREFIX, Place};
use crate::identity::set;

/// gfx90a, whose number is 0x3f, with SRAM-ECC on.
const ECC: u32 = 0xc00;

fn gfx90a(id: &str, features: u32) -> BundleEntry {
    BundleEntry { id: id.to_owned(), flags: 0x3f | features }
}

/// The entry of a bundle for a mode of gfx90a.
fn mode(features: &str, flags: u32) -> BundleEntry {
    BundleEntry::new(&format!("gfx90a{features}"), 0x3f, flags)
}

/// `why` for a device, in fat and in split form: whether it finds code, and the identifiers of causes.
fn answers(place: &Place, device: &str) -> [(bool, BTreeSet<String>); 2] {
    place.why(&[device]).map(|(found, text)| {
        let answer: serde_json::Value = serde_json::from_str(&text).unwrap();
        let causes = answer["causes"].as_array().unwrap();
        (found[0], set(causes.iter().map(|cause| cause["id"].as_str().unwrap())))
    })
}

/// Compilers write features in one order. Bundlers take any, and COMGR finds it.
#[test]
fn features_have_any_order() {
    let place = Place::new(&[mode(":xnack-:sramecc+", OFF | ECC), mode(":xnack+:sramecc+", ON | ECC)]);
    place.split();
    assert_eq!(place.archives("out"), set(["gfx90a:sramecc+:xnack-", "gfx90a:sramecc+:xnack+"]));
    for device in ["gfx90a:sramecc+:xnack-", "gfx90a:xnack+:sramecc+", "GFX90A:SRAMECC+:XNACK-"] {
        for (found, causes) in answers(&place, device) {
            assert!(found, "{device}: {causes:?}");
        }
    }
    place.succeeds(&["split", "tree", "-o", "merged", "--view", "merged/gfx90a"]);
    place.succeeds(&["why", "merged/merged/gfx90a", "--target", "gfx90a"]);
    place.succeeds(&["kpack", "unbundle", "tree/lib/libx.so", "-o", "code", "--target", "gfx90a:sramecc+:xnack-"]);
    place.succeeds(&["inspect", "tree", "--require", "GFX90A"]);
}

/// The split of a version that kept the order: no loader asks for such names.
#[test]
fn verify_finds_archives_that_no_loader_asks_for() {
    let place = Place::new(&[mode(":xnack-:sramecc+", OFF | ECC), BundleEntry::new("gfx1030", 0x36, 0)]);
    place.succeeds(&["split", "tree", "-o", "out", "--no-manifest", "--compression", "none"]);
    let (canonical, other) = ("gfx90a:sramecc+:xnack-", "gfx90a:xnack-:sramecc+");
    let archive = |target: &str| place.at(&format!("out/gfx90a/.kpack/rocm_{target}.kpack"));
    let mut bytes = fs::read(archive(canonical)).unwrap();
    let places: Vec<_> =
        bytes.windows(canonical.len()).enumerate().filter(|(_, it)| *it == canonical.as_bytes()).collect();
    let places: Vec<_> = places.into_iter().map(|(at, _)| at).collect();
    assert!(!places.is_empty());
    for at in places {
        bytes[at..at + other.len()].copy_from_slice(other.as_bytes());
    }
    fs::remove_file(archive(canonical)).unwrap();
    fs::write(archive(other), bytes).unwrap();
    let verified = place.run(&["verify", "out", "--against", "tree"]);
    let said = String::from_utf8(verified.stdout).unwrap();
    assert_eq!(verified.status.code(), Some(1), "{said}");
    assert!(said.contains("its code for gfx90a:sramecc+:xnack- is not found"), "{said}");
    // A library that was split so is split again as it should be.
    place.install();
    let lacking = answers(&place, canonical);
    assert_eq!(lacking[1], (false, set(["archive-name"])));
    place.succeeds(&["split", "site", "-o", "again"]);
    assert_eq!(place.archives("again"), set([canonical, "gfx1030"]));
}

/// As COMGR 2.4 and 3.3 answer.
const UNFOUND: [&str; 9] = [
    "hipv4-amdgcn-amd-amdhsa-gfx90a",
    "hip-amdgcn-amd-amdhsa-gfx90a",
    "hipv4-amdgcn-amd-amdhsa-unknown-gfx90a",
    "hipv4-amdgcn-amd-amdhsa-llvm-gfx90a",
    "openmp-amdgcn-amd-amdhsa--gfx90a",
    "hipv4-amdgcn--amdhsa--gfx90a",
    "hipv5-amdgcn-amd-amdhsa--gfx90a",
    "hipv4-amdgpu9.0a-amd-amdhsa--gfx90a",
    "hipv4-amdgcn-amd-amdhsa--GFX90A",
];

/// Code that no runtime finds is kept, is named, and serves no GPU in any form.
#[test]
fn code_under_other_ids_is_kept_and_serves_none() {
    for id in UNFOUND {
        let place = Place::new(&[gfx90a(id, ANY), BundleEntry::new("gfx1030", 0x36, 0)]);
        let said = place.split();
        assert!(
            said.contains(&format!("runtimes that ask COMGR find no code with the entry ID {id}; it is kept")),
            "{said}"
        );
        for arguments in [&["inspect", "tree"][..], &["inspect", "tree", "--json"]] {
            let said = place.succeeds(arguments);
            assert!(said.contains(&format!("with the entry ID {id}; it is kept")), "{said}");
        }
        place.succeeds(&["inspect", "tree", "--html", "report.html"]);
        assert!(fs::read_to_string(place.at("report.html")).unwrap().contains(id));
        for answer in answers(&place, "gfx90a:sramecc+:xnack-") {
            assert_eq!(answer, (false, set(["entry-id"])), "{id}");
        }
        assert_eq!(place.run(&["inspect", "tree", "--require", "gfx90a"]).status.code(), Some(1), "{id}");
        assert!(!place.run(&["split", "tree", "-o", "thin", "--view", "thin/gfx90a"]).status.success(), "{id}");
        // Nothing is lost, there and back again.
        place.succeeds(&["split", "site", "-o", "joined", "--view", "fat"]);
        let code = |path: &str| -> BTreeSet<Vec<u8>> {
            place.entries(path).into_iter().flatten().map(|(_, code)| code).collect()
        };
        assert_eq!(code("joined/fat/lib/libx.so"), code("tree/lib/libx.so"), "{id}");
        assert!(!place.targets("joined/fat/lib/libx.so").contains("gfx90a"), "{id}");
    }
}

/// What a runtime finds is not hidden by what it does not find, whichever comes first.
#[test]
fn code_under_other_ids_hides_nothing() {
    for id in UNFOUND {
        let place = Place::new(&[gfx90a(id, ANY), mode("", ANY)]);
        place.split();
        let (archive, found) = (place.archives("out/gfx90a"), place.entries("tree/lib/libx.so")[0][1].1.clone());
        assert_eq!(archive, set(["gfx90a"]), "{id}");
        place.succeeds(&["split", "tree", "-o", "thin", "--view", "thin/gfx90a"]);
        place.succeeds(&["split", "site", "-o", "joined", "--view", "fat"]);
        for path in ["thin/thin/gfx90a/lib/libx.so", "joined/fat/lib/libx.so"] {
            let entries = place.entries(path).swap_remove(0);
            let of_gpu: Vec<_> = entries.into_iter().filter(|(target, _)| target == "gfx90a").collect();
            assert_eq!(of_gpu, [("gfx90a".to_owned(), found.clone())], "{id}: {path}");
        }
    }
}

/// COMGR takes the first entry that fits, and loaders of archives the most specific one.
#[test]
fn the_first_entry_that_fits_is_found_in_every_form() {
    let (on, off) = ("gfx90a:sramecc+:xnack+", "gfx90a:sramecc+:xnack-");
    // The number of the entry that each device finds.
    for (entries, found) in [
        ([mode("", ANY), mode(":xnack-", OFF)], [Some(0), Some(0)]),
        ([mode(":xnack-", OFF), mode("", ANY)], [Some(1), Some(0)]),
        ([mode(":xnack-", OFF), mode(":sramecc+", ANY | ECC)], [Some(1), Some(0)]),
        ([mode(":sramecc+", ANY | ECC), mode(":xnack-", OFF)], [Some(0), Some(0)]),
        ([mode(":xnack-", OFF), mode(":xnack-", OFF)], [None, Some(0)]),
    ] {
        let place = Place::new(&entries);
        place.split();
        place.succeeds(&["split", "site", "-o", "joined", "--view", "fat"]);
        let all: Vec<_> = place.entries("tree/lib/libx.so").swap_remove(0).into_iter().map(|(_, code)| code).collect();
        for (device, found) in [on, off].into_iter().zip(found) {
            let expected = found.map(|at: usize| all[at].clone());
            for path in ["tree/lib/libx.so", "joined/fat/lib/libx.so"] {
                assert_eq!(place.loaded(path, device), expected, "{device} {path} {entries:?}");
            }
            assert_eq!(place.loaded_from_archives("site/.kpack", device), expected, "{device} {entries:?}");
        }
        place.succeeds(&["verify", "out", "--against", "joined/fat"]);
    }
}

/// The IDs that newer compilers give to SPIR-V. They are the same in a thin library.
#[test]
fn triples_of_spirv_may_name_an_environment() {
    for (kind, environment) in [("hip", "unknown"), ("hipv4", "unknown"), ("hip", ""), ("hipv4", "")] {
        let id = format!("{kind}-spirv64-amd-amdhsa-{environment}-amdgcnspirv");
        let native = BundleEntry::new("gfx942:xnack+", 0x4c, ON);
        let place = Place::new(&[BundleEntry { id: id.clone(), flags: 0 }, native]);
        // The code for SPIR-V is none, which verify would find.
        place.succeeds(&["split", "tree", "-o", "out"]);
        assert_eq!(place.archives("out"), set(["amdgcnspirv", "gfx942:xnack+"]));
        place.succeeds(&["split", "tree", "-o", "thin", "--view", "thin/gfx942"]);
        let thin = fs::read(place.at("thin/thin/gfx942/lib/libx.so")).unwrap();
        assert!(thin.windows(id.len()).any(|window| window == id.as_bytes()));
    }
}

/// A fat library with SPIR-V code serves every GPU, and its split does not, since no runtime takes that out of archives.
#[test]
fn spirv_code_that_goes_to_archives_is_said() {
    let spirv = BundleEntry { id: "hip-spirv64-amd-amdhsa--amdgcnspirv".to_owned(), flags: 0 };
    let place = Place::new(&[spirv, BundleEntry::new("gfx1030", 0x36, 0)]);
    let warning = "lib/libx.so: SPIR-V code serves no GPU out of an archive";
    assert!(place.succeeds(&["split", "tree", "-o", "out"]).contains(warning));
    let note = "lib/libx.so: its SPIR-V code is in an archive";
    let verified = |split: &str| String::from_utf8(place.run(&["verify", split, "--against", "tree"]).stdout).unwrap();
    assert!(verified("out").contains(note), "{}", verified("out"));
    // A user who leaves it out knows that.
    let left_out = place.succeeds(&["split", "tree", "-o", "native", "--exclude-targets", "amdgcnspirv"]);
    assert!(!left_out.contains("SPIR-V") && !verified("native").contains("SPIR-V"), "{left_out}");
}

/// Compilers that name the processor in the triple leave the target ID empty.
#[test]
fn code_without_a_target_is_named_by_its_header() {
    for id in ["hip-amdgpu9.0a-amd-amdhsa--", PREFIX] {
        let place = Place::new(&[gfx90a(id, ANY), BundleEntry::new("gfx1030", 0x36, 0)]);
        let said = place.succeeds(&["inspect", "tree"]);
        assert!(said.contains(&format!("entry ID {id} (code for gfx90a, by its header)")), "{said}");
    }
}
