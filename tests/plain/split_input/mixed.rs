//! Trees and wheels in which fat and split files are mixed, or whose parts do not belong together.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{FIXTURES, differences, overlay};
use crate::common::{copy_all, put_in as put, ran as kpackfs};

/// Every library of a split tree was replaced by its fat original: the archives are old, and their code is stored once.
#[test]
fn archives_of_libraries_that_were_all_replaced_are_left_out_and_named() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    put(place, "fat/lib/plain.so", &fs::read(Path::new(FIXTURES).join("plain.so")).unwrap());
    for group in ["rocm", "other"] {
        let split = format!("split-{group}");
        assert_eq!(kpackfs(place, &["split", "fat", "-o", &split, "--group", group]).0, Some(0));
        let mixed = format!("mixed-{group}");
        fs::create_dir(place.join(&mixed)).unwrap();
        for part in ["host", "gfx90a", "gfx1030"] {
            overlay(&place.join(&split).join(part), &place.join(&mixed));
        }
        fs::copy(place.join("fat/lib/plain.so"), place.join(&mixed).join("lib/plain.so")).unwrap();
        let out = format!("out-{group}");
        let (status, said) = kpackfs(place, &["split", &mixed, "-o", &out]);
        assert_eq!(status, Some(0), "{said}");
        for target in ["gfx90a", "gfx1030"] {
            let reason = "not used, since lib/plain.so contains its own code";
            assert!(said.contains(&format!(".kpack/{group}_{target}.kpack: {reason}")), "{said}");
        }
        assert_eq!(differences(&place.join("split-rocm"), &place.join(&out)), Vec::<String>::new());
    }
}

/// A wheel for `unzip` and pip, from the files of a directory.
fn zip(place: &Path, directory: &str, name: &str) {
    let script = "import shutil, sys; shutil.make_archive(sys.argv[1], 'zip', sys.argv[2])";
    let status = Command::new("python3").args(["-c", script, name, directory]).current_dir(place).status().unwrap();
    assert!(status.success());
    fs::rename(place.join(format!("{name}.zip")), place.join(format!("{name}.whl"))).unwrap();
}

#[test]
fn wheels_that_lack_others_or_do_not_need_them_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    let info = "torch-1.0.dist-info";
    put(place, "fat/torch/lib/plain.so", &fs::read(Path::new(FIXTURES).join("plain.so")).unwrap());
    put(place, &format!("fat/{info}/METADATA"), b"Metadata-Version: 2.1\nName: torch\nVersion: 1.0\n\n");
    let tags = b"Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: false\nTag: py3-none-any\n";
    put(place, &format!("fat/{info}/WHEEL"), tags);
    put(place, &format!("fat/{info}/RECORD"), b"");
    zip(place, "fat", "torch-1.0-py3-none-any");
    let fat = "torch-1.0-py3-none-any.whl";
    assert_eq!(kpackfs(place, &["split", fat, "-o", "wheels", "--format", "wheel"]).0, Some(0));

    // The host wheel alone.
    let host = format!("wheels/{fat}");
    for command in [&["inspect", &host][..], &["split", &host, "-o", "alone"]] {
        let (_, said) = kpackfs(place, command);
        let reason =
            "its device wheels were not given, which have its device code; name them, too: amd-torch-device-gfx1030";
        assert!(said.contains(reason) && !said.contains("require  by name"), "{said}");
    }

    // The fat wheel with a device wheel of its own.
    let mut device = fs::read_dir(place.join("wheels")).unwrap().map(|entry| entry.unwrap().path());
    let device = device.find(|path| path.to_str().unwrap().contains("device_gfx90a")).unwrap();
    let (status, said) = kpackfs(place, &["split", fat, device.to_str().unwrap(), "-o", "both"]);
    assert_eq!(status, Some(0), "{said}");
    let archive = "torch/.kpack/torch_gfx90a.kpack";
    assert!(said.contains(&format!("{archive}: not used, since torch/lib/plain.so contains its own code")), "{said}");

    // An installation with another version of a device wheel.
    let site = place.join("site");
    fs::create_dir(&site).unwrap();
    for wheel in fs::read_dir(place.join("wheels")).unwrap().map(|entry| entry.unwrap().path()) {
        let script = "import sys, zipfile; zipfile.ZipFile(sys.argv[1]).extractall(sys.argv[2])";
        assert!(Command::new("python3").args(["-c", script]).arg(&wheel).arg(&site).status().unwrap().success());
    }
    let (_, said) = kpackfs(place, &["inspect", "site"]);
    assert!(!said.contains("may not belong together"), "{said}");
    let metadata = site.join("amd_torch_device_gfx90a-1.0.dist-info/METADATA");
    let text = fs::read_to_string(&metadata).unwrap();
    fs::write(&metadata, text.replace("\nVersion: 1.0", "\nVersion: 0.9")).unwrap();
    fs::create_dir_all(place.join("env/lib")).unwrap();
    copy_all(&site, place.join("env/lib"));
    for command in [&["inspect", "site"][..], &["split", "site", "-o", "of-site"], &["inspect", "env"]] {
        let (_, said) = kpackfs(place, command);
        assert!(said.contains("amd-torch-device-gfx90a is version 0.9, and torch 1.0 requires 1.0"), "{said}");
    }
}
