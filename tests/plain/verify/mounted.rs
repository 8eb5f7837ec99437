//! Mounts, copies of mounts, and their entries named one by one. The trees are those of mounts, on a disk.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use kpackfs::resources::Resources;
use kpackfs::verify::{Rule, VerifyOptions, VerifyReport};
use tempfile::TempDir;

use crate::common::put;
use crate::verify::healthy::files;
use crate::verify::installations;
use crate::verify::nothing::{OF_HOST, is_nothing};
use crate::verify::splits::{copy, edit, verify};
use crate::verify::views::{fat, shown};
use crate::verify::wheels::{split, unpacked};

fn check(paths: &[PathBuf]) -> VerifyReport {
    verify(paths, None, &VerifyOptions::default())
}

fn has(report: &VerifyReport, rule: Rule, path: &str) -> bool {
    report.findings.iter().any(|it| it.rule == rule && it.path.contains(path))
}

/// A tree of these fixtures.
fn tree(fixtures: &[&str]) -> TempDir {
    let tree = tempfile::tempdir().unwrap();
    for name in fixtures {
        copy(&Path::new("tests/fixtures").join(name), &tree.path().join("lib").join(name));
    }
    tree
}

fn with_extension(paths: Vec<PathBuf>, extension: &str) -> impl Iterator<Item = PathBuf> {
    paths.into_iter().filter(move |path| path.extension().is_some_and(|it| it == extension))
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
fn a_mount_of_several_wheels_has_several_splits() {
    let fat = installations::fat();
    let mount = tempfile::tempdir().unwrap();
    // The name of a view is not that of a distribution.
    let name = "fat_/1.0/py3-none-any";
    let place = mount.path().join(name);
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    split(fat.path(), &place, &[]);
    let statement = fs::read(place.join(".kpackfs/split.json")).unwrap();
    split(fat.path(), &place, &["--view", "merged/gfx90a"]);
    fs::write(place.join(".kpackfs/split.json"), statement).unwrap();
    split(fat.path(), &mount.path().join("wheels"), &["--format", "wheel"]);
    fs::create_dir(mount.path().join(".kpackfs")).unwrap();
    fs::write(mount.path().join(".kpackfs/status.json"), "{}").unwrap();
    // Nothing was split in one of the others.
    let unsplit = mount.path().join("plain/1.0/py3-none-any");
    put(unsplit.join("host/notes"), b"for everybody");
    put(unsplit.join(".kpackfs/split.json"), OF_HOST.as_bytes());
    assert!(is_nothing(&[unsplit]));
    for path in [mount.path(), &place] {
        let report = check(&[path.to_owned()]);
        assert_eq!(report.findings, [], "{}", path.display());
        assert!(report.counts.binaries.get() > 2 && report.counts.archives.get() > 4, "{report:?}");
        assert!(report.notes.iter().any(|note| note.contains("of a mount show what")), "{:?}", report.notes);
    }
    edit(&place.join("host/fat/version.py"), |text| text.push(b'#'));
    let label = format!("{name}/host/fat/version.py");
    assert!(has(&check(&[mount.path().to_owned()]), Rule::FileChanged, &label));
    fs::remove_dir_all(place.join("gfx90a")).unwrap();
    assert!(has(&check(&[mount.path().to_owned()]), Rule::PartMissing, "gfx90a"));
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

#[test]
fn parts_of_a_mount_can_be_named_one_by_one() {
    let fat = fat();
    for arch in [&[][..], &["gfx90a"], &["gfx1030", "gfx1100"]] {
        let out = shown(fat.path(), arch);
        let at = |name: &str| out.path().join(name);
        split(fat.path(), &at("wheels"), &["--format", "wheel"]);
        fs::create_dir(at("device")).unwrap();
        for name in ["gfx90a", "gfx1030", "gfx1100"] {
            symlink(format!("../{name}"), at("device").join(name)).unwrap();
        }
        let linked = at("device").join("gfx90a");
        for paths in [entries(out.path()), vec![at("host"), at("gfx90a"), at("gfx1030")], vec![at("host"), linked]] {
            assert_eq!(check(&paths).findings, [], "{arch:?}: {paths:?}");
        }
        // Two parts of one name: only that next to the host part belongs to it.
        let copied = tempfile::tempdir().unwrap();
        let cp = std::process::Command::new("cp").arg("-a").arg(at("gfx90a")).arg(copied.path()).status().unwrap();
        let report = check(&[at("host"), at("gfx90a"), copied.path().join("gfx90a")]);
        assert!(cp.success() && !report.findings.is_empty(), "{arch:?}");
        if arch.contains(&"gfx90a") {
            let path = "amd_fat_device_gfx90a-1.0.dist-info/METADATA";
            edit(&at("host").join(path), |text| text.push(b'\n'));
            let report = check(&[at("host"), at("gfx1030"), at("gfx90a")]);
            assert!(has(&report, Rule::OverlayDiffers, path), "{:?}", report.findings);
        }
    }
}

/// A tree has no METADATA that tells which parts belong together.
#[test]
fn all_entries_of_the_mount_of_a_tree() {
    let fat = tree(&["plain.so"]);
    let out = tempfile::tempdir().unwrap();
    split(fat.path(), &out.path().join("m"), &[]);
    let place = out.path().join("m");
    fs::create_dir(place.join("device")).unwrap();
    for part in entries(&place).iter().filter(|path| !path.ends_with("host") && !path.ends_with("device")) {
        let name = part.file_name().unwrap().to_str().unwrap();
        symlink(format!("../{name}"), place.join("device").join(name)).unwrap();
    }
    let report = check(&entries(&place));
    assert_eq!((&*report.findings, report.counts.archives.get() > 0), (&[][..], true));
    // A directory of this name with files in it is a part.
    fs::create_dir(place.join("device/.kpack")).unwrap();
    fs::write(place.join("device/.kpack/rocm_gfx942.kpack"), "KPAK").unwrap();
    assert!(!check(&entries(&place)).findings.is_empty());
}

/// Nothing in a copy says with which options the mount was made.
#[test]
fn a_copy_of_a_mount_with_arch_is_no_damage() {
    for fat in [tree(&["plain.so", "mixed.so"]), fat()] {
        for arch in [&["gfx90a"][..], &["gfx1030", "gfx1100"]] {
            let copy = shown(fat.path(), arch);
            let at = |name: &str| copy.path().join(name);
            fs::remove_dir_all(at(".kpackfs")).unwrap();
            for paths in [vec![copy.path().to_owned()], vec![at("host"), at("gfx90a"), at("gfx1030"), at("gfx1100")]] {
                let report = check(&paths);
                assert_eq!(report.findings, [], "{arch:?}: {paths:?}");
                let notes = report.notes.iter().filter(|note| note.contains("as in a mount with `--arch`"));
                assert_eq!(notes.count(), arch.len(), "{:?}", report.notes);
            }
            let last = with_extension(files(&at("host")), "kpack")
                .filter(|path| path.to_str().unwrap().contains(arch[0]))
                .max()
                .unwrap();
            let name = last.file_name().unwrap().to_str().unwrap();
            edit(&last, |bytes| *bytes.last_mut().unwrap() ^= 1);
            let report = check(&[copy.path().to_owned()]);
            assert!(has(&report, Rule::OverlayDiffers, name), "{:?}", report.findings);
            edit(&last, |bytes| *bytes.last_mut().unwrap() ^= 1);
            edit(&last, |bytes| bytes.push(0));
            let report = check(&[copy.path().to_owned()]);
            assert!(has(&report, Rule::DeviceFileInHost, name), "{:?}", report.findings);
        }
    }
}

/// The parts of a tree do not say whose they are.
#[test]
fn a_device_part_in_the_host_part_of_a_tree_is_damage() {
    let tree = tree(&["plain.so"]);
    let out = tempfile::tempdir().unwrap();
    split(tree.path(), &out.path().join("s"), &[]);
    let at = |path: &str| out.path().join("s").join(path);
    fs::remove_dir_all(at(".kpackfs")).unwrap();
    let cp = |from: &str, to: &str| {
        let status = std::process::Command::new("cp").arg("-r").arg(at(from)).arg(at(to)).status().unwrap();
        assert!(status.success());
    };
    // A directory with a name that could be that of a device part.
    cp("host", "old");
    assert_eq!(check(&[at("")]).findings, []);
    cp("gfx90a/.kpack", "host/.kpack");
    let report = check(&[at("")]);
    assert!(has(&report, Rule::DeviceFileInHost, "host/.kpack/"), "{:?}", report.findings);
}

#[test]
fn an_index_stands_for_its_wheels() {
    let (fat, other, out) = (installations::fat(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    unpacked(other.path(), "other", "2.0");
    let at = |path: &str| out.path().join(path);
    for (input, format) in [(fat.path(), "first"), (other.path(), "second")] {
        split(input, &at(format), &["--format", "index"]);
    }
    // An index of two splits.
    let project = |name: &str| at("second/simple").join(name);
    for path in entries(&at("second/simple")).iter().filter(|path| path.is_dir()) {
        fs::rename(path, at("first/simple").join(path.file_name().unwrap())).unwrap();
    }
    assert!(!project("other").exists());
    for path in ["first", "first/simple"] {
        let report = check(&[at(path)]);
        assert_eq!(report.findings, [], "{path}");
        assert!(report.counts.binaries.get() > 4 && report.counts.recorded_files.get() > 20, "{report:?}");
        for (fat, name) in [(fat.path(), "other"), (other.path(), "fat")] {
            let report = verify(&[at(path)], Some(fat), &VerifyOptions::default());
            let [left] = &*report.findings else { panic!("{path}: {:?}", report.findings) };
            assert!(left.rule == Rule::AgainstMissing && left.path.contains(&format!("/{name}-")), "{left}");
        }
    }
    let whl = |path: &str| with_extension(entries(&at(path)), "whl").max().unwrap();
    // The same wheels elsewhere are no second distribution.
    for wheel in with_extension(files(&at("first")), "whl") {
        fs::copy(&wheel, at("first").join(wheel.file_name().unwrap())).unwrap();
    }
    assert_eq!(check(&[at("first")]).findings, []);
    let copied = at("first").join(whl("first/simple/amd-fat-device-gfx90a").file_name().unwrap());
    split(fat.path(), &at("again"), &["--format", "wheel", "--compression", "none"]);
    fs::copy(at("again").join(copied.file_name().unwrap()), &copied).unwrap();
    assert!(!check(&[at("first")]).findings.is_empty());
    fs::create_dir(at("mounted")).unwrap();
    fs::rename(at("first/simple"), at("mounted/simple")).unwrap();
    fs::remove_file(&copied).unwrap();
    split(fat.path(), &at("mounted/wheels"), &["--format", "wheel"]);
    assert_eq!(check(&entries(&at("mounted"))).findings, []);
    fs::rename(at("mounted/simple"), at("first/simple")).unwrap();
    for wheel in entries(&at("first")).iter().filter(|it| it.is_file()) {
        fs::remove_file(wheel).unwrap();
    }
    // Releases of their own have equal host wheels, and each has its device wheels.
    split(fat.path(), &at("release"), &["--format", "wheel"]);
    assert_eq!(check(&[at("release"), at("again")]).findings, []);
    let device = |place: &str| at(place).join(copied.file_name().unwrap());
    let hosts = entries(&at("again")).into_iter().filter(|it| !it.to_str().unwrap().contains("device"));
    hosts.for_each(|host| fs::remove_file(host).unwrap());
    fs::copy(device("release"), device("again")).unwrap();
    assert!(!check(&[at("release"), at("again")]).findings.is_empty());
    // Wheels next to pages are checked as well, and those in a directory without a page.
    let wheel = whl("first/simple/fat");
    for place in ["first", "first/simple", "first/simple/nothing"] {
        fs::create_dir_all(at(place)).unwrap();
        let other = at(place).join("other_-1.0-py3-none-any.whl");
        fs::write(&other, &fs::read(&wheel).unwrap()[..1000]).unwrap();
        let (options, resources) = (VerifyOptions::default(), Resources::new(64 << 20));
        let error = crate::verify::splits::try_verify(&[at("first")], &[], &options, &resources);
        assert!(error.unwrap_err().to_string().contains("other_-1.0"), "{place}");
        fs::remove_file(other).unwrap();
    }
    fs::remove_file(whl("first/simple/amd-fat-device-gfx90a")).unwrap();
    assert!(has(&check(&[at("first")]), Rule::DistributionMissing, "fat-1.0"));
}

/// A copy of a mount of several wheels has no file that tells what it is.
#[test]
fn what_is_not_checked_is_named() {
    let fat = installations::fat();
    let copy = tempfile::tempdir().unwrap();
    // The name of a view is not that of a distribution.
    let place = copy.path().join("fat_/1.0/py3-none-any");
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    split(fat.path(), &place, &[]);
    split(fat.path(), &copy.path().join("wheels"), &["--format", "wheel"]);
    let notes = |path: &Path| {
        let report = check(&[path.to_owned()]);
        assert_eq!(report.findings, [], "{}", path.display());
        report.notes
    };
    let has =
        |notes: &[String], name: &str| notes.iter().any(|note| note.contains("not checked") && note.ends_with(name));
    assert!(has(&notes(copy.path()), ": fat_"));
    assert!(!notes(&place).iter().any(|note| note.contains("not checked") || note.contains("no manifest")));
    split(fat.path(), &place, &["--format", "index"]);
    assert!(has(&notes(&place), ": simple"));
}

#[test]
fn the_statement_of_another_split_is_noticed() {
    let fat = installations::fat();
    let out = tempfile::tempdir().unwrap();
    let tree = tree(&["plain.so"]);
    for (name, input) in [("wheel", fat.path()), ("tree", tree.path())] {
        let [one, other] = ["one", "other"].map(|it| out.path().join(name).join(it));
        split(input, &one, &[]);
        split(input, &other, &["--group", "other"]);
        let statement = ".kpackfs/split.json";
        assert_eq!(check(std::slice::from_ref(&other)).findings, []);
        fs::copy(one.join(statement), other.join(statement)).unwrap();
        let report = check(&[other]);
        assert!(has(&report, Rule::OtherSplit, statement), "{name}: {:?}", report.findings);
        assert_eq!(report.findings.len(), 1);
    }
}

#[test]
fn thin_forms_of_other_gpus_are_noticed() {
    let fat = installations::fat();
    let out = tempfile::tempdir().unwrap();
    let at = |path: &str| out.path().join(path);
    let gpus = ["gfx90a", "gfx1030"];
    let views = gpus.map(|gpu| ["--view".to_owned(), gpu.to_owned()]).concat();
    let views: Vec<_> = views.iter().map(String::as_str).collect();
    split(fat.path(), &at("w"), &[&["--format", "thin-wheel"], &*views].concat());
    split(fat.path(), &at("t"), &["--view", "thin/gfx90a", "--view", "thin/gfx1030"]);
    for (place, below) in [("w", ""), ("t", "thin")] {
        assert_eq!(check(&[at(place)]).findings, [], "{place}");
        let [one, other] = gpus.map(|gpu| at(place).join(below).join(gpu));
        fs::rename(&one, at("aside")).unwrap();
        fs::rename(&other, &one).unwrap();
        fs::rename(at("aside"), &other).unwrap();
        let report = check(&[at(place)]);
        let wrong = report.findings.iter().filter(|it| it.rule == Rule::WrongPart);
        assert_eq!((wrong.count(), report.findings.len()), (2, 2), "{place}: {:?}", report.findings);
    }
}

/// A manifest of an earlier split would be compared with what replaced its part.
#[test]
fn a_split_without_manifests_replaces_one_with_manifests() {
    let (tree, out) = (tree(&["plain.so"]), tempfile::tempdir().unwrap());
    split(tree.path(), out.path(), &[]);
    copy(Path::new("tests/fixtures/mixed.so"), &tree.path().join("lib/plain.so"));
    split(tree.path(), out.path(), &["--force", "--no-manifest"]);
    assert_eq!(check(&[out.path().to_owned()]).findings, []);
    split(tree.path(), out.path(), &["--force"]);
    let manifest = out.path().join(".kpackfs/manifests/gfx90a.json");
    assert!(manifest.exists());
    split(tree.path(), out.path(), &["--force", "--no-manifest", "--view", "gfx90a"]);
    assert!(!manifest.exists() && out.path().join(".kpackfs/manifests/host.json").exists());
    assert_eq!(check(&[out.path().to_owned()]).findings, []);
}

/// A view of an installation keeps the metadata of what was installed.
#[test]
fn views_of_an_installed_thin_wheel_are_no_wrong_part() {
    let fat = installations::fat();
    let out = tempfile::tempdir().unwrap();
    split(fat.path(), &out.path().join("thin"), &["--format", "thin-wheel", "--view", "gfx1100"]);
    let site = tempfile::tempdir().unwrap();
    let wheels = files(&out.path().join("thin"));
    let mut zip = zip::ZipArchive::new(fs::File::open(&wheels[0]).unwrap()).unwrap();
    zip.extract(site.path()).unwrap();
    unpacked(site.path(), "other", "2.0");
    split(site.path(), &out.path().join("s"), &["--view", "thin/gfx90a", "--view", "merged/gfx90a"]);
    let report = check(&[out.path().join("s")]);
    assert!(!report.findings.iter().any(|it| it.rule == Rule::WrongPart), "{:?}", report.findings);
}
