//! Views of a split: what is laid over each other, and what a split says that there is.

use std::fs;
use std::path::{Path, PathBuf};

use kpackfs::export;
use kpackfs::gpu::BundleKey;
use kpackfs::resources::Resources;
use kpackfs::source::{EntryPath, Input};
use kpackfs::split::{self, Plan, Statement};
use kpackfs::verify::{Check, Options, Report};
use kpackfs::view::{self, WheelOptions, WheelSet};
use tempfile::TempDir;

use crate::support::{all, copy, edit, verify};
use crate::wheels::unpacked;

/// A wheel with fat libraries and programs wherever a wheel can have them.
fn fat() -> TempDir {
    let fat = tempfile::tempdir().unwrap();
    unpacked(fat.path(), "fat", "1.0");
    let data = fat.path().join("fat-1.0.data");
    for (name, place) in
        [("mixed.so", "platlib/more/mixed.so"), ("exe-pie", "scripts/tool"), ("plain.so", "data/lib/x.so")]
    {
        copy(&Path::new("tests/fixtures").join(name), &data.join(place));
    }
    fat
}

/// What a mount shows with these targets laid over the host part.
fn shown(fat: &Path, arch: &[&str]) -> TempDir {
    let resources = Resources::new(64 << 20);
    let input = Input::open(fat, &resources).unwrap();
    let plan = Plan::make(&input, &all(), &resources, &split::Progress::default()).unwrap();
    let wheels = WheelSet::new(&input, &plan, &WheelOptions::default(), &resources).unwrap();
    let arch: Vec<BundleKey> = arch.iter().map(|name| name.parse().unwrap()).collect();
    let tree = view::lay_out(&input, &plan, wheels.as_ref(), &arch, Vec::new()).unwrap();
    let names = ["host", "merged"].into_iter().chain(plan.keys.iter().map(BundleKey::as_str));
    let out = tempfile::tempdir().unwrap();
    let views: Vec<_> = names.map(|name| (EntryPath::new(name.as_bytes()).unwrap(), out.path().join(name))).collect();
    export::write(&tree, &views, &export::Progress::default()).unwrap();
    let statement = Statement::of(&all()).with_arch(&arch).to_json().unwrap_or_default();
    fs::create_dir(out.path().join(".kpackfs")).unwrap();
    if !statement.is_empty() {
        fs::write(out.path().join(".kpackfs/split.json"), statement).unwrap();
    }
    out
}

fn check(path: PathBuf, against: Option<&Path>) -> Report {
    verify(&[path], against, &Options::default())
}

#[test]
fn what_a_data_directory_holds_is_installed_in_every_view() {
    let fat = fat();
    for arch in [&[][..], &["gfx90a"], &["gfx1030", "gfx1100"]] {
        let out = shown(fat.path(), arch);
        for against in [None, Some(fat.path())] {
            let report = check(out.path().to_owned(), against);
            assert_eq!(report.findings, [], "{arch:?}");
            for name in ["gfx90a", "gfx1030", "gfx1100"] {
                let report = check(out.path().join("merged").join(name), against);
                assert_eq!(report.findings, [], "{name}");
            }
        }
        let host = out.path().join("host");
        let overlaid = host.join("amd_fat_device_gfx90a-1.0.dist-info/RECORD");
        if overlaid.exists() {
            edit(&overlaid, |text| {
                let start = text.windows(7).position(|text| text == b"sha256=").unwrap() + 7;
                text[start] = if text[start] == b'A' { b'B' } else { b'A' };
            });
            let report = check(out.path().to_owned(), None);
            let is_it = |path: &str| path.ends_with("host/amd_fat_device_gfx90a-1.0.dist-info/RECORD");
            assert!(report.findings.iter().any(|it| it.check == Check::Separation && is_it(&it.path)), "{report:?}");
        }
    }
}
