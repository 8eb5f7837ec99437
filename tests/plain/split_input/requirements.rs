//! Wheels with `--requirements split`: each part requires what its own GPUs need, and the fat wheel comes back.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::slice;

use super::wheels::{Wheels, differing, members, run, text};

const METADATA: &str = "Requires-Dist: numpy\nrequires-dist: ROCm [ libraries,\n  Device_All ]==7.14.*; os_name != 'x'\nProvides-Extra: all\n\
    Requires-Dist: demo[device-gfx90a, device-gfx1030]\nRequires-Dist: rocm[device-all]; extra == \"all\"\n";

const DIST_INFO: &str = "fat_torch-2.10.0+rocm7.1.dist-info";

/// The requirements that a wheel's METADATA has, except those on parts of the split.
fn requirements(wheel: &Path) -> Vec<String> {
    let members = members(wheel);
    let (_, metadata) = members.iter().find(|(path, _)| path.ends_with(".dist-info/METADATA")).unwrap();
    let metadata = String::from_utf8(metadata.clone()).unwrap();
    let (header, _) = metadata.split_once("\n\n").unwrap();
    let values =
        header.lines().filter_map(|line| line.to_lowercase().strip_prefix("requires-dist: ").map(|_| &line[15..]));
    let is_other =
        |value: &&str| !["Fat_Torch==", "amd-fat-torch-", "rocm-bootstrap"].iter().any(|own| value.starts_with(own));
    values.filter(is_other).map(str::to_owned).collect()
}

fn part(wheels: &[PathBuf], name: &str) -> PathBuf {
    let is_part = |path: &&PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with(name);
    wheels.iter().find(is_part).unwrap().clone()
}

#[test]
fn each_part_requires_what_its_gpus_need() {
    let wheels = Wheels::with(METADATA, &["--requirements", "rocm=device-gfx90a"]);
    let split = wheels.in_directory("split");
    let of = |name: &str| requirements(&part(&split, name));
    assert_eq!(
        of("fat_torch-"),
        ["numpy", "ROCm[libraries]==7.14.*; os_name != 'x'", "demo", "rocm[device-all]; extra == \"all\""]
    );
    assert_eq!(
        of("amd_fat_torch_device_gfx90a"),
        ["ROCm[device-gfx90a]==7.14.*; os_name != 'x'", "demo[device-gfx90a]"]
    );
    assert_eq!(of("amd_fat_torch_device_gfx1030"), ["demo[device-gfx1030]"]);
    // rocm has no extra for two GPUs, and demo none for gfx1100, which the split has warned of.
    let mut verify = Command::new(env!("CARGO_BIN_EXE_kpackfs"));
    let output = verify.args(["verify", "--against", &text(&wheels.fat)]).args(&split).output().unwrap();
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert_eq!((output.status.code(), said.matches("[requirement-missing]").count()), (Some(1), 3), "{said}");
    assert!(said.contains("3 findings"), "{said}");

    // Host wheels of a split are the same in all forms of the output.
    wheels.again(
        slice::from_ref(&wheels.fat),
        "directories",
        &["--requirements", "split", "--requirements-extras", "rocm=device-gfx90a"],
    );
    let host = super::files(&wheels.at("directories/host"));
    assert_eq!(differing(&host, &members(&part(&split, "fat_torch-"))), Vec::<String>::new());
}

#[test]
fn the_fat_wheel_and_its_split_come_back() {
    let (wheels, kept) = (Wheels::with(METADATA, &["--requirements", "split"]), Wheels::with(METADATA, &[]));
    let split = wheels.in_directory("split");
    wheels.again(&split, "fat", &["--format", "wheel", "--view", "fat"]);
    let [fat] = wheels.in_directory("fat").try_into().unwrap();
    let (was, is) = (members_of(&wheels.fat, "Fat_Torch-2.10.0+rocm7.1.dist-info/METADATA"), members(&fat));
    assert_eq!(String::from_utf8_lossy(&is[&format!("{DIST_INFO}/METADATA")]), String::from_utf8_lossy(&was));
    assert!(!is.contains_key(&format!("{DIST_INFO}/kpackfs.json")));

    for (options, expected) in [(&["--requirements", "split"][..], &split), (&[], &kept.in_directory("split"))] {
        let options: Vec<_> = ["--format", "wheel"].iter().chain(options).copied().collect();
        let name = options.join("");
        wheels.again(&split, &name, &options);
        for (one, other) in wheels.in_directory(&name).iter().zip(expected) {
            assert_eq!(differing(&members(one), &members(other)), Vec::<String>::new(), "{}", one.display());
        }
    }
}

#[test]
fn thin_wheels_require_the_extras_of_their_gpus() {
    let wheels = Wheels::with(METADATA, &["--requirements", "split"]);
    for input in [slice::from_ref(&wheels.fat), &wheels.in_directory("split")] {
        for (gpus, rocm, demo) in [
            ("gfx90a", "device-gfx90a", "device-gfx90a"),
            ("gfx1030+gfx90a", "device-gfx1030,device-gfx90a", "device-gfx1030,device-gfx90a"),
        ] {
            let output = format!("thin{}", input.len());
            let options =
                ["--requirements", "split", "--format", "thin-wheel", "--view", gpus, "--local-version", "--force"];
            wheels.again(input, &output, &options);
            let [thin] = wheels.in_directory(&format!("{output}/{gpus}")).try_into().unwrap();
            assert_eq!(
                requirements(&thin),
                [
                    "numpy".to_owned(),
                    format!("ROCm[libraries,{rocm}]==7.14.*; os_name != 'x'"),
                    format!("demo[{demo}]"),
                    format!("rocm[{rocm}]; extra == \"all\""),
                ]
            );
            run(&["verify"], &[thin]);
        }
    }
    // The tree of a thin view is what an installer makes of the thin wheel.
    wheels.again(slice::from_ref(&wheels.fat), "tree", &["--requirements", "split", "--view", "thin/gfx90a"]);
    wheels.again(
        slice::from_ref(&wheels.fat),
        "one",
        &["--requirements", "split", "--format", "thin-wheel", "--view", "gfx90a"],
    );
    let [thin] = wheels.in_directory("one/gfx90a").try_into().unwrap();
    // Programs are installed into a directory of `data`, which changes the order of RECORD.
    let moved = |path: &str| path.replace(".data/scripts/", ".data/data/bin/");
    let installed = |(path, bytes): (String, Vec<u8>)| {
        if !path.ends_with("/RECORD") {
            return (moved(&path), bytes);
        }
        let mut lines: Vec<_> = std::str::from_utf8(&bytes).unwrap().lines().map(moved).collect();
        lines.sort();
        (path, lines.join("\n").into_bytes())
    };
    let [tree, wheel] = [super::files(&wheels.at("tree/thin/gfx90a")), members(&thin)]
        .map(|files| files.into_iter().map(installed).collect());
    assert_eq!(differing(&tree, &wheel), Vec::<String>::new());
}

#[test]
fn what_is_unchecked_missing_or_kept_is_said() {
    let wheels = Wheels::with(METADATA, &[]);
    let said = |options: &[&str]| {
        let options: Vec<_> = ["--format", "wheel", "--force"].iter().chain(options).copied().collect();
        wheels.again(slice::from_ref(&wheels.fat), "said", &options)
    };
    let kept = said(&[]);
    assert!(kept.contains("note: METADATA: ROCm [ libraries, Device_All ]==7.14.*; os_name != 'x': every"), "{kept}");
    assert!(kept.contains("--requirements split") && !kept.contains("warning: METADATA: ROCm"), "{kept}");
    let unchecked = said(&["--requirements", "split"]);
    assert!(unchecked.contains("requires ROCm[libraries]==7.14.*; os_name != 'x', other"), "{unchecked}");
    assert!(unchecked.contains("not known: device-gfx1030, device-gfx1100, device-gfx90a ("), "{unchecked}");
    assert!(unchecked.contains("warning: METADATA: rocm[device-all]; extra == \"all\": kept"), "{unchecked}");
    let missing = said(&["--requirements", "rocm=device-gfx90a"]);
    assert!(!missing.contains("unchecked") && missing.contains("there is no extra of ROCm for gfx1030"), "{missing}");
}

#[test]
fn a_host_wheel_that_was_changed_keeps_its_requirements() {
    let wheels = Wheels::with(METADATA, &["--requirements", "split"]);
    let split = wheels.in_directory("split");
    let host = part(&split, "fat_torch-");
    let changed = wheels.at("changed");
    std::fs::create_dir(&changed).unwrap();
    for wheel in &split {
        let place = changed.join(wheel.file_name().unwrap());
        let mut zip = zip::ZipWriter::new(std::fs::File::create(&place).unwrap());
        for (name, bytes) in members(wheel) {
            let is_metadata = *wheel == host && name.ends_with("/METADATA");
            let text = if is_metadata {
                String::from_utf8(bytes).unwrap().replace("7.14", "7.15").into_bytes()
            } else {
                bytes
            };
            zip.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
            std::io::Write::write_all(&mut zip, &text).unwrap();
        }
        zip.finish().unwrap();
    }
    let said = wheels.again(&[changed], "fat", &["--format", "wheel", "--view", "fat"]);
    assert!(said.contains("kpackfs.json says; those of the fat wheel are not restored"), "{said}");
    let [fat] = wheels.in_directory("fat").try_into().unwrap();
    assert!(requirements(&fat).contains(&"ROCm[libraries]==7.15.*; os_name != 'x'".to_owned()));
}

/// One member of a wheel.
fn members_of(wheel: &Path, name: &str) -> Vec<u8> {
    let mut zip = zip::ZipArchive::new(std::fs::File::open(wheel).unwrap()).unwrap();
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut zip.by_name(name).unwrap(), &mut bytes).unwrap();
    bytes
}
