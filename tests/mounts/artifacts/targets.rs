//! Tests with only some targets.

use crate::artifacts::place::{Place, set};

const LIBRARY: &str = "shard/x_lib_g/stage/lib/rocblas/library";

fn shard() -> Place {
    let place = Place::new();
    place.manifest("shard/x_lib_g", &["stage"]).fixture("shard/x_lib_g/stage/lib/x.so", "features.so");
    for target in ["gfx942", "gfx90a", "gfx90a-xnack-", "gfx1100"] {
        place.file(&format!("{LIBRARY}/TensileLibrary_{target}.dat"), target);
    }
    place
}

#[test]
fn everything_without_a_selection() {
    let place = shard();
    place.succeeds(&["split", "shard", "-o", "out"]);
    assert_eq!(place.names("out"), set(["x_lib_generic", "x_lib_gfx1100", "x_lib_gfx90a", "x_lib_gfx942"]));
    // Features stay in the names of archives and databases, but do not make parts.
    let expected = [
        "artifact_manifest.txt",
        "stage/.kpack/x_lib_gfx90a.kpack",
        "stage/.kpack/x_lib_gfx90a:xnack+.kpack",
        "stage/.kpack/x_lib_gfx90a:xnack-.kpack",
        "stage/lib/rocblas/library/TensileLibrary_gfx90a-xnack-.dat",
        "stage/lib/rocblas/library/TensileLibrary_gfx90a.dat",
    ];
    assert_eq!(place.files("out/x_lib_gfx90a"), set(expected));
    place.succeeds(&["verify", "out", "--against", "shard"]);
}

#[test]
fn what_belongs_to_other_targets_is_in_no_part() {
    let place = shard();
    place.succeeds(&["split", "shard", "-o", "all"]);
    place.succeeds(&["split", "shard", "-o", "out", "--gpu-targets", "gfx90a:sramecc+:xnack-"]);
    assert_eq!(place.names("out"), set(["x_lib_generic", "x_lib_gfx90a"]));
    assert_eq!(place.files("out/x_lib_generic"), set(["artifact_manifest.txt", "stage/lib/x.so"]));
    for file in place.files("out") {
        let read = |root: &str| std::fs::read(place.at(root).join(&file)).unwrap();
        assert!(read("out") == read("all"), "{file}");
    }
    place.succeeds(&["verify", "out", "--against", "shard", "--gpu-targets", "gfx90a"]);
    place.succeeds(&["verify", "out", "--against", "shard"]);
    // The targets are known from the statement of the split.
    for part in place.names("out") {
        std::fs::remove_dir_all(place.at(&format!("out/{part}/.kpackfs"))).unwrap();
    }
    assert!(place.fails(1, &["verify", "out", "--against", "shard"]).contains("the file is lost"));
}

#[test]
fn a_shard_that_has_none_of_its_targets_is_no_failure() {
    let place = shard();
    let said = place.succeeds(&["split", "shard", "-o", "out", "--gpu-targets", "gfx1010"]);
    assert!(
        said.contains("shard/x_lib_g: it has code for gfx90a only, which is not wanted: binaries stripped of it: 1"),
        "{said}"
    );
    assert_eq!(place.names("out"), set(["x_lib_generic"]));
    // Host code is transformed in any case.
    let size = |path: &str| place.at(path).metadata().unwrap().len();
    assert!(size("out/x_lib_generic/stage/lib/x.so") < size("shard/x_lib_g/stage/lib/x.so"));
    place.succeeds(&["verify", "out", "--against", "shard", "--gpu-targets", "gfx1010"]);
}

#[test]
fn targets_that_compilers_insert_can_be_left_out() {
    let place = shard();
    place.succeeds(&["split", "shard", "-o", "out", "--exclude-targets", "gfx90a,gfx11"]);
    assert_eq!(place.names("out"), set(["x_lib_generic", "x_lib_gfx942"]));
    place.succeeds(&["verify", "out", "--against", "shard", "--exclude-targets", "gfx90a,gfx11"]);
}

#[test]
fn code_for_generic_processors_is_wanted_for_their_family() {
    let place = Place::new();
    place.manifest("shard/x_lib_g", &["stage"]).fixture("shard/x_lib_g/stage/lib/x.so", "generic.so");
    place.succeeds(&["split", "shard", "-o", "out", "--gpu-targets", "gfx1101"]);
    assert_eq!(place.names("out"), set(["x_lib_generic", "x_lib_gfx11-generic"]));
    place.succeeds(&["split", "shard", "-o", "other", "--gpu-targets", "gfx1200"]);
    assert_eq!(place.names("other"), set(["x_lib_generic"]));
}
