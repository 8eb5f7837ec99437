//! Tests of what `verify` finds in artifacts.

use std::fs;

use crate::artifacts::place::Place;

/// A component after a split.
fn split() -> Place {
    let place = Place::new();
    place.manifest("shard/x_lib_g", &["a/stage", "b/stage"]).fixture("shard/x_lib_g/a/stage/lib/x.so", "plain.so");
    place.file("shard/x_lib_g/b/stage/share/notes", "text");
    place.file("shard/x_lib_g/b/stage/lib/rocblas/library/TensileLibrary_gfx90a.dat", "text");
    place.file("shard/x_lib_g/b/stage/share/miopen/db/gfx90a68.HIP.fdb.txt", "text");
    place.succeeds(&["split", "shard", "-o", "out"]);
    place
}

/// The findings of `verify` after a change.
fn found(change: impl FnOnce(&Place)) -> String {
    let place = split();
    place.succeeds(&["verify", "out", "--against", "shard"]);
    change(&place);
    place.fails(1, &["verify", "out"])
}

#[test]
fn a_missing_manifest() {
    let text = found(|place| fs::remove_file(place.at("out/x_lib_gfx90a/artifact_manifest.txt")).unwrap());
    assert!(text.contains("x_lib_gfx90a: artifact_manifest.txt not found in it"), "{text}");
}

#[test]
fn a_missing_manifest_of_a_part_by_name() {
    let place = split();
    fs::remove_file(place.at("out/x_lib_gfx90a/artifact_manifest.txt")).unwrap();
    let text = place.fails(1, &["verify", "out/x_lib_generic", "out/x_lib_gfx90a", "out/x_lib_gfx1030"]);
    assert!(text.contains("out/x_lib_gfx90a: artifact_manifest.txt not found in it"), "{text}");
}

#[test]
fn manifests_that_are_written_otherwise_or_name_nothing() {
    let place = split();
    place.manifest("shard/x_lib_g", &["./a//stage/", "b/./stage"]);
    place.succeeds(&["split", "shard", "-o", "again"]);
    assert_eq!(place.files("again"), place.files("out"));
    place.succeeds(&["verify", "again", "--against", "shard"]);
    let reason = "artifact_manifest.txt: the artifact has none of the directories that it names: c/stage";
    place.manifest("shard/x_lib_g", &["c/stage"]);
    assert!(place.fails(1, &["split", "shard", "-o", "other"]).contains(reason));
    let text = found(|place| {
        place.manifest("out/x_lib_gfx90a", &["c/stage"]);
    });
    assert!(text.contains(reason), "{text}");
}

#[test]
fn a_missing_generic_part() {
    let text = found(|place| fs::remove_dir_all(place.at("out/x_lib_generic")).unwrap());
    assert!(text.contains("x_lib: there are device parts, but no x_lib_generic"), "{text}");
}

#[test]
fn a_library_that_is_still_fat() {
    let text = found(|place| {
        place.fixture("out/x_lib_generic/a/stage/lib/x.so", "plain.so");
    });
    assert!(text.contains("x_lib_generic/a/stage/lib/x.so: it still holds device code, of 2 wrappers"), "{text}");
}

#[test]
fn files_in_the_wrong_part() {
    let text = found(|place| {
        place.file("out/x_lib_gfx90a/a/stage/lib/libhost.so", "host");
    });
    assert!(text.contains("x_lib_gfx90a/a/stage/lib/libhost.so: it is neither an archive nor of a database"), "{text}");
    let text = found(|place| {
        place.file("out/x_lib_gfx90a/b/stage/lib/rocblas/library/gfx942/x", "database");
    });
    assert!(text.contains("it is for gfx942, which belongs to gfx942 and not to gfx90a"), "{text}");
    let text = found(|place| {
        place.file("out/x_lib_generic/a/stage/lib/libdevice_conv_operations_gfx942.a", "");
    });
    assert!(text.contains("it belongs to the composablekernel database of gfx942"), "{text}");
}

#[test]
fn archives_are_checked_wherever_they_are() {
    for (path, content, reason) in [
        ("out/x_lib_gfx90a/a/stage/.kpack/x_lib_gfx90a.kpack", &b""[..], "it is too short"),
        ("out/x_lib_gfx90a/a/stage/.kpack/x_lib_gfx90a.kpack", &[b'X'; 100], "it is not a version 1 kpack archive"),
        ("out/x_lib_generic/b/stage/share/other.kpack", b"KPAK", "it is too short"),
    ] {
        let text = found(|place| {
            place.file(path, content);
        });
        let name = path.strip_prefix("out/").unwrap();
        assert!(text.contains(&format!("{name}: {reason}")), "{text}");
    }
}

#[test]
fn two_files_that_are_installed_at_one_place() {
    let text = found(|place| {
        place.file("out/x_lib_generic/a/stage/share/notes", "another text");
    });
    assert!(text.contains("share/notes: a/stage/share/notes is installed at the same place"), "{text}");
}

#[test]
fn parts_by_themselves() {
    let place = split();
    for part in ["out/x_lib_generic", "out/x_lib_gfx90a"] {
        place.succeeds(&["verify", part]);
    }
    place.succeeds(&[
        "verify",
        "out/x_lib_generic",
        "out/x_lib_gfx90a",
        "out/x_lib_gfx1030",
        "--against",
        "shard/x_lib_g",
    ]);
    // A generic part may contain a manifest of archives.
    place.file("out/x_lib_generic/a/stage/.kpack/x_lib.kpm", "");
    place.succeeds(&["verify", "out"]);
}

#[test]
fn what_is_lost_and_what_is_not_a_directory_of_artifacts() {
    let place = split();
    fs::remove_file(place.at("out/x_lib_generic/b/stage/share/notes")).unwrap();
    fs::remove_dir_all(place.at("out/x_lib_gfx1030")).unwrap();
    let text = place.fails(1, &["verify", "out", "--against", "shard"]);
    assert!(text.contains("share/notes: the file is lost"), "{text}");
    assert!(text.contains("lib/x.so: wrapper 0: its code for gfx1030 is not found"), "{text}");
    assert!(place.fails(5, &["verify", "missing"]).contains("missing"));
    assert!(place.fails(2, &["verify", "out", "--against", "out/x_lib_generic/b"]).contains("not found"));
}

#[test]
fn a_split_says_what_was_asked_for_and_what_there_is() {
    let place = Place::new();
    for component in ["x_lib", "y_lib"] {
        let artifact = format!("shard/{component}_g");
        place.manifest(&artifact, &["stage"]).fixture(&format!("{artifact}/stage/lib/x.so"), "plain.so");
        place.file(&format!("{artifact}/stage/lib/rocblas/library/TensileLibrary_gfx90a.dat"), b"\x91\xa4text");
    }
    // One directory for all components, as in builds.
    place.succeeds(&["split", "shard/x_lib_g", "-o", "out", "--gpu-targets", "gfx1030", "--databases", ""]);
    place.succeeds(&["split", "shard/y_lib_g", "-o", "out", "--exclude-targets", "gfx1030"]);
    let output = place.run(&["verify", "out", "--against", "shard"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    assert!(
        text.contains("x_lib_generic/.kpackfs/split.json: the split was made with --gpu-targets gfx1030 --databases"),
        "{text}"
    );
    assert!(
        text.contains("y_lib_generic/.kpackfs/split.json: the split was made with --exclude-targets gfx1030"),
        "{text}"
    );
    place.succeeds(&["verify", "out/y_lib_generic", "out/y_lib_gfx90a", "--against", "shard"]);
    // The statement of the split does not excuse missing parts.
    for part in ["x_lib_gfx1030", "y_lib_generic"] {
        fs::rename(place.at(&format!("out/{part}")), place.at("aside")).unwrap();
        let text = place.fails(1, &["verify", "out"]);
        assert!(
            text.contains(&format!("{part}: out/")) && text.contains("/.kpackfs/split.json names it, but"),
            "{text}"
        );
        fs::rename(place.at("aside"), place.at(&format!("out/{part}"))).unwrap();
    }
    for part in ["x_lib_gfx1030", "x_lib_generic"] {
        fs::remove_dir_all(place.at(&format!("out/{part}"))).unwrap();
    }
    let text = place.fails(1, &["verify", "out", "--against", "shard"]);
    assert!(text.contains("x_lib: no artifact of it is there"), "{text}");
    // A split for fewer targets leaves nothing of the other targets, and changes no other component.
    place.succeeds(&["split", "shard/x_lib_g", "-o", "out"]);
    place.succeeds(&["split", "shard/x_lib_g", "-o", "out", "--force", "--gpu-targets", "gfx90a"]);
    assert!(!place.at("out/x_lib_gfx1030").exists() && place.at("out/y_lib_gfx90a").exists());
    place.succeeds(&["verify", "out", "--against", "shard"]);
    place.succeeds(&["split", "shard/x_lib_g", "-o", "out", "--force"]);
    place.succeeds(&["verify", "out", "--against", "shard"]);
    fs::remove_dir_all(place.at("out/x_lib_gfx1030")).unwrap();
    place.fails(1, &["verify", "out", "--against", "shard"]);
}
