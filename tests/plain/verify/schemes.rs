//! Wheels with libraries and programs in `*.data`, as installers put them into an environment.

use std::fs;
use std::path::{Path, PathBuf};

use kpackfs::verify::VerifyOptions;
use tempfile::TempDir;

use crate::common::{fixture, program, put, succeeds};
use crate::verify::installations::{wheel, wheels};
use crate::verify::splits::verify;
use crate::verify::wheels::unpacked;

/// The wheels of a package that has these fixtures in its `.data` directory, and no other device code.
fn split_of(files: &[(&str, &str)]) -> TempDir {
    let fat = tempfile::tempdir().unwrap();
    unpacked(fat.path(), "fat", "1.0");
    fs::remove_dir_all(fat.path().join("fat")).unwrap();
    put(fat.path().join("fat/__init__.py"), "");
    for (place, name) in files {
        put(fat.path().join("fat-1.0.data").join(place), fixture(name));
    }
    wheels(fat.path(), &[])
}

fn members(wheel: &Path) -> Vec<String> {
    let zip = zip::ZipArchive::new(fs::File::open(wheel).unwrap()).unwrap();
    zip.file_names().map(|name| name.unwrap().into_owned()).collect()
}

/// An environment with these wheels.
fn installed(wheels: &[PathBuf], scripts: &str) -> TempDir {
    let environment = tempfile::tempdir().unwrap();
    let packages = environment.path().join("lib/python3.12/site-packages");
    put(environment.path().join("pyvenv.cfg"), "");
    let place = |member: &str| match member.split_once(".data/").and_then(|(_, rest)| rest.split_once('/')) {
        Some(("scripts", rest)) => format!("../../../{scripts}/{rest}"),
        Some(("data", rest)) => format!("../../../{rest}"),
        Some(("platlib", rest)) => rest.to_owned(),
        _ => member.to_owned(),
    };
    for wheel in wheels {
        let mut zip = zip::ZipArchive::new(fs::File::open(wheel).unwrap()).unwrap();
        for number in 0..zip.len() {
            let mut member = zip.by_index(number).unwrap();
            let (name, mut bytes) = (member.name().unwrap().into_owned(), Vec::new());
            std::io::copy(&mut member, &mut bytes).unwrap();
            if name.ends_with("/RECORD") {
                let lines = String::from_utf8(bytes).unwrap();
                bytes = lines.lines().flat_map(|line| (place(line) + "\n").into_bytes()).collect();
            }
            let path = place(&name);
            let path = match path.strip_prefix("../../../") {
                Some(path) => environment.path().join(path),
                None => packages.join(path),
            };
            put(path, bytes);
        }
    }
    environment
}

#[test]
fn code_of_every_scheme_is_found_where_installers_put_it() {
    for (files, scripts, archives) in [
        (&[("scripts/tool", "exe-pie")][..], "bin", "bin"),
        (&[("scripts/tool.exe", "win.exe")], "Scripts", "Scripts"),
        (&[("data/lib/x.so", "plain.so")], "bin", "lib"),
        (&[("data/bin/other", "exe-static"), ("scripts/tool", "exe-nopie")], "bin", "bin"),
    ] {
        let out = split_of(files);
        let both = ["fat-", "amd_fat_device_gfx90a-"].map(|start| wheel(&out, start));
        let device = members(&both[1]);
        assert!(
            device.iter().any(|it| it.starts_with(&format!("amd_fat_device_gfx90a-1.0.data/data/{archives}/.kpack/")))
        );
        assert!(!device.iter().any(|it| it.contains(".data/scripts/")), "{device:?}");
        let host = members(&both[0]);
        for (place, _) in files {
            assert!(host.contains(&format!("fat-1.0.data/{place}")), "{host:?}");
        }
        let environment = installed(&both, scripts);
        let site = environment.path().join("lib/python3.12/site-packages");
        for place in [out.path().join("wheels"), environment.path().to_owned(), site] {
            assert_eq!(verify(&[place], None, &VerifyOptions::default()).findings, [], "{files:?}");
        }
        succeeds(program().args(["why", "--target", "gfx90a"]).arg(environment.path()));
    }
}

/// Other versions put archives of programs into `scripts`.
#[test]
fn archives_among_scripts_are_joined() {
    for (tool, name, programs) in [("scripts/tool", "exe-pie", "bin"), ("scripts/tool.exe", "win.exe", "Scripts")] {
        let out = split_of(&[(tool, name)]);
        let [host, device] = ["fat-", "amd_fat_device_gfx90a-"].map(|start| wheel(&out, start));
        let place = tempfile::tempdir().unwrap();
        let old = place.path().join(device.file_name().unwrap());
        let mut from = zip::ZipArchive::new(fs::File::open(&device).unwrap()).unwrap();
        let mut to = zip::ZipWriter::new(fs::File::create(&old).unwrap());
        for number in 0..from.len() {
            let member = from.by_index(number).unwrap();
            let name = member.name().unwrap().replace(&format!(".data/data/{programs}/"), ".data/scripts/");
            to.raw_copy_file_rename(member, name).unwrap();
        }
        to.finish().unwrap();
        succeeds(program().args(["inspect", "--no-cache", "--require", "gfx90a"]).args([host, old]));
    }
}
