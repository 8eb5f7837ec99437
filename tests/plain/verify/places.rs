//! Directories that contain several things, of which some have the names of others.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::slice;

use kpackfs::verify::{Rule, VerifyOptions, VerifyReport};

use crate::common::put;
use crate::verify::installations::{fat, installed, wheel, wheels};
use crate::verify::splits::{GFX90A, PLAIN, Split, copy, verify, write_at};
use crate::verify::wheels::split;

fn check(path: &Path) -> VerifyReport {
    verify(slice::from_ref(&path.to_owned()), None, &VerifyOptions::default())
}

#[track_caller]
fn is_clean(path: &Path) -> VerifyReport {
    let report = check(path);
    assert_eq!(report.findings, [], "{}", path.display());
    report
}

fn has(report: &VerifyReport, rule: Rule, path: &str) -> bool {
    report.findings.iter().any(|it| it.rule == rule && it.path.contains(path))
}

fn copy_wheels(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        if entry.path().extension().is_some_and(|extension| extension == "whl") {
            copy(&entry.path(), &to.join(entry.file_name()));
        }
    }
}

/// An environment with a split in it, and its directory of packages.
fn environment(place: &Path, mark: &str) -> (PathBuf, PathBuf) {
    let out = wheels(fat().path(), &[]);
    let all: Vec<_> = fs::read_dir(out.path().join("wheels")).unwrap().map(|it| it.unwrap().path()).collect();
    let all: Vec<_> = all.into_iter().filter(|path| path.extension().is_some_and(|it| it == "whl")).collect();
    let environment = place.join("venv");
    let packages = environment.join("lib/python3.12/site-packages");
    fs::create_dir_all(packages.parent().unwrap()).unwrap();
    fs::rename(installed(&all).keep(), &packages).unwrap();
    match mark {
        "" => {}
        "conda-meta" => fs::create_dir(environment.join(mark)).unwrap(),
        file => fs::write(environment.join(file), "").unwrap(),
    }
    copy_wheels(&out.path().join("wheels"), &environment.join("wheels"));
    (environment, packages)
}

#[test]
fn an_environment_is_one_whatever_else_is_in_it() {
    for mark in ["pyvenv.cfg", "conda-meta", ""] {
        let place = tempfile::tempdir().unwrap();
        let (environment, packages) = environment(place.path(), mark);
        let is_noted = |report: &VerifyReport| {
            report.notes.iter().any(|note| note.contains("/venv/wheels/") && note.contains("not checked with it"))
        };
        let report = is_clean(&environment);
        assert!(is_noted(&report) && report.counts.binaries.get() > 2, "{mark}: {report:?}");
        for name in ["host", "gfx942"] {
            fs::create_dir(environment.join(name)).unwrap();
            fs::write(environment.join(name).join("x"), "").unwrap();
            is_clean(&environment);
            fs::remove_dir_all(environment.join(name)).unwrap();
        }
        write_at(&packages.join("fat/.kpack/fat_gfx90a.kpack"), 0, b"x");
        let report = check(&environment);
        assert!(
            has(&report, Rule::ArchiveUnreadable, "lib/python3.12/site-packages/"),
            "{mark}: {:?}",
            report.findings
        );
        // What a statement names is a split, wherever it is.
        split(fat().path(), &environment, &[]);
        fs::remove_file(environment.join("host/fat/version.py")).unwrap();
        let report = check(&environment);
        assert!(has(&report, Rule::FileMissing, "host/fat/version.py"), "{mark}: {:?}", report.findings);
        let is_of_site = has(&report, Rule::ArchiveUnreadable, "lib/python3.12/site-packages/");
        assert_eq!(is_of_site, !mark.is_empty(), "{mark}: {:?}", report.findings);
    }
}

#[test]
fn an_environment_has_files_beside_its_packages() {
    let place = tempfile::tempdir().unwrap();
    let (environment, packages) = environment(place.path(), "conda-meta");
    let split = Split::make(&[]);
    let of_packages = is_clean(&environment).counts.binaries.get();
    let archive = environment.join(".kpack/rocm_gfx90a.kpack");
    copy(&split.out().join(PLAIN), &environment.join("lib/plain-bfd.so"));
    copy(&split.out().join(GFX90A), &archive);
    assert_eq!(is_clean(&environment).counts.binaries.get(), of_packages + 1);
    assert_eq!(verify(slice::from_ref(&environment), Some(fat().path()), &VerifyOptions::default()).findings, []);
    fs::remove_file(&archive).unwrap();
    let report = check(&environment);
    assert!(has(&report, Rule::NoCode, "/venv"), "{:?}", report.findings);
    fs::remove_file(environment.join("lib/plain-bfd.so")).unwrap();

    let record = packages.join("fat-1.0.dist-info/RECORD");
    let text = fs::read_to_string(&record).unwrap();
    let row = "../../../etc/fat/fat.conf,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\n";
    fs::write(&record, text + row).unwrap();
    let report = check(&environment);
    assert_eq!(report.findings.len(), 1, "{:?}", report.findings);
    assert!(has(&report, Rule::FileMissing, "etc/fat/fat.conf"), "{:?}", report.findings);
    // Of the packages alone, it is elsewhere.
    is_clean(&packages);
    put(environment.join("etc/fat/fat.conf"), "");
    is_clean(&environment);
    // Without packages, an environment is what else it has.
    fs::remove_dir_all(&packages).unwrap();
    copy(&split.out().join(PLAIN), &environment.join("lib/plain-bfd.so"));
    copy(&split.out().join(GFX90A), &archive);
    assert_eq!(is_clean(&environment).counts.binaries.get(), 1);
}

/// The first environment of conda has the others and the packages of all in it.
#[test]
fn an_environment_is_checked_without_those_in_it() {
    let place = tempfile::tempdir().unwrap();
    let (environment, _) = self::environment(place.path(), "conda-meta");
    let binaries = is_clean(&environment).counts.binaries.get();
    let split = Split::make(&[]);
    for mark in ["conda-meta", "pyvenv.cfg"] {
        let (other, packages) = self::environment(&environment.join(format!("envs/of-{mark}")), mark);
        write_at(&packages.join("fat/.kpack/fat_gfx90a.kpack"), 0, b"x");
        copy(&split.out().join(PLAIN), &other.join("lib/plain-bfd.so"));
        assert!(has(&check(&other), Rule::ArchiveUnreadable, "lib/python3.12/site-packages/"));
    }
    copy(&split.out().join(PLAIN), &environment.join("pkgs/plain-1.0-0/lib/plain-bfd.so"));
    let report = is_clean(&environment);
    assert_eq!(report.counts.binaries.get(), binaries);
    for apart in ["envs/of-conda-meta/venv", "envs/of-pyvenv.cfg/venv", "pkgs"] {
        let start =
            format!("{}: an environment, or a cache", environment.canonicalize().unwrap().join(apart).display());
        assert!(report.notes.iter().any(|note| note.starts_with(&start)), "{apart}: {:?}", report.notes);
    }
    // Elsewhere, it is a directory like others.
    fs::rename(environment.join("pkgs"), environment.join("share")).unwrap();
    assert!(has(&check(&environment), Rule::NoCode, ""));
}

#[test]
fn wheels_next_to_other_output_are_verified() {
    let fat = fat();
    for other in [&["--format", "thin-wheel", "--view", "gfx1100"][..], &[]] {
        let out = wheels(fat.path(), &[]);
        let place = out.path().join("wheels");
        split(fat.path(), &place, other);
        let report = is_clean(&place);
        let is_thin = report.counts.thin_binaries.get() > 0;
        assert!(is_thin != other.is_empty() && report.counts.archives.get() > 4, "{report:?}");
        fs::remove_file(wheel(&out, "amd_fat_device_gfx90a")).unwrap();
        let report = check(&place);
        assert!(has(&report, Rule::DistributionMissing, "/fat-1.0-"), "{other:?}: {:?}", report.findings);
    }
}

#[test]
fn a_directory_of_wheels_may_contain_directories() {
    let fat = fat();
    let out = wheels(fat.path(), &[]);
    let place = out.path().join("wheels");
    let compared = is_clean(&place).counts.recorded_files.get();
    fs::create_dir(place.join("older")).unwrap();
    fs::write(place.join("older/notes"), "for everybody").unwrap();
    let report = is_clean(&place);
    assert_eq!(report.counts.recorded_files.get(), compared);
    let is_named = |note: &String| note.ends_with("since only its wheels are used: older");
    assert!(report.notes.iter().any(is_named), "{:?}", report.notes);
    fs::remove_file(wheel(&out, "amd_fat_device_gfx90a")).unwrap();
    assert!(has(&check(&place), Rule::DistributionMissing, "/fat-1.0-"));
    // An install tree may contain wheels.
    split(fat.path(), &out.path().join("parts"), &[]);
    fs::rename(out.path().join("parts/host/fat"), place.join("lib")).unwrap();
    let report = check(&place);
    assert!(has(&report, Rule::NoCode, ""), "{:?}", report.findings);
    assert!(report.notes.iter().any(|note| note.contains("not checked with it")), "{:?}", report.notes);
}

#[test]
fn directories_that_lead_to_each_other_are_followed_once() {
    let place = tempfile::tempdir().unwrap();
    let (_, packages) = environment(place.path(), "pyvenv.cfg");
    let [one, other] = ["one", "other"].map(|name| place.path().join(name));
    let copied = std::process::Command::new("cp").arg("-a").args([&packages, &one]).status().unwrap();
    fs::rename(&packages, &other).unwrap();
    symlink(&other, one.join("x")).unwrap();
    symlink(&one, other.join("x")).unwrap();
    symlink(&one, one.join("itself")).unwrap();
    assert!(copied.success());
    is_clean(&one);
    write_at(&other.join("fat/.kpack/fat_gfx90a.kpack"), 0, b"x");
    let report = check(&one);
    let paths: Vec<_> = report.findings.iter().map(|it| it.path.as_str()).collect();
    assert!(paths.contains(&"x/fat/.kpack/fat_gfx90a.kpack"), "{:?}", report.findings);
}

#[test]
fn missing_memory_is_no_finding() {
    let place = tempfile::tempdir().unwrap();
    let name = "x".repeat(200);
    let first = place.path().join("x");
    fs::write(&first, "").unwrap();
    for number in 0..20_000 {
        fs::hard_link(&first, place.path().join(format!("{name}{number}"))).unwrap();
    }
    let mut command = assert_cmd::Command::cargo_bin("kpackfs").unwrap();
    let assert = command.args(["verify", "--memory", "16"]).arg(place.path()).assert().code(2);
    let text = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(text.contains("it needs --memory"), "{text}");
}
