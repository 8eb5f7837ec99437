//! `verify` finds nothing in a split by kpackfs, and reports every way in which a split can be wrong.

mod against;
mod agreed;
mod archives;
mod beside;
mod binaries;
mod databases;
mod forms;
mod healthy;
mod images;
mod incomplete;
mod installations;
mod mounted;
mod names;
mod neighbours;
mod nothing;
mod places;
mod records;
mod schemes;
mod splits;
mod thin;
mod views;
pub(crate) mod wheels;

use std::fs;
use std::path::{Path, PathBuf};

use kpackfs::split::{PlanOptions, Targets};
use kpackfs::verify::{Check, VerifyOptions};
pub(crate) use splits::try_verify;
use splits::{FEATURES, GFX90A, PLAIN, Split, copy, expect, verify};

#[test]
fn a_split_is_clean_in_every_form() {
    let split = Split::make(&["merged/gfx90a"]);
    let clean = |paths: &[PathBuf], against: Option<&Path>| {
        let report = verify(paths, against, &VerifyOptions::default());
        assert_eq!(report.findings, [], "{paths:?}");
        report
    };
    let report = clean(&[split.out()], Some(&split.fat()));
    assert!(report.counts.binaries.get() > 40 && report.counts.compared_code_objects.get() > 200);
    let parts: Vec<_> =
        ["host", "gfx90a", "gfx1030", "gfx1100", "gfx11", "gfx942"].map(|name| split.out().join(name)).into();
    clean(&parts, Some(&split.fat()));
    let merged = clean(&[split.out().join("merged/gfx90a")], Some(&split.fat()));
    assert!(merged.counts.compared_code_objects.get() > 50);
    assert_eq!(clean(&[split.out().join(GFX90A)], None).counts.archives.get(), 1);
    assert_eq!(clean(&[split.out().join(PLAIN), split.out().join(FEATURES)], None).counts.wrappers.get(), 5);
}

#[test]
fn what_could_not_be_split_is_named() {
    let split = Split::make(&[]);
    for (name, reason) in [
        ("plain.so", "it still holds device code, of 2 wrappers"),
        ("extra-pointer.so", "it still holds device code, and the pointer at"),
        ("noheaders.so", "it still holds device code, of 2 wrappers"),
    ] {
        copy(&Path::new("tests/fixtures").join(name), &split.out().join("host/lib/other.so"));
        expect(&split, None, Check::Binary, "host/lib/other.so", reason);
    }
}

#[test]
fn a_restricted_split_is_clean_if_verify_knows_of_it() {
    let targets = Targets { wanted: Some(vec!["gfx1030".parse().unwrap()]), ..Targets::default() };
    let split = Split::restricted(&PlanOptions { targets: targets.clone(), ..splits::all() });
    let options = VerifyOptions { targets, ..VerifyOptions::default() };
    assert_eq!(verify(&[split.out()], Some(&split.fat()), &options).findings, []);
    assert!(!verify(&[split.out()], Some(&split.fat()), &VerifyOptions::default()).findings.is_empty());
}

#[test]
fn the_command_tells_by_its_exit_code() {
    let split = Split::make(&[]);
    let run = |arguments: &[&Path]| {
        let mut command = assert_cmd::Command::cargo_bin("kpackfs").unwrap();
        command.arg("verify").args(arguments).assert()
    };
    let (out, fat) = (split.out(), split.fat());
    run(&[&out, Path::new("--against"), &fat]).code(0);
    fs::remove_file(out.join("host/share/notes")).unwrap();
    let json = run(&[&out, Path::new("--against"), &fat, Path::new("--json")]).code(1);
    let report: serde_json::Value = serde_json::from_slice(&json.get_output().stdout).unwrap();
    assert_eq!(report["findings"][0]["path"], "share/notes");
    assert_eq!(report["findings"][0]["check"], "against");
    assert_eq!(report["findings"][0]["id"], "against-lost");
    let allow = |id: &str| run(&[&out, Path::new("--against"), &fat, Path::new("--allow"), Path::new(id)]);
    let stdout = allow("against-lost").code(0);
    let text = String::from_utf8_lossy(&stdout.get_output().stdout).into_owned();
    assert!(text.contains("note: 1 of against-lost allowed, such as share/notes: the file is lost"), "{text}");
    allow("against-changed").code(1);
    allow("against-lots").code(2);
    assert!(report["counts"]["wrappers"].as_u64().unwrap() > 80);
    run(&[&out.join("nothing")]).code(5);
    run(&[Path::new("Cargo.toml")]).code(5);
    run(&[&out.join(PLAIN), Path::new("--against"), &fat]).code(2);
    run(&[]).code(2);
}
