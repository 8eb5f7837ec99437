//! What is next to a split without being of it, or is not where it was made: `verify` finds nothing in these.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use kpackfs::verify::{Rule, VerifyOptions, VerifyReport};
use tempfile::TempDir;

use crate::installations::{HOST, fat, installed, wheel, wheels};
use crate::splits::{copy, edit, verify};
use crate::wheels::{split, unpacked};

fn report(path: &Path) -> VerifyReport {
    verify(&[path.to_owned()], None, &VerifyOptions::default())
}

fn rules(report: &VerifyReport) -> Vec<Rule> {
    report.findings.iter().map(|it| it.rule).collect()
}

/// A split, installed for these GPUs.
fn site(fat: &Path, options: &[&str], gpus: &[&str]) -> TempDir {
    let out = wheels(fat, options);
    let devices = gpus.iter().map(|gpu| wheel(&out, &format!("amd_fat_device_{gpu}-")));
    let site = installed(&std::iter::once(wheel(&out, "fat-")).chain(devices).collect::<Vec<_>>());
    for entry in fs::read_dir(site.path()).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.extension().is_some_and(|it| it == "dist-info") {
            fs::write(entry.join("INSTALLER"), "pip\n").unwrap();
        }
    }
    site
}

/// Fat packages, and modules that programs compile when they run, work next to a split.
#[test]
fn device_code_of_others() {
    let fat = fat();
    let site = site(fat.path(), &[], &["gfx1100", "gfx11"]);
    unpacked(site.path(), "other", "2.0");
    fs::remove_file(site.path().join("other-2.0.dist-info/RECORD")).unwrap();
    copy(Path::new("tests/fixtures/plain.so"), &site.path().join("fat/jit/module.so"));
    fs::write(site.path().join("other/not-elf.so"), b"\x7fELF\x02\x01\x01 and nothing that follows, of a test")
        .unwrap();
    let found = report(site.path());
    assert_eq!(found.findings, []);
    let note = "3 binaries such as fat/jit/module.so belong to no split, and hold their device code";
    assert!(found.notes.iter().any(|it| it == note), "{:?}", found.notes);

    copy(Path::new("tests/fixtures/plain.so"), &site.path().join("fat/plain.so"));
    let found = report(site.path());
    let fat_ones: Vec<_> = found.findings.iter().filter(|it| it.rule == Rule::StillFat).map(|it| &*it.path).collect();
    assert_eq!(fat_ones, ["fat/plain.so"], "{:?}", found.findings);

    // The fat wheel was installed in place of the host part.
    fs::remove_file(site.path().join(HOST).join("kpackfs.json")).unwrap();
    fs::copy(fat.path().join(HOST).join("METADATA"), site.path().join(HOST).join("METADATA")).unwrap();
    assert!(rules(&report(site.path())).contains(&Rule::StillFat));
    // Which files are its own is unknown without RECORD.
    fs::remove_file(site.path().join(HOST).join("RECORD")).unwrap();
    let found = report(site.path());
    assert!(found.findings.iter().any(|it| it.rule == Rule::StillFat && it.path == "fat/jit/module.so"));
}

/// The restrictions of a split are in the host part, and device parts have statements as well.
#[test]
fn restricted_databases() {
    let fat = fat();
    copy(Path::new("tests/fixtures/plain.so"), &fat.path().join("fat/lib/libMIOpenCKGroupedConv_gfx90a.so"));
    let site = site(fat.path(), &["--databases", "rocblas"], &["gfx90a"]);
    let found = report(site.path());
    assert_eq!(found.findings, []);
    assert!(found.notes.iter().any(|it| it.contains("--databases rocblas")), "{:?}", found.notes);
}
