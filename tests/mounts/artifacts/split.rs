//! Tests with one artifact.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;

use crate::artifacts::place::{Mounted, Place, set};
use crate::common::can_mount;

const STAGE: &str = "x_lib_gfx110X/math-libs/stage";

/// An artifact with a fat library below one prefix.
fn fat() -> Place {
    let place = Place::new();
    place.manifest("x_lib_gfx110X", &["math-libs/stage"]).fixture(&format!("{STAGE}/lib/libx.so.1.1"), "plain.so");
    place
}

#[test]
fn a_component_without_device_code_has_only_its_generic_part() {
    let place = Place::new();
    place.manifest("x_lib_gfx110X", &["a/stage"]).file("x_lib_gfx110X/a/stage/share/notes", "text");
    place.succeeds(&["split", "x_lib_gfx110X", "-o", "out"]);
    assert_eq!(place.files("out"), set(["x_lib_generic/a/stage/share/notes", "x_lib_generic/artifact_manifest.txt"]));
    assert_eq!(place.text("out/x_lib_generic/artifact_manifest.txt"), "a/stage\n");
}

#[test]
fn a_fat_library_becomes_smaller_and_its_code_is_in_the_prefix_it_comes_from() {
    let place = fat();
    place.succeeds(&["split", "x_lib_gfx110X", "-o", "out"]);
    let archive = |target: &str| format!("math-libs/stage/.kpack/x_lib_{target}.kpack");
    assert_eq!(place.names("out"), set(["x_lib_generic", "x_lib_gfx1030", "x_lib_gfx90a"]));
    for target in ["gfx90a", "gfx1030"] {
        let files = set([&archive(target), "artifact_manifest.txt"]);
        assert_eq!(place.files(&format!("out/x_lib_{target}")), files);
        assert_eq!(place.text(&format!("out/x_lib_{target}/artifact_manifest.txt")), "math-libs/stage\n");
        let name = |index: u32| (format!("math-libs/stage/lib/libx.so.1.1#{index}"), target.to_owned());
        assert_eq!(place.archive(&format!("out/x_lib_{target}/{}", archive(target))), [name(0), name(1)].into());
    }
    let size = |path: &str| place.at(path).metadata().unwrap().len();
    assert!(size("out/x_lib_generic/math-libs/stage/lib/libx.so.1.1") < size(&format!("{STAGE}/lib/libx.so.1.1")));
    place.succeeds(&["verify", "out", "--against", "x_lib_gfx110X"]);
}

#[test]
fn databases_leave_the_generic_part() {
    let place = fat();
    let library = format!("{STAGE}/lib/rocblas/library");
    place
        .file(&format!("{library}/TensileLibrary_gfx1100.co"), "1")
        .file(&format!("{library}/fallback.dat"), b"\x91\xa12");
    // The file is both a database and a fat binary. Its database handler is asked first.
    place.fixture(&format!("{STAGE}/lib/libMIOpenCKGroupedConv_gfx942-xnack+.so"), "mixed.so");
    place.fixture(&format!("{STAGE}/bin/MIOpenCKGroupedConv_gfx950.dll"), "win.dll");
    place.file(&format!("{STAGE}/lib/libdevice_conv_operations_gfx942.a"), "3");
    place.succeeds(&["split", "x_lib_gfx110X", "-o", "out"]);
    let part = |target: &str| {
        let files = place.files(&format!("out/x_lib_{target}"));
        files.iter().filter_map(|path| Some(path.strip_prefix("math-libs/stage/")?.to_owned())).collect::<Vec<_>>()
    };
    assert_eq!(part("gfx1100"), ["lib/rocblas/library/TensileLibrary_gfx1100.co"]);
    assert_eq!(
        part("gfx942"),
        ["lib/libMIOpenCKGroupedConv_gfx942-xnack+.so", "lib/libdevice_conv_operations_gfx942.a"]
    );
    assert_eq!(part("gfx950"), ["bin/MIOpenCKGroupedConv_gfx950.dll"]);
    assert_eq!(part("generic"), ["lib/libx.so.1.1", "lib/rocblas/library/fallback.dat"]);
    place.succeeds(&["verify", "out", "--against", "x_lib_gfx110X"]);

    place.succeeds(&["split", "x_lib_gfx110X", "-o", "none", "--split-databases", "miopen"]);
    assert!(
        place.files("none/x_lib_generic").contains("math-libs/stage/lib/rocblas/library/TensileLibrary_gfx1100.co")
    );
}

#[test]
fn one_archive_for_all_prefixes_stands_in_the_first() {
    let place = Place::new();
    place.manifest("x_lib_g", &["c/stage", "a/stage", "missing/stage", "b/stage"]);
    place.file("x_lib_g/a/stage/notes", "a").fixture("x_lib_g/b/stage/lib/libb.so", "mixed.so");
    place.fixture("x_lib_g/c/stage/lib64/sub/libc.so", "plain.so");
    place.file("x_lib_g/c/stage/lib/rocblas/library/gfx1100/only", "database");
    place.succeeds(&["split", "x_lib_g", "-o", "out"]);
    // gfx1100 and gfx90a:xnack+ are in b, gfx1030 in c as well as in b.
    let prefixes = |family: &str| place.text(&format!("out/x_lib_{family}/artifact_manifest.txt"));
    assert_eq!(prefixes("generic"), "c/stage\na/stage\nb/stage\n");
    assert_eq!(prefixes("gfx1100"), "b/stage\nc/stage\n");
    let archives: Vec<_> = place.files("out").into_iter().filter(|path| path.contains(".kpack/")).collect();
    assert!(archives.iter().all(|path| path.contains("/b/stage/.kpack/x_lib_")), "{archives:?}");
    let names = place.archive("out/x_lib_gfx1030/b/stage/.kpack/x_lib_gfx1030.kpack");
    assert!(names.contains(&("c/stage/lib64/sub/libc.so#1".to_owned(), "gfx1030".to_owned())), "{names:?}");
    // After installation, all code is found.
    place.succeeds(&["verify", "out", "--against", "x_lib_g"]);
    for part in ["generic", "gfx1100", "gfx1030", "gfx90a"] {
        for prefix in prefixes(part).lines() {
            let from = place.at(&format!("out/x_lib_{part}/{prefix}/."));
            fs::create_dir_all(place.at("installed")).unwrap();
            let copied = std::process::Command::new("cp").arg("-a").arg(from).arg(place.at("installed")).status();
            assert!(copied.unwrap().success());
        }
    }
    assert!(place.names("installed/.kpack").len() > 2);
    place.succeeds(&["verify", "installed"]);
}

#[test]
fn options_of_rocm_kpack_are_taken() {
    let place = fat();
    // The output directory is shared with other components, and the options have their old names.
    place.file("shared/base_lib_generic/notes", "there");
    let early = ["-q", "split", "--input-dir", "x_lib_gfx110X", "--component-name", "y_lib", "--output-dir", "shared"];
    assert_eq!(place.succeeds(&early), "");
    let today = ["split", "--artifact-dir", "x_lib_gfx110X", "--artifact-prefix", "z_lib", "--output-dir", "shared"];
    let ignored = [
        "--clang-offload-bundler",
        "none",
        "--tmp-dir",
        "none",
        "--verbose",
        "--input-dir",
        "none",
        "--component-name",
        "n",
    ];
    let said = place.succeeds(&[&today[..], &ignored, &["--gpu-targets", "gfx90a", "gfx1100"]].concat());
    for option in ignored.iter().filter(|word| word.starts_with("--")) {
        assert!(said.contains(&format!("note: {option} has no effect")), "{option}: {said}");
    }
    let names =
        set(["base_lib_generic", "y_lib_generic", "y_lib_gfx1030", "y_lib_gfx90a", "z_lib_generic", "z_lib_gfx90a"]);
    assert_eq!(place.names("shared"), names);
    // What the component has written is replaced, and nothing else.
    fs::create_dir(place.at("shared/z_lib_gfx1030")).unwrap();
    let again = [&today[..], &["--gpu-targets", "gfx90a,", "gfx1030"]].concat();
    let said = place.fails(1, &again);
    assert!(said.contains("shared/z_lib_gfx1030: there already") && said.contains("--force"), "{said}");
    assert!(!said.contains("z_lib_generic") && !said.contains("y_lib"), "{said}");
    fs::remove_dir(place.at("shared/z_lib_gfx1030")).unwrap();
    place.file("shared/z_lib_gfx90a/stale", "");
    place.succeeds(&again);
    assert!(!place.at("shared/z_lib_gfx90a/stale").exists() && place.at("shared/z_lib_gfx1030").exists());
    assert_eq!(place.text("shared/base_lib_generic/notes"), "there");
    place.succeeds(&["split", "x_lib_gfx110X", "-o", "alone"]);
    assert!(place.succeeds(&["verify", "--artifacts-dir", "alone", "--verbose"]).contains("--verbose has no effect"));
}

#[test]
fn links_and_modes_are_kept() {
    let place = fat();
    place.link(&format!("{STAGE}/lib/libx.so"), "libx.so.1").link(&format!("{STAGE}/lib/libx.so.1"), "libx.so.1.1");
    place.file(&format!("{STAGE}/bin/tool"), "#!/bin/sh\n");
    fs::set_permissions(place.at(&format!("{STAGE}/bin/tool")), fs::Permissions::from_mode(0o755)).unwrap();
    fs::hard_link(place.at(&format!("{STAGE}/bin/tool")), place.at(&format!("{STAGE}/bin/twin"))).unwrap();
    fs::hard_link(place.at(&format!("{STAGE}/lib/libx.so.1.1")), place.at(&format!("{STAGE}/lib/liby.so"))).unwrap();
    fs::create_dir(place.at(&format!("{STAGE}/empty"))).unwrap();
    place.succeeds(&["split", "x_lib_gfx110X", "-o", "out"]);
    let at = |path: &str| place.at(&format!("out/x_lib_generic/math-libs/stage/{path}"));
    assert_eq!(at("lib/libx.so").read_link().unwrap().to_str(), Some("libx.so.1"));
    assert_eq!(at("lib/libx.so.1").read_link().unwrap().to_str(), Some("libx.so.1.1"));
    assert_eq!(at("bin/tool").metadata().unwrap().mode() & 0o7777, 0o755);
    for (first, second) in [("bin/tool", "bin/twin"), ("lib/libx.so.1.1", "lib/liby.so")] {
        assert_eq!(at(first).metadata().unwrap().ino(), at(second).metadata().unwrap().ino());
    }
    assert!(at("empty").is_dir());
    place.succeeds(&["verify", "out", "--against", "x_lib_gfx110X"]);
}

#[test]
fn what_lies_below_no_prefix_is_left_out() {
    let place = fat();
    place.file("x_lib_gfx110X/stray/notes", "text").fixture("x_lib_gfx110X/math-libs/libstray.so", "plain.so");
    let said = place.succeeds(&["split", "x_lib_gfx110X", "-o", "out"]);
    assert!(said.contains("x_lib_gfx110X: files left out: 2, such as math-libs/libstray.so"), "{said}");
    assert!(!place.files("out").iter().any(|path| path.contains("stray")));
}

#[test]
fn what_is_no_artifact_is_refused() {
    let place = Place::new();
    place.file("plain/notes", "text").manifest("x_lib_g", &["../y"]).manifest("name", &["stage"]);
    for (arguments, message) in [
        (["split", "--artifact-dir", "plain", "-o", "out"], "plain: artifact_manifest.txt not found"),
        (
            ["split", "x_lib_g", "--artifact-prefix=y", "-o", "out"],
            "artifact_manifest.txt: line 1: the name has a component",
        ),
        (["split", "name", "--databases=", "-o", "out"], "name: an artifact is called <component>_<family>"),
        (["split", "x_lib_g", "--overlay-root=a", "-o", "out"], "--overlay-root: the manifest"),
    ] {
        let said = place.fails(1, &arguments);
        assert!(said.contains(message), "{said}");
        assert!(!place.at("out").exists());
    }
    let said = place.fails(5, &["split", "--artifact-dir", "missing", "-o", "out"]);
    assert!(said.contains("missing: No such file"), "{said}");
    let said = place.fails(1, &["split", "name", "--artifact-prefix", "y_lib", "-o", "out"]);
    assert!(
        said.contains("name/artifact_manifest.txt: the artifact has none of the directories that it names: "),
        "{said}"
    );
    place.file("name/stage/notes", "");
    place.succeeds(&["split", "name", "--artifact-prefix", "y_lib", "-o", "out"]);
    assert_eq!(place.names("out"), set(["y_lib_generic"]));
}

#[test]
fn a_binary_that_cannot_be_split_is_not_published() {
    let place = fat();
    place.fixture(&format!("{STAGE}/lib/libodd.so"), "extra-pointer.so");
    let said = place.fails(1, &["split", "x_lib_gfx110X", "-o", "out"]);
    assert!(said.contains("x_lib_gfx110X: it cannot be split") && said.contains("lib/libodd.so: not split:"), "{said}");
    assert!(!place.at("out").exists());
}

#[test]
fn a_mount_shows_what_split_writes() {
    if !can_mount() {
        return;
    }
    let place = fat();
    place.file(&format!("{STAGE}/lib/rocblas/library/TensileLibrary_gfx90a.dat"), "1");
    place.succeeds(&["split", "x_lib_gfx110X", "-o", "out"]);
    fs::create_dir(place.at("mount")).unwrap();
    place.succeeds(&["mount", "x_lib_gfx110X", "mount"]);
    let mount = place.at("mount");
    let _mounted = Mounted(&mount);
    assert_eq!(place.names("mount"), place.names("out"));
    assert_eq!(place.files("mount"), place.files("out"));
    for file in place.files("out") {
        assert!(fs::read(mount.join(&file)).unwrap() == fs::read(place.at("out").join(&file)).unwrap(), "{file}");
    }
    assert!(fs::read_to_string(mount.join(".kpackfs/report.json")).unwrap().contains("\"x_lib\""));
}

/// A build repeats the split of a component into the same directory when an artifact has changed.
#[test]
fn a_second_split_after_a_change_is_that_of_the_changed_input() {
    let place = Place::new();
    for component in ["x_lib", "y_lib"] {
        let artifact = format!("{component}_gfx110X");
        place.manifest(&artifact, &["stage"]).fixture(&format!("{artifact}/stage/lib/x.so"), "plain.so");
    }
    let call = |component: &str, output: &str| {
        let artifact = format!("{component}_gfx110X");
        let words = ["split", "--artifact-dir", &artifact, "--artifact-prefix", component, "--output-dir", output];
        place.succeeds(&words);
    };
    let both = |output: &str| ["x_lib", "y_lib"].iter().for_each(|component| call(component, output));
    both("twice");
    // The directory contains artifacts and nothing else, so that other tools take nothing else for one.
    let everything = || fs::read_dir(place.at("twice")).unwrap().map(|entry| entry.unwrap().path());
    assert!(everything().all(|part| part.join("artifact_manifest.txt").is_file()));
    place.fixture("x_lib_gfx110X/stage/lib/x.so", "mixed.so");
    both("twice");
    both("once");
    let diff = Command::new("diff").args(["--recursive", "twice", "once"]).current_dir(place.at("")).output().unwrap();
    assert!(diff.status.success(), "{}", String::from_utf8_lossy(&diff.stdout));
    assert!(everything().all(|part| part.join("artifact_manifest.txt").is_file()));
}

/// kpackfs 0.2.0 wrote the statement of a component next to its parts.
#[test]
fn a_split_by_an_earlier_version_is_replaced() {
    let place = Place::new();
    place.manifest("x_lib_g", &["stage"]).fixture("x_lib_g/stage/lib/x.so", "plain.so");
    place.succeeds(&["split", "x_lib_g", "-o", "out"]);
    fs::create_dir(place.at("out/.kpackfs")).unwrap();
    fs::rename(place.at("out/x_lib_generic/.kpackfs/split.json"), place.at("out/.kpackfs/split-x_lib.json")).unwrap();
    for part in ["generic", "gfx1030", "gfx90a"] {
        fs::remove_dir_all(place.at(&format!("out/x_lib_{part}/.kpackfs"))).unwrap();
    }
    place.succeeds(&["verify", "out", "--against", "x_lib_g"]);
    place.succeeds(&["split", "x_lib_g", "-o", "out", "--gpu-targets", "gfx90a"]);
    assert!(!place.at("out/.kpackfs").exists() && !place.at("out/x_lib_gfx1030").exists());
    place.succeeds(&["verify", "out", "--against", "x_lib_g"]);
}
