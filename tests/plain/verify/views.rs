//! Views of a split that are laid over each other, and the statement of a split about its parts.

use std::fs;
use std::path::{Path, PathBuf};

use base64::display::Base64Display;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kpackfs::export;
use kpackfs::gpu::BundleKey;
use kpackfs::kpack::BundleJobs;
use kpackfs::metrics::Progress;
use kpackfs::resources::Resources;
use kpackfs::source::{EntryPath, Input};
use kpackfs::split::{Plan, Statement};
use kpackfs::verify::{Check, Finding, Rule, VerifyOptions, VerifyReport};
use kpackfs::view::{self};
use kpackfs::wheelparts::{WheelOptions, WheelSet};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::verify::nothing::is_nothing;
use crate::verify::splits::{all, copy, edit, verify};
use crate::verify::wheels::{split, unpacked};

/// A wheel with fat libraries and programs wherever a wheel can have them.
pub(crate) fn fat() -> TempDir {
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

/// A mount's view with these targets laid over the host part.
pub(crate) fn shown(fat: &Path, arch: &[&str]) -> TempDir {
    let resources = Resources::new(64 << 20);
    let input = Input::open(fat, &resources).unwrap();
    let plan = Plan::make(&input, &all(), &BundleJobs::new(&resources), &Progress::default()).unwrap();
    let wheels = WheelSet::new(&input, &plan, &WheelOptions::default(), &resources).unwrap();
    let arch: Vec<BundleKey> = arch.iter().map(|name| name.parse().unwrap()).collect();
    let tree = view::lay_out(&input, &plan, wheels.as_ref(), &arch).unwrap();
    let names = ["host", "merged"].into_iter().chain(plan.keys.iter().map(BundleKey::as_str));
    let out = tempfile::tempdir().unwrap();
    let views: Vec<_> = names.map(|name| (EntryPath::new(name.as_bytes()).unwrap(), out.path().join(name))).collect();
    export::write(&tree, &views, &Progress::default()).unwrap();
    let parts = ["host"].into_iter().chain(plan.keys.iter().map(BundleKey::as_str)).map(str::to_owned);
    let parts = parts.chain(plan.keys.iter().map(|key| format!("merged/{key}")));
    let arch = arch.iter().map(ToString::to_string).collect();
    let statement = Statement { arch, parts: parts.collect(), ..Statement::of(&all()) }.to_json();
    fs::create_dir(out.path().join(".kpackfs")).unwrap();
    fs::write(out.path().join(".kpackfs/split.json"), statement).unwrap();
    out
}

fn check(path: PathBuf, against: Option<&Path>) -> VerifyReport {
    verify(&[path], against, &VerifyOptions::default())
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
        let merged = out.path().join("merged/gfx90a");
        fs::remove_file(merged.join("fat-1.0.data/data/bin/tool")).unwrap();
        for against in [None, Some(fat.path())] {
            let report = check(merged.clone(), against);
            assert!(report.findings.iter().any(|it| it.path.ends_with("data/bin/tool")), "{:?}", report.findings);
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

/// A tree with code for two GPUs, and a database of each.
fn tree() -> TempDir {
    let tree = tempfile::tempdir().unwrap();
    copy(Path::new("tests/fixtures/plain.so"), &tree.path().join("lib/x.so"));
    for target in ["gfx90a", "gfx1030"] {
        let name = format!("lib/rocblas/library/TensileLibrary_{target}.dat");
        fs::create_dir_all(tree.path().join("lib/rocblas/library")).unwrap();
        // A catalogue is an array or a map.
        let text = [&[0x91, 0xd9, u8::try_from(target.len()).unwrap()], target.as_bytes()].concat();
        fs::write(tree.path().join(name), text).unwrap();
    }
    tree
}

#[test]
fn merged_views_have_the_databases_that_their_libraries_read() {
    let (tree, place) = (tree(), tempfile::tempdir().unwrap());
    fs::rename(tree.path().join("lib/x.so"), tree.path().join("lib/librocblas.so.5")).unwrap();
    let out = place.path().join("out");
    split(tree.path(), &out, &["--view", "merged"]);
    assert_eq!(check(out.clone(), Some(tree.path())).findings, []);
    let merged = out.join("merged/gfx90a");
    fs::remove_dir_all(merged.join("lib/rocblas/library")).unwrap();
    for is_file in [false, true] {
        if is_file {
            fs::write(merged.join("lib/rocblas/library"), "").unwrap();
        }
        let found = check(merged.clone(), None).findings;
        let found: Vec<_> = found.iter().map(|it| (it.path.as_str(), it.rule)).collect();
        assert_eq!(found, [("lib/rocblas/library", Rule::DatabaseMissing)], "{is_file}");
    }
}

/// The statement of the split in `out`.
fn said(out: &Path) -> serde_json::Value {
    serde_json::from_str(&fs::read_to_string(out.join(".kpackfs/split.json")).unwrap()).unwrap()
}

#[test]
fn a_part_that_is_missing_or_does_not_belong_is_named() {
    let tree = tree();
    let place = tempfile::tempdir().unwrap();
    for (number, part) in ["host", "gfx90a", "gfx1030", "merged/gfx90a"].into_iter().enumerate() {
        let out = place.path().join(number.to_string());
        split(tree.path(), &out, &[]);
        split(tree.path(), &out, &["--view", "merged/gfx90a"]);
        // The output directory may contain other files.
        fs::create_dir(out.join("notes")).unwrap();
        fs::write(out.join("notes/x"), "").unwrap();
        let report = check(out.clone(), Some(tree.path()));
        assert_eq!((&*report.findings, &*report.notes), (&[][..], &[][..]));
        fs::remove_dir_all(out.join(part)).unwrap();
        let report = check(out.clone(), None);
        let is_it = |it: &Finding| it.check == Check::Separation && it.path == part && it.reason.contains("no such");
        assert!(report.findings.iter().any(is_it), "{part}: {:?}", report.findings);
    }
    let out = place.path().join("0");
    for part in ["gfx90a", "gfx1030", "merged"] {
        fs::remove_dir_all(out.join(part)).unwrap();
    }
    assert_eq!(check(out, None).findings.len(), 4);
    let out = place.path().join("1");
    copy(&out.join("gfx1030/.kpack/rocm_gfx1030.kpack"), &out.join("gfx1100/.kpack/rocm_gfx1030.kpack"));
    let report = check(out, None);
    assert!(report.findings.iter().any(|it| it.path == "gfx1100" && it.reason.contains("does not name it")));
}

#[test]
fn what_is_said_is_about_what_there_is() {
    let tree = tree();
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("out");
    let parts = |expected: &[&str]| {
        assert_eq!(said(&out)["parts"], serde_json::json!(expected));
        let report = check(out.clone(), Some(tree.path()));
        assert_eq!(report.findings, [], "{expected:?}");
        let is_there = |part: &&&str| out.join(part).is_dir();
        assert_eq!(["gfx1030", "gfx90a"].iter().filter(is_there).count(), expected.len() - 1);
    };
    split(tree.path(), &out, &["--gpu-targets", "gfx90a", "--databases", ""]);
    parts(&["host", "gfx90a"]);
    assert_eq!(said(&out)["gpu_targets"], serde_json::json!(["gfx90a"]));
    split(tree.path(), &out, &["--force"]);
    parts(&["host", "gfx1030", "gfx90a"]);
    assert_eq!(
        (&said(&out)["gpu_targets"], &said(&out)["databases"]),
        (&serde_json::Value::Null, &serde_json::Value::Null)
    );
    fs::create_dir(out.join("notes")).unwrap();
    split(tree.path(), &out, &["--gpu-targets", "gfx1030", "--force"]);
    parts(&["host", "gfx1030"]);
    assert!(out.join("notes").is_dir());
    // A part that is added later is in the statement, too.
    split(tree.path(), &out, &["--view", "gfx90a"]);
    parts(&["gfx1030", "gfx90a", "host"]);
    // Only parts are replaced, whatever the statement says.
    fs::write(out.join(".kpackfs/split.json"), r#"{"json_version": 1, "parts": ["host", "notes"]}"#).unwrap();
    split(tree.path(), &out, &["--force"]);
    assert!(out.join("notes").is_dir());
    parts(&["host", "gfx1030", "gfx90a"]);
    // Parts that another tool left there are named.
    fs::remove_dir_all(out.join(".kpackfs")).unwrap();
    let mut command = assert_cmd::Command::cargo_bin("kpackfs").unwrap();
    let force = ["split", "--no-cache", "--gpu-targets", "gfx1030", "--force", "-o"];
    let output = command.args(force).arg(&out).arg(tree.path()).assert().success();
    let text = String::from_utf8(output.get_output().stderr.clone()).unwrap();
    assert!(text.contains("out/gfx90a: not of this split") && !text.contains("notes"), "{text}");
    assert!(check(out.clone(), None).findings.iter().any(|it| it.path == "gfx90a"));
    // A split that fails changes nothing.
    fs::write(place.path().join("empty"), "").unwrap();
    let before = said(&out);
    let mut command = assert_cmd::Command::cargo_bin("kpackfs").unwrap();
    command.args(["split", "--no-cache", "--gpu-targets", "gfx90a", "-o"]).arg(&out).arg(tree.path()).assert().code(1);
    assert_eq!(said(&out), before);
}

#[test]
fn merged_views_of_trees_are_what_was_asked_for() {
    let tree = tree();
    for options in [&["--databases", ""][..], &["--gpu-targets", "gfx90a"]] {
        let place = tempfile::tempdir().unwrap();
        let out = place.path().join("out");
        split(tree.path(), &out, &[options, &["--view", "merged/gfx90a"]].concat());
        for path in [out.clone(), out.join("merged/gfx90a")] {
            let report = check(path, Some(tree.path()));
            assert_eq!(report.findings, [], "{options:?}");
            assert!(report.notes.iter().any(|note| note.contains(options[0])), "{:?}", report.notes);
        }
        fs::remove_file(out.join("merged/gfx90a/lib/x.so")).unwrap();
        assert!(!check(out.clone(), Some(tree.path())).findings.is_empty());
    }
}

/// A view of an environment has the code of its packages outside of their directory, or in their libraries.
#[test]
fn views_of_environments_are_checked() {
    let place = tempfile::tempdir().unwrap();
    let (venv, out) = (place.path().join("venv"), place.path().join("out"));
    let site = "lib/python3.12/site-packages";
    unpacked(&venv.join(site), "fat", "1.0");
    let (record, library) = (format!("{site}/fat-1.0.dist-info/RECORD"), format!("{site}/fat/plain.so"));
    let bytes = fs::read(venv.join(&library)).unwrap();
    let digest = Sha256::digest(&bytes);
    let sum = Base64Display::new(&digest, &URL_SAFE_NO_PAD);
    fs::write(venv.join(record), format!("fat/plain.so,sha256={sum},{}\n", bytes.len())).unwrap();
    fs::write(venv.join("pyvenv.cfg"), "").unwrap();
    split(&venv, &out, &["--view", "thin/gfx90a", "--view", "merged/gfx90a"]);
    for view in ["thin", "merged"] {
        let compiled = out.join(view).join("gfx90a").join(site).join("fat/__pycache__/version.cpython-312.pyc");
        fs::create_dir(compiled.parent().unwrap()).unwrap();
        fs::write(compiled, "").unwrap();
    }
    for (view, against) in ["thin", "merged"].into_iter().flat_map(|view| [(view, None), (view, Some(&*venv))]) {
        let report = check(out.join(view).join("gfx90a"), against);
        assert_eq!(report.findings, [], "{view} {against:?}");
        let counts = [&report.counts.thin_binaries, &report.counts.binaries].map(|count| count.get() > 0);
        assert_eq!(counts, [view == "thin", view == "merged"]);
    }
    copy(&Path::new("tests/fixtures").join("plain.so"), &out.join("thin/gfx90a").join(&library));
    fs::remove_dir_all(out.join("merged/gfx90a/.kpack")).unwrap();
    for (view, against, rule) in [
        ("thin", None, Rule::ThinCode),
        ("thin", Some(&*venv), Rule::AgainstCodeAdded),
        ("merged", None, Rule::NoCode),
        ("merged", Some(&*venv), Rule::AgainstCodeLost),
    ] {
        let found = check(out.join(view).join("gfx90a"), against).findings;
        assert!(found.iter().any(|it| it.rule == rule), "{view} {against:?}: {found:?}");
    }
}

/// The host part of an environment has its packages, with the files that no GPU has of its own.
#[test]
fn host_parts_of_environments_are_checked() {
    let place = tempfile::tempdir().unwrap();
    let (venv, out) = (place.path().join("venv"), place.path().join("out"));
    let site = "lib/python3.12/site-packages";
    unpacked(&venv.join(site), "fat", "1.0");
    let source = fs::read(venv.join(site).join("fat/version.py")).unwrap();
    let digest = Sha256::digest(&source);
    let row = format!("sha256={},{}", Base64Display::new(&digest, &URL_SAFE_NO_PAD), source.len());
    let record = format!("fat/version.py,{row}\nfat/plain.so,sha256={},1\n", "A".repeat(43));
    fs::write(venv.join(site).join("fat-1.0.dist-info/RECORD"), record).unwrap();
    fs::write(venv.join("pyvenv.cfg"), "").unwrap();
    split(&venv, &out, &["--view", "host", "--view", "gfx90a"]);
    let found = |parts: &[&str]| {
        let named: Vec<_> = parts.iter().map(|part| out.join(part)).collect();
        verify(&named, None, &VerifyOptions::default()).findings
    };
    assert_eq!(found(&["host", "gfx90a"]), []);
    edit(&out.join("host").join(site).join("fat/version.py"), |it| it.push(b'#'));
    for parts in [&["host"][..], &["host", "gfx90a"]] {
        let found = found(parts);
        assert!(found.iter().any(|it| it.rule == Rule::FileChanged), "{parts:?}: {found:?}");
    }
}

/// A view of an environment has the distributions of all GPUs, unlike a split of an image.
#[test]
fn views_of_environments_have_all_distributions() {
    let place = tempfile::tempdir().unwrap();
    let (venv, out) = (place.path().join("venv"), place.path().join("out"));
    let site = Path::new("lib/python3.12/site-packages");
    copy(Path::new("tests/fixtures/plain.so"), &venv.join("lib/x.so"));
    fs::write(venv.join("pyvenv.cfg"), "").unwrap();
    let device = |of: &Path, key: &str| of.join(site).join(format!("amd_fat_device_{key}-1.0.dist-info"));
    for key in ["gfx90a", "gfx1030"] {
        fs::create_dir_all(device(&venv, key)).unwrap();
        fs::write(device(&venv, key).join("METADATA"), "Name: amd-fat-device\nVersion: 1.0\n").unwrap();
    }
    split(&venv, &out, &["--view", "thin/gfx90a", "--view", "merged/gfx90a"]);
    for view in ["thin/gfx90a", "merged/gfx90a"].map(|view| out.join(view)) {
        assert_eq!(check(view.clone(), Some(&venv)).findings, []);
        for key in ["gfx90a", "gfx1030"] {
            fs::remove_dir_all(device(&view, key)).unwrap();
        }
        let found = check(view, Some(&venv)).findings;
        let lost = |key: &str| found.iter().any(|it| it.rule == Rule::AgainstLost && it.path.contains(key));
        assert!(lost("gfx90a") && lost("gfx1030"), "{found:?}");
    }
}

/// A copy of a merged view has no statement and no manifest: its archives show which libraries it had.
#[test]
fn a_library_that_is_gone_leaves_entries_of_archives() {
    let (tree, place) = (tree(), tempfile::tempdir().unwrap());
    copy(Path::new("tests/fixtures/plain.so"), &tree.path().join("lib/y.so"));
    let out = place.path().join("out");
    split(tree.path(), &out, &["--view", "merged/gfx90a"]);
    let copied = place.path().join("copied");
    fs::rename(out.join("merged/gfx90a"), &copied).unwrap();
    assert_eq!(check(copied.clone(), None).findings, []);
    fs::remove_file(copied.join("lib/y.so")).unwrap();
    let found = check(copied.clone(), None).findings;
    let found: Vec<_> = found.iter().map(|it| (it.rule, it.path.as_str())).collect();
    assert_eq!(found, [(Rule::OrphanEntry, ".kpack/rocm_gfx90a.kpack")]);
    // Next to packages, and below the top, archives may be of other tools.
    let around = place.path().join("around");
    fs::create_dir(&around).unwrap();
    fs::rename(&copied, around.join("rocm")).unwrap();
    assert_eq!(check(around.clone(), None).findings, []);
    unpacked(&around.join("rocm/lib/site-packages"), "fat", "1.0");
    fs::remove_dir_all(around.join("rocm/lib/site-packages/fat")).unwrap();
    assert_eq!(check(around.join("rocm"), None).findings, []);
}

/// A tree may have a directory with the name of the host part.
#[test]
fn a_tree_with_a_directory_called_host_is_one() {
    let (tree, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for name in ["host/x.so", "lib/y.so"] {
        copy(Path::new("tests/fixtures/plain.so"), &tree.path().join(name));
    }
    let share = tree.path().join("share/miopen/db");
    fs::create_dir_all(&share).unwrap();
    fs::write(share.join("gfx90a68.HIP.fdb.txt"), "k=v").unwrap();
    assert!(is_nothing(&[tree.path().to_owned()]));
    let out = place.path().join("out");
    split(tree.path(), &out, &["--view", "merged/gfx90a", "--view", "thin/gfx90a"]);
    for view in ["merged/gfx90a", "thin/gfx90a"] {
        for against in [None, Some(tree.path())] {
            assert_eq!(check(out.join(view), against).findings, [], "{view}");
        }
    }
    fs::remove_file(out.join("merged/gfx90a/lib/y.so")).unwrap();
    let found = check(out.join("merged/gfx90a"), None).findings;
    assert_eq!(found.iter().map(|it| it.rule).collect::<Vec<_>>(), [Rule::OrphanEntry]);
}

/// The libraries of a split have no code for a GPU of which there are databases only.
#[test]
fn a_gpu_may_have_databases_only() {
    let (tree, place) = (tree(), tempfile::tempdir().unwrap());
    fs::write(tree.path().join("lib/rocblas/library/TensileLibrary_gfx906.dat"), b"\x91\xaafor gfx906").unwrap();
    let out = |name: &str| place.path().join(name);
    split(tree.path(), &out("all"), &[]);
    split(tree.path(), &out("one"), &["--gpu-targets", "gfx906"]);
    split(&out("one"), &out("again"), &[]);
    for (split, parts) in [("one", 0), ("again", 0), ("one", 2), ("again", 2), ("all", 2)] {
        let parts: Vec<_> = ["host", "gfx906"].iter().take(parts).map(|part| out(split).join(part)).collect();
        let named = if parts.is_empty() { vec![out(split)] } else { parts };
        assert_eq!(verify(&named, None, &VerifyOptions::default()).findings, [], "{named:?}");
    }
    fs::remove_file(out("all/gfx90a/.kpack/rocm_gfx90a.kpack")).unwrap();
    for parts in [&["all"][..], &["all/host", "all/gfx90a"]] {
        let named: Vec<_> = parts.iter().map(|part| out(part)).collect();
        let found = verify(&named, None, &VerifyOptions::default()).findings;
        assert!(found.iter().any(|it| it.rule == Rule::ListedMissing), "{found:?}");
    }
}
