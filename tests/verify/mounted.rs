//! Mounts, copies of mounts, and their entries named one by one. The trees are those of mounts, on a disk.

use std::fs;
use std::path::{Path, PathBuf};

use kpackfs::verify::{Rule, VerifyOptions, VerifyReport};

use crate::installations;
use crate::splits::verify;
use crate::wheels::split;

fn check(paths: &[PathBuf]) -> VerifyReport {
    verify(paths, None, &VerifyOptions::default())
}

fn has(report: &VerifyReport, rule: Rule, path: &str) -> bool {
    report.findings.iter().any(|it| it.rule == rule && it.path.contains(path))
}

/// The entries that are not hidden, as a shell expands `*`.
fn entries(place: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(place).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> =
        paths.filter(|path| !path.file_name().unwrap().to_str().unwrap().starts_with('.')).collect();
    paths.sort();
    paths
}

#[test]
fn a_copy_of_a_mount_has_thin_wheels_beside_wheels() {
    let fat = installations::fat();
    let copy = tempfile::tempdir().unwrap();
    split(fat.path(), &copy.path().join("wheels"), &["--format", "wheel"]);
    split(fat.path(), &copy.path().join("thin-wheels"), &["--format", "thin-wheel", "--view", "gfx90a"]);
    split(fat.path(), copy.path(), &[]);
    fs::remove_dir_all(copy.path().join(".kpackfs")).unwrap();
    for paths in [vec![copy.path().to_owned()], entries(copy.path()), {
        ["wheels", "thin-wheels/gfx90a"].map(|name| copy.path().join(name)).into()
    }] {
        let report = check(&paths);
        assert_eq!((&*report.findings, report.counts.thin_binaries.get() > 0), (&[][..], true), "{paths:?}");
        assert!(!report.notes.iter().any(|note| note.contains("split ID")), "{:?}", report.notes);
    }
    let device = entries(&copy.path().join("wheels"));
    let device = device.iter().find(|path| path.to_str().unwrap().contains("device_gfx90a")).unwrap();
    fs::remove_file(device).unwrap();
    assert!(has(&check(&[copy.path().to_owned()]), Rule::DistributionMissing, "wheels/fat-1.0"));
}
