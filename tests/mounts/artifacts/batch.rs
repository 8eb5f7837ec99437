//! Tests with all artifacts of a shard.

use crate::artifacts::place::{Place, set};

#[test]
fn generic_artifacts_are_skipped_and_the_others_called_after_their_component() {
    let place = Place::new();
    place
        .manifest("shard/blas_lib_gfx1100", &["blas/stage"])
        .fixture("shard/blas_lib_gfx1100/blas/stage/lib/b.so", "plain.so");
    place.file("shard/blas_lib_gfx1100/blas/stage/lib/rocblas/library/TensileLibrary_gfx1101.co", "");
    place.manifest("shard/fft_lib_gfx110X-all", &["fft/stage"]).file("shard/fft_lib_gfx110X-all/fft/stage/notes", "");
    place.manifest("shard/base_lib_generic", &["base/stage"]).file("shard/base_lib_generic/base/stage/notes", "");
    place.file("shard/logs/build.log", "");
    let said = place.succeeds(&["split", "--batch-artifact-parent-dir", "shard", "--output-dir", "out"]);
    assert!(said.contains("shard/logs: left out: artifact_manifest.txt not found"), "{said}");
    let expected = ["blas_lib_generic", "blas_lib_gfx1030", "blas_lib_gfx1101", "blas_lib_gfx90a", "fft_lib_generic"];
    assert_eq!(place.names("out"), set(expected));
    assert!(place.fails(1, &["split", "shard", "--artifact-prefix", "x", "-o", "other"]).contains("--artifact-prefix"));
}

#[test]
fn one_artifact_that_fails_does_not_keep_the_others_from_being_split() {
    let place = Place::new();
    for (name, fixture) in [("good_lib_g", "plain.so"), ("bad_lib_g", "extra-pointer.so")] {
        place.manifest(&format!("shard/{name}"), &["stage"]).fixture(&format!("shard/{name}/stage/lib/x.so"), fixture);
    }
    place.manifest("shard/worse_lib_g", &["/stage"]);
    let said = place.fails(1, &["split", "shard", "-o", "out"]);
    assert_eq!(place.names("out"), set(["good_lib_generic", "good_lib_gfx1030", "good_lib_gfx90a"]));
    assert!(said.contains("shard/bad_lib_g: it cannot be split") && said.contains("worse_lib_g"), "{said}");
    assert!(said.contains("2 artifacts could not be split"), "{said}");
}

#[test]
fn what_is_split_already_is_not_split_again() {
    let place = Place::new();
    place.manifest("shard/x_lib_gfx90a", &["stage"]).fixture("shard/x_lib_gfx90a/stage/lib/x.so", "plain.so");
    place.succeeds(&["split", "shard", "-o", "out"]);
    let said = place.fails(1, &["split", "out", "-o", "again"]);
    assert!(said.contains("out: there is nothing to split"), "{said}");
}

#[test]
fn inspect_tells_what_is_there_without_writing() {
    let place = Place::new();
    place.manifest("shard/x_lib_g", &["stage"]).fixture("shard/x_lib_g/stage/lib/x.so", "plain.so");
    let text = String::from_utf8(place.run(&["inspect", "shard"]).stdout).unwrap();
    for part in ["x_lib_generic", "x_lib_gfx1030", "x_lib_gfx90a"] {
        assert!(text.contains(part), "{text}");
    }
    let json = place.run(&["inspect", "--json", "--sizes", "shard"]).stdout;
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["artifacts"][0]["binaries"][0]["wrappers"], 2);
    assert_eq!(place.names(""), set(["shard"]));
}

#[test]
fn archives_that_cannot_be_read_are_named() {
    let place = Place::new();
    place.manifest("shard/x_lib_g", &["stage"]).fixture("shard/x_lib_g/stage/lib/x.so", "plain.so");
    place.file("shard/x_lib_g.tar.zst", "").file("shard/y_lib_g.tar.xz", "");
    let said = place.fails(5, &["split", "shard/y_lib_g.tar.xz", "-o", "out"]);
    assert!(said.contains("y_lib_g.tar.xz: an empty file"), "{said}");
    // An archive next to its unpacked directory is skipped silently. One that is not unpacked must be reported.
    let said = place.fails(1, &["split", "shard", "-o", "out"]);
    assert!(said.contains("y_lib_g.tar.xz") && !said.contains("x_lib_g.tar.zst"), "{said}");
    assert_eq!(place.names("out"), set(["x_lib_generic", "x_lib_gfx1030", "x_lib_gfx90a"]));
}
