//! Tests of packages from several shards.

use std::fs;

use kpackfs::artifact::Kpm;

use crate::artifacts::place::{Mounted, Place, set};
use crate::common::{can_mount, wait_until};

const CONFIG: &str = r#"{
    "primary_shard": "a",
    "architecture_groups": {
        "gfx9": {"display_name": "Instinct", "architectures": ["gfx90a", "gfx942"]},
        "gfx110X": {"architectures": ["gfx1100", "gfx1101"]}
    },
    "component_overrides": {"y": {"architecture_groups": {"gfxall": {"architectures": ["gfx90a", "gfx1100"]}}}}
    VALIDATION
}"#;

fn configured(place: &Place, validation: &str) {
    let validation = if validation.is_empty() { String::new() } else { format!(", \"validation\": {{{validation}}}") };
    place.file("config.json", CONFIG.replace("VALIDATION", &validation));
}

/// Two shards of split artifacts, as another splitter may have written them.
pub(crate) fn split_shards() -> Place {
    let place = Place::new();
    configured(&place, "");
    for shard in ["a", "b"] {
        let generic = format!("shards/{shard}/x_lib_generic");
        place.manifest(&generic, &["stage"]).file(&format!("{generic}/stage/lib/libx.so"), "host");
        place.file(&format!("{generic}/stage/.kpack/x_lib.kpm"), Kpm::new("x_lib", "stage").to_bytes());
    }
    for (shard, target) in [("a", "gfx1100"), ("a", "gfx90a"), ("b", "gfx1101"), ("b", "gfx1030")] {
        let part = format!("shards/{shard}/x_lib_{target}");
        place.manifest(&part, &["stage"]).file(&format!("{part}/stage/.kpack/x_lib_{target}.kpack"), target);
    }
    place.manifest("shards/a/base_lib_generic", &["base"]).file("shards/a/base_lib_generic/base/notes", "text");
    place
}

fn recombine(place: &Place, more: &[&str]) -> String {
    place.succeeds(&[&["recombine", "config.json", "shards", "-o", "out"], more].concat())
}

/// Variants are families of their own, in either spelling. 0.2.0 left them out.
#[test]
fn variants_and_portable_code_are_in_groups() {
    let place = split_shards();
    for (family, target) in
        [("gfx90a-xnack+", "gfx90a:xnack+"), ("gfx90a:xnack-", "gfx90a:xnack-"), ("amdgcnspirv", "amdgcnspirv")]
    {
        let part = format!("shards/b/x_lib_{family}");
        place.manifest(&part, &["stage"]).file(&format!("{part}/stage/.kpack/x_lib_{target}.kpack"), target);
    }
    let config = CONFIG.replace("VALIDATION", "").replace(
        "\"architecture_groups\": {\n",
        "\"architecture_groups\": {\"amdgcnspirv\": {\"architectures\": [\"amdgcnspirv\"]},\n",
    );
    place.file("config.json", config);
    let said = recombine(&place, &[]);
    let archives = |group: &str| place.names(&format!("out/x_lib_{group}/stage/.kpack"));
    let of_mi200 = set(["x_lib_gfx90a.kpack", "x_lib_gfx90a:xnack+.kpack", "x_lib_gfx90a:xnack-.kpack"]);
    assert_eq!(archives("gfx9"), of_mi200, "{said}");
    assert!(said.contains("config.json: component_overrides.y: no component of shards has this name"), "{said}");
    assert!(!recombine(&place, &["--component", "x_lib", "--force"]).contains("component_overrides"));
    assert_eq!(archives("amdgcnspirv"), set(["x_lib_amdgcnspirv.kpack"]), "{said}");
    assert_eq!(archives("gfx110X"), set(["x_lib_gfx1100.kpack", "x_lib_gfx1101.kpack"]), "{said}");
}

/// 0.2.0 split code for gfx1250 into two parts, with and without XNACK. They are parts for one processor.
#[test]
fn a_processor_under_two_names_goes_into_one_package() {
    let place = split_shards();
    for family in ["gfx1250", "gfx1250:xnack+"] {
        let part = format!("shards/a/x_lib_{family}");
        place.manifest(&part, &["stage"]).file(&format!("{part}/stage/.kpack/x_lib_{family}.kpack"), family);
    }
    place.file("config.json", CONFIG.replace("VALIDATION", "").replace("\"gfx1101\"", "\"gfx1250\""));
    let said = recombine(&place, &[]);
    let archives = place.names("out/x_lib_gfx110X/stage/.kpack");
    assert_eq!(archives, set(["x_lib_gfx1100.kpack", "x_lib_gfx1250.kpack", "x_lib_gfx1250:xnack+.kpack"]), "{said}");
}

#[test]
fn host_code_once_and_device_code_by_groups() {
    let place = split_shards();
    let said = recombine(&place, &[]);
    assert_eq!(place.names("out"), set(["base_lib_generic", "x_lib_generic", "x_lib_gfx110X", "x_lib_gfx9"]));
    // The generic part lacks the directory of archives.
    assert_eq!(place.files("out/x_lib_generic"), set(["artifact_manifest.txt", "stage/lib/libx.so"]));
    assert_eq!(place.names("out/x_lib_gfx110X/stage/.kpack"), set(["x_lib_gfx1100.kpack", "x_lib_gfx1101.kpack"]));
    assert_eq!(place.names("out/x_lib_gfx9/stage/.kpack"), set(["x_lib_gfx90a.kpack"]));
    assert_eq!(place.text("out/x_lib_gfx110X/artifact_manifest.txt"), "stage\n");
    // A group may lack a processor, and a processor a group.
    assert!(said.contains("group gfx9 of config.json wants x_lib_gfx942, which no shard there has"), "{said}");
    assert!(said.contains("shards/b/x_lib_gfx1030: left out: no group has it"), "{said}");
    // Other components may have it.
    let of_one = recombine(&place, &["--component", "x_lib", "--force"]);
    assert!(!of_one.contains("which no shard there has"), "{of_one}");
}

#[test]
fn device_parts_hold_archives_and_databases_only() {
    let place = split_shards();
    let part = "shards/a/x_lib_gfx1100";
    for path in ["lib/rocblas/library/gfx1100/TensileManifest.txt", "lib/rocblas/library/TensileLibrary_gfx1100.dat"] {
        place.file(&format!("{part}/stage/{path}"), "");
    }
    place
        .file(&format!("{part}/stage/lib/aotriton.images/amd-gfx11xx/flash/FONLY__^fp16@16,80___MI300X.aks2"), "image");
    place.file(&format!("{part}/stage/lib/kernels/gfx1100/manifest.json"), "{}");
    place.file(&format!("{part}/stage/share/miopen/db/gfx110036.db.txt"), "");
    place.file(&format!("{part}/stage/lib/libhost.so"), "host");
    let said = recombine(&place, &[]);
    let expected = [
        "artifact_manifest.txt",
        "stage/.kpack/x_lib_gfx1100.kpack",
        "stage/.kpack/x_lib_gfx1101.kpack",
        "stage/lib/aotriton.images/amd-gfx11xx/flash/FONLY__^fp16@16,80___MI300X.aks2",
        "stage/lib/kernels/gfx1100/manifest.json",
        "stage/lib/rocblas/library/TensileLibrary_gfx1100.dat",
        "stage/lib/rocblas/library/gfx1100/TensileManifest.txt",
        "stage/share/miopen/db/gfx110036.db.txt",
    ];
    assert_eq!(place.files("out/x_lib_gfx110X"), set(expected));
    assert!(said.contains("x_lib_gfx1100: stage/lib/libhost.so: left out"), "{said}");
}

#[test]
fn fat_shards_are_split_on_the_way() {
    let place = Place::new();
    configured(&place, "");
    for (shard, fixture) in [("a", "plain.so"), ("b", "generic.so")] {
        for component in ["x", "y"] {
            let artifact = format!("shards/{shard}/{component}_lib_{shard}");
            place.manifest(&artifact, &["stage"]).fixture(&format!("{artifact}/stage/lib/x.so"), fixture);
        }
        place.succeeds(&["split", &format!("shards/{shard}"), "-o", &format!("split/{shard}")]);
    }
    recombine(&place, &[]);
    let expected = ["x_lib_generic", "x_lib_gfx110X", "x_lib_gfx9", "y_lib_generic", "y_lib_gfxall"];
    assert_eq!(place.names("out"), set(expected));
    // Code for a family goes into each package that has one of the family's processors.
    let archives = set(["x_lib_gfx11-generic.kpack", "x_lib_gfx1100.kpack"]);
    assert_eq!(place.names("out/x_lib_gfx110X/stage/.kpack"), archives);
    place.succeeds(&["recombine", "config.json", "split", "--output-dir", "again"]);
    for file in place.files("out") {
        assert!(
            fs::read(place.at("out").join(&file)).unwrap() == fs::read(place.at("again").join(&file)).unwrap(),
            "{file}"
        );
    }
    assert_eq!(place.files("out"), place.files("again"));
    place.succeeds(&["recombine", "config.json", "shards", "--component", "y_lib", "-o", "y"]);
    assert_eq!(place.names("y"), set(["y_lib_generic", "y_lib_gfxall"]));
}

#[test]
fn a_mount_shows_the_packages() {
    if !can_mount() {
        return;
    }
    let place = split_shards();
    recombine(&place, &[]);
    fs::create_dir(place.at("mount")).unwrap();
    place.succeeds(&["recombine", "config.json", "shards", "--mount", "mount"]);
    let mount = place.at("mount");
    let _mounted = Mounted(&mount);
    assert_eq!(place.files("mount"), place.files("out"));
    assert_eq!(place.text("mount/x_lib_gfx9/stage/.kpack/x_lib_gfx90a.kpack"), "gfx90a");
    let status = || {
        let json = place.run(&["status", "--json", "mount"]).stdout;
        serde_json::from_slice::<serde_json::Value>(&json).unwrap()["changed"].clone()
    };
    assert!(status().is_null());
    place.file("shards/a/x_lib_gfx90a/stage/.kpack/x_lib_gfx90a.kpack", "other code");
    // Not before the last look at the input is over, which is good for some seconds if it took long.
    wait_until("it is seen", || status() == "stage/.kpack/x_lib_gfx90a.kpack");
}

#[test]
fn the_same_device_code_in_two_shards() {
    let place = split_shards();
    place
        .manifest("shards/b/x_lib_gfx90a", &["stage"])
        .file("shards/b/x_lib_gfx90a/stage/.kpack/x_lib_gfx90a.kpack", "b");
    let arguments = ["recombine", "config.json", "shards", "-o", "out"];
    let said = place.fails(1, &arguments);
    let both = "shards/a/x_lib_gfx90a: stage/.kpack/x_lib_gfx90a.kpack and shards/b/x_lib_gfx90a: stage/.kpack/x_lib_gfx90a.kpack";
    assert!(said.contains(both) && said.contains("both are device code for x_lib_gfx90a"), "{said}");
    assert!(!place.at("out").exists());
    place.succeeds(&["recombine", "config.json", "shards", "-o", "less", "--exclude-targets", "gfx90a"]);
    assert!(!place.at("less/x_lib_gfx9").exists());

    configured(&place, r#""error_on_duplicate_device_code": false"#);
    assert!(place.succeeds(&arguments).contains("both are device code for x_lib_gfx90a"));
    assert_eq!(place.text("out/x_lib_gfx9/stage/.kpack/x_lib_gfx90a.kpack"), "gfx90a");
}

#[test]
fn the_same_device_code_that_does_not_matter() {
    let place = split_shards();
    // The same bytes in two shards, and a processor that no group contains.
    for (target, text) in [("gfx90a", "gfx90a"), ("gfx1030", "a")] {
        for shard in ["a", "b"] {
            let part = format!("shards/{shard}/x_lib_{target}");
            let text = if target == "gfx1030" { shard } else { text };
            place.manifest(&part, &["stage"]).file(&format!("{part}/stage/.kpack/x_lib_{target}.kpack"), text);
        }
    }
    let said = recombine(&place, &[]);
    assert!(!said.contains("both are device code"), "{said}");
    assert_eq!(place.text("out/x_lib_gfx9/stage/.kpack/x_lib_gfx90a.kpack"), "gfx90a");
    // A warning does not advise what was done already.
    place.file("shards/b/x_lib_gfx90a/stage/.kpack/x_lib_gfx90a.kpack", "b");
    configured(&place, r#""error_on_duplicate_device_code": false"#);
    let said = place.succeeds(&["recombine", "config.json", "shards", "-o", "other"]);
    assert!(said.contains("both are device code for x_lib_gfx90a; the first is used"), "{said}");
    assert!(!said.contains("error_on_duplicate_device_code"), "{said}");
}

#[test]
fn host_code_that_only_another_shard_has() {
    let place = split_shards();
    place.file("shards/b/x_lib_generic/stage/lib/libmore.so", "host");
    let arguments = ["recombine", "config.json", "shards", "-o", "out"];
    let said = place.fails(1, &arguments);
    let lost = "shards/b/x_lib_generic: stage/lib/libmore.so is host code that no package would have: the primary shard \"a\" does not have it";
    assert!(said.contains(lost) && said.contains("set error_on_left_out_host_code to false"), "{said}");
    assert!(!place.at("out").exists());

    fs::remove_file(place.at("shards/b/x_lib_generic/stage/lib/libmore.so")).unwrap();
    place.manifest("shards/b/z_lib_generic", &["stage"]).file("shards/b/z_lib_generic/stage/lib/libz.so", "host");
    place.file("shards/b/z_lib_generic/stage/lib/libz.so.1", "host");
    let said = place.fails(1, &arguments);
    let lost = "z_lib_generic: 2 files such as stage/lib/libz.so are host code that no package would have: the primary shard \"a\" does not have this component";
    assert!(said.contains(lost), "{said}");

    configured(&place, r#""error_on_left_out_host_code": false"#);
    place
        .file("shards/b/x_lib_generic/stage/lib/libmore.so", "host")
        .link("shards/b/x_lib_generic/stage/lib/link.so", "x");
    let said = place.succeeds(&arguments);
    assert!(said.contains(lost) && !said.contains("set error_on_left_out_host_code"), "{said}");
    let said = place.fails(1, &["verify", "out", "--against", "shards"]);
    for lost in
        ["z_lib: no artifact of it is there", "lib/libmore.so: the file is lost", "lib/link.so: the symlink is lost"]
    {
        assert!(said.contains(lost), "{said}");
    }
    assert!(!place.fails(1, &["verify", "out", "--against", "shards", "--component", "x_lib"]).contains("z_lib"));
}

#[test]
fn a_shard_without_artifacts_is_mentioned() {
    let place = split_shards();
    place.file("shards/logs/build/log", "");
    let said = recombine(&place, &[]);
    assert!(
        said.contains("shards/logs: left out: it is no shard: no directory in it has an artifact_manifest.txt"),
        "{said}"
    );
}

#[test]
fn two_processors_with_one_file() {
    let place = split_shards();
    let path = "stage/lib/hipblaslt/library/gfx11/Mapping.dat";
    for (part, text) in [("a/x_lib_gfx1100", "1"), ("b/x_lib_gfx1101", "1")] {
        place.file(&format!("shards/{part}/{path}"), text);
    }
    recombine(&place, &[]);
    place.file(&format!("shards/b/x_lib_gfx1101/{path}"), "2");
    let said = place.fails(1, &["recombine", "config.json", "shards", "-o", "other"]);
    let both = format!("shards/a/x_lib_gfx1100: {path} and shards/b/x_lib_gfx1101: {path}: they differ");
    assert!(said.contains(&both), "{said}");
}

#[test]
fn host_code_and_device_code_with_one_place() {
    let place = split_shards();
    let (path, arguments) =
        ("stage/lib/hipblaslt/library/gfx11/Mapping.dat", ["recombine", "config.json", "shards", "-o"]);
    for part in ["a/x_lib_generic", "b/x_lib_gfx1101"] {
        place.file(&format!("shards/{part}/{path}"), "1");
    }
    place.succeeds(&[&arguments[..], &["same"]].concat());
    place.file(&format!("shards/a/x_lib_generic/{path}"), "2");
    let said = place.fails(1, &[&arguments[..], &["out"]].concat());
    assert!(said.contains(&format!("shards/a/x_lib_generic: {path} and x_lib_gfx110X: {path}: they differ")), "{said}");
    assert!(!place.at("out").exists());
}

#[test]
fn a_file_of_one_shard_and_a_directory_of_another() {
    let place = split_shards();
    let directory = "stage/lib/hipblaslt/library/gfx1100";
    place.file(&format!("shards/a/x_lib_gfx1100/{directory}"), "file");
    place.file(&format!("shards/b/x_lib_gfx1101/{directory}/x.dat"), "database");
    let said = place.fails(1, &["recombine", "config.json", "shards", "-o", "out"]);
    let both =
        format!("shards/a/x_lib_gfx1100: {directory} and shards/b/x_lib_gfx1101: {directory}: a file and a directory");
    assert!(said.contains(&both), "{said}");
    assert!(!place.at("out").exists());
}

#[test]
fn host_code_that_differs() {
    let place = split_shards();
    configured(&place, r#""verify_generic_artifacts_match": true"#);
    recombine(&place, &[]);
    let library = "stage/lib/libx.so";
    place.file(&format!("shards/b/x_lib_generic/{library}"), "HOST");
    let said = place.fails(1, &["recombine", "config.json", "shards", "-o", "other"]);
    let both = format!("shards/a/x_lib_generic: {library} and shards/b/x_lib_generic: {library}: they differ");
    assert!(said.contains(&both), "{said}");
    configured(&place, "");
    place.succeeds(&["recombine", "config.json", "shards", "-o", "other"]);
    assert_eq!(place.text(&format!("other/x_lib_generic/{library}")), "host");
}

#[test]
fn processors_that_no_shard_has() {
    let place = split_shards();
    configured(&place, r#""error_on_missing_architecture": true"#);
    let said = place.fails(1, &["recombine", "config.json", "shards", "-o", "out"]);
    assert!(said.contains("shards: group gfx9 of config.json wants x_lib_gfx942"), "{said}");
}

#[test]
fn a_primary_shard_without_host_code() {
    let place = split_shards();
    place.file("config.json", place.text("config.json").replace("\"a\"", "\"c\""));
    let said = place.fails(1, &["recombine", "config.json", "shards", "-o", "out"]);
    assert!(said.contains("in the primary shard \"c\"; SHARDS, which should have it, has a, b"), "{said}");
}

#[test]
fn an_artifact_that_cannot_be_used_is_not_missing_silently() {
    let place = split_shards();
    place.manifest("shards/b/z_lib_g", &["stage"]).fixture("shards/b/z_lib_g/stage/lib/z.so", "extra-pointer.so");
    let said = place.fails(1, &["recombine", "config.json", "shards", "-o", "out"]);
    assert!(said.contains("shards/b/z_lib_g: it cannot be split"), "{said}");
}

#[test]
fn manifests_for_old_runtimes() {
    let place = Place::new();
    configured(&place, "");
    for (shard, fixture) in [("a", "plain.so"), ("b", "generic.so")] {
        let artifact = format!("shards/{shard}/x_lib_{shard}");
        place.manifest(&artifact, &["stage"]).fixture(&format!("{artifact}/stage/lib/x.so"), fixture);
    }
    place.file("one.json", place.text("config.json").replace("\"a\"", "\"b\""));
    place.manifest("one/b/x_lib_b", &["stage"]).fixture("one/b/x_lib_b/stage/lib/x.so", "mixed.so");
    recombine(&place, &["--kpm"]);
    let kpm = |root: &str| {
        let bytes = fs::read(place.at(&format!("{root}/x_lib_gfx110X/stage/.kpack/x_lib.kpm"))).unwrap();
        Kpm::parse(&bytes).unwrap()
    };
    let made = kpm("out");
    assert_eq!((made.component_name.as_str(), made.prefix.as_str()), ("x_lib", "stage"));
    assert_eq!(made.kpack_files.keys().collect::<Vec<_>>(), ["gfx11-generic", "gfx1100"]);
    for entry in made.kpack_files.values() {
        let archive = place.at(&format!("out/x_lib_gfx110X/stage/.kpack/{}", entry.file));
        assert_eq!(entry.size, archive.metadata().unwrap().len());
        assert!(entry.kernel_count > 0);
    }

    place.succeeds(&["recombine", "one.json", "one", "-o", "single", "--kpm"]);
    place.succeeds(&["verify", "single", "--against", "one", "--exclude-targets", "gfx1030"]);

    // Manifests that shards have are merged.
    fs::rename(place.at("out"), place.at("packages")).unwrap();
    for (shard, part) in [("a", "x_lib_gfx1100"), ("b", "x_lib_gfx1101")] {
        let target = part.strip_prefix("x_lib_").unwrap();
        let mut kpm = Kpm::new("x_lib", "stage");
        kpm.kpack_files.insert(target.to_owned(), made.kpack_files["gfx1100"].clone());
        let part = format!("old/{shard}/{part}");
        place.manifest(&part, &["stage"]).file(&format!("{part}/stage/.kpack/x_lib.kpm"), kpm.to_bytes());
        place.file(&format!("{part}/stage/.kpack/x_lib_{target}.kpack"), target);
        place
            .manifest(&format!("old/{shard}/x_lib_generic"), &["stage"])
            .file(&format!("old/{shard}/x_lib_generic/stage/x"), "");
    }
    place.succeeds(&["recombine", "config.json", "old", "-o", "out"]);
    assert_eq!(kpm("out").kpack_files.keys().collect::<Vec<_>>(), ["gfx1100", "gfx1101"]);
    place.file("old/b/x_lib_gfx1101/stage/.kpack/x_lib.kpm", "damaged");
    let said = place.fails(1, &["recombine", "config.json", "old", "-o", "other"]);
    assert!(said.contains("old/b/x_lib_gfx1101: stage/.kpack/x_lib.kpm: MessagePack"), "{said}");
    let huge = fs::File::create(place.at("old/b/x_lib_gfx1101/stage/.kpack/x_lib.kpm")).unwrap();
    huge.set_len(1 << 40).unwrap();
    let said = place.fails(1, &["recombine", "config.json", "old", "-o", "other"]);
    assert!(said.contains("x_lib.kpm: the list of parts: it takes 1099511627776 bytes; the limit is 262144"), "{said}");
}
