//! Installations that are compared with the fat input: what is installed next to the split is no difference.

use std::fs;
use std::path::{Path, PathBuf};

use kpackfs::resources::Resources;
use kpackfs::split::Targets;
use kpackfs::verify::{Check, Finding, Rule, VerifyOptions};
use tempfile::TempDir;

use crate::common::put;
use crate::verify::installations::{DATABASE, fat, installed, two_splits, wheel, wheels};
use crate::verify::nothing::is_nothing;
use crate::verify::splits::{copy, verify};
use crate::verify::wheels::split;

fn against(site: &Path, fat: &Path) -> Vec<Finding> {
    verify(&[site.to_owned()], Some(fat), &VerifyOptions::default()).findings
}

fn has(findings: &[Finding], rule: Rule, path: &str) -> bool {
    findings.iter().any(|it| it.rule == rule && it.path.contains(path))
}

/// A distribution of these files, next to a split.
fn neighbour(site: &Path, files: &[&str]) {
    let dist_info = site.join("needed-1.0.dist-info");
    put(dist_info.join("METADATA"), "Metadata-Version: 2.1\nName: needed\nVersion: 1.0\n");
    put(dist_info.join("RECORD"), &(files.join(",,\n") + ",,\n"));
    for file in files {
        put(site.join(file), "");
    }
}

/// The wheels of one GPU.
fn of_gpu(out: &TempDir, name: &str, gpu: &str) -> Vec<PathBuf> {
    [format!("{name}-"), format!("amd_{name}_device_{gpu}-")].map(|start| wheel(out, &start)).into()
}

/// The installation of the split of `fat` for one GPU.
fn site_of(fat: &Path) -> TempDir {
    installed(&of_gpu(&wheels(fat, &[]), "fat", "gfx90a"))
}

/// The installation of a thin wheel.
fn thin_site_of(fat: &Path) -> TempDir {
    let out = tempfile::tempdir().unwrap();
    let of_gpu = out.path().join("thin/gfx90a");
    split(fat, &out.path().join("thin"), &["--format", "thin-wheel", "--view", "gfx90a"]);
    installed(&[fs::read_dir(of_gpu).unwrap().next().unwrap().unwrap().path()])
}

#[test]
fn other_distributions_may_have_code_for_further_gpus() {
    let (fats, outs) = two_splits();
    let further = wheel(&outs[1], "amd_other_device_gfx1030-");
    let site =
        installed(&[of_gpu(&outs[0], "fat", "gfx90a"), of_gpu(&outs[1], "other", "gfx90a"), vec![further]].concat());
    for fat in &fats {
        assert_eq!(against(site.path(), fat.path()), []);
    }
    fs::remove_file(site.path().join("fat/.kpack/fat_gfx90a.kpack")).unwrap();
    assert!(has(&against(site.path(), fats[0].path()), Rule::AgainstCodeLost, "fat/plain.so"));
}

#[test]
fn a_namespace_has_directories_of_others() {
    let fat = fat();
    let site = site_of(fat.path());
    neighbour(site.path(), &["fat/plugins/deep/needed.py"]);
    assert_eq!(against(site.path(), fat.path()), []);
    fs::create_dir(site.path().join("fat/plugins/stray")).unwrap();
    put(site.path().join("fat/plugins/deep/stray.py"), "");
    let found = against(site.path(), fat.path());
    assert!(found.len() == 2 && has(&found, Rule::AgainstAdded, "plugins/stray"), "{found:?}");
    assert!(has(&found, Rule::AgainstAdded, "deep/stray.py"), "{found:?}");
}

#[test]
fn an_installation_of_one_distribution_is_no_unpacked_wheel() {
    let fat = fat();
    let site = thin_site_of(fat.path());
    put(site.path().join("app/main.py"), "");
    assert!(has(&against(site.path(), fat.path()), Rule::AgainstAdded, "app/main.py"), "an unpacked wheel");
    for name in ["INSTALLER", "REQUESTED", "direct_url.json"] {
        let left = site.path().join("fat-1.0.dist-info").join(name);
        fs::write(&left, "").unwrap();
        assert_eq!(against(site.path(), fat.path()), [], "{name}");
        put(site.path().join("fat/stray.py"), "");
        assert!(has(&against(site.path(), fat.path()), Rule::AgainstAdded, "fat/stray.py"), "{name}");
        fs::remove_file(site.path().join("fat/stray.py")).unwrap();
        fs::remove_file(left).unwrap();
    }
}

const CACHED: &str = "fat/__pycache__/version.cpython-312.pyc";
/// A module without a source.
const MODULE: &str = "fat/only.pyc";

/// A fat wheel that has compiled files, and is unpacked.
fn fat_with_compiled(cached: &str) -> TempDir {
    let fat = fat();
    put(fat.path().join(CACHED), cached);
    put(fat.path().join(MODULE), "only");
    fat
}

#[test]
fn python_compiles_files_again() {
    let fat = fat_with_compiled("of the wheel");
    for site in [site_of(fat.path()), thin_site_of(fat.path())] {
        // RECORD states digests of them.
        let found = || {
            let mut found = against(site.path(), fat.path());
            found.retain(|it| it.check == Check::Against);
            found
        };
        put(site.path().join(CACHED), "of pip");
        put(site.path().join("fat/version.pyc"), "of compileall -b");
        put(site.path().join("fat/__pycache__/version.cpython-312.opt-1.pyc"), "of python -O");
        assert_eq!(found(), []);
        fs::remove_dir_all(site.path().join("fat/__pycache__")).unwrap();
        assert_eq!(found(), [], "--no-compile");
        put(site.path().join("fat/stray.pyc"), "");
        assert!(has(&found(), Rule::AgainstAdded, "fat/stray.pyc"));
        put(site.path().join(MODULE), "more");
        assert!(has(&found(), Rule::AgainstChanged, MODULE));
        fs::remove_file(site.path().join(MODULE)).unwrap();
        assert!(has(&found(), Rule::AgainstLost, MODULE));
    }
}

#[test]
fn compiled_files_of_what_nobody_installed_are_compared() {
    let (fat, other) = (fat_with_compiled("of the wheel"), fat_with_compiled("of another wheel"));
    let out = wheels(fat.path(), &[]);
    split(fat.path(), &out.path().join("parts"), &[]);
    for place in ["wheels", "parts"] {
        let found = || against(&out.path().join(place), other.path());
        assert!(has(&found(), Rule::AgainstChanged, CACHED), "{place}");
        let installer = other.path().join("fat-1.0.dist-info/INSTALLER");
        fs::write(&installer, "pip").unwrap();
        assert_eq!(found(), [], "{place}");
        fs::remove_file(installer).unwrap();
    }
}

/// The unpacked wheel of another build, and the wheels of its split in the same directory.
fn further_build(fat: &TempDir, out: &TempDir, change: impl Fn(&Path)) {
    let other = fat_with_compiled("");
    change(other.path());
    put(other.path().join("fat/version.py"), "version = 2\n");
    let of_other = wheels(other.path(), &[]);
    for entry in fs::read_dir(of_other.path().join("wheels")).unwrap() {
        let path = entry.unwrap().path();
        copy(&path, &out.path().join("wheels").join(path.file_name().unwrap()));
    }
    assert_ne!(against(&of_other.path().join("wheels"), fat.path()), [], "alone, it does not fit");
}

#[test]
fn builds_for_another_python_are_no_other_splits() {
    let fat = fat();
    let tag = |at: &Path| {
        let path = at.join("fat-1.0.dist-info/WHEEL");
        fs::write(&path, fs::read_to_string(&path).unwrap().replace("py3-none-any", "cp313-cp313-any")).unwrap();
    };
    let version = |at: &Path| {
        fs::rename(at.join("fat-1.0.dist-info"), at.join("fat-2.0.dist-info")).unwrap();
        let path = at.join("fat-2.0.dist-info/METADATA");
        fs::write(&path, fs::read_to_string(&path).unwrap().replace("Version: 1.0", "Version: 2.0")).unwrap();
    };
    for change in [&tag as &dyn Fn(&Path), &version] {
        let out = wheels(fat.path(), &[]);
        further_build(&fat, &out, change);
        let place = out.path().join("wheels");
        let report = verify(std::slice::from_ref(&place), Some(fat.path()), &VerifyOptions::default());
        let found: Vec<_> = report.findings.iter().filter(|it| it.check == Check::Against).collect();
        let [other] = *found else { panic!("{found:?}") };
        assert!(
            other.rule == Rule::AgainstMissing && other.reason.contains("in another version or for another Python")
        );
        let host = wheel(&out, "fat-1.0-py3");
        fs::remove_file(host).unwrap();
        assert!(has(&against(&place, fat.path()), Rule::AgainstChanged, "fat/version.py"));
    }
}

/// Parts that two runs made of the same input, the second for gfx1100. `statement` is that of the part for it.
fn parts_of_two_runs(fat: &Path, statement: &str) {
    let out = tempfile::tempdir().unwrap();
    let runs = ["gfx90a", "gfx1100"].map(|gpu| {
        split(fat, &out.path().join(gpu), &["--gpu-targets", gpu]);
        out.path().join(gpu)
    });
    let parts = ["gfx1100", "gfx11"].map(|name| runs[1].join(name));
    let paths = [vec![runs[0].join("host"), runs[0].join("gfx90a")], parts.to_vec()].concat();
    let default = VerifyOptions::default();
    let found = |options: &VerifyOptions| verify(&paths, Some(fat), options).findings;
    assert_eq!(found(&default), []);
    let targets = Targets { wanted: Some(vec!["gfx90a".parse().unwrap()]), ..Targets::default() };
    let said = VerifyOptions { targets, ..default.clone() };
    assert!(has(&found(&said), Rule::AgainstPlace, DATABASE), "the user's choice stands");
    let statement = runs[1].join(statement);
    let text = fs::read_to_string(&statement).unwrap();
    let start = text.find("split_id").unwrap() + 12;
    fs::write(&statement, [&text[..start], "0123456789abcdef", &text[start + 16..]].concat()).unwrap();
    assert!(has(&found(&default), Rule::AgainstPlace, DATABASE), "a part of another split");
    fs::write(&statement, text).unwrap();
    fs::remove_file(runs[1].join("gfx1100").join(DATABASE)).unwrap();
    assert!(has(&found(&default), Rule::AgainstLost, DATABASE));
}

#[test]
fn parts_of_two_runs_are_one_split() {
    let fat = fat();
    parts_of_two_runs(fat.path(), "gfx1100/amd_fat_device_gfx1100-1.0.dist-info/kpackfs.json");
    fs::remove_dir_all(fat.path().join("fat-1.0.dist-info")).unwrap();
    parts_of_two_runs(fat.path(), ".kpackfs/split.json");
}

#[test]
fn a_site_with_nothing_in_it_is_none() {
    let fat = fat();
    let venv = tempfile::tempdir().unwrap();
    let packages = |version: &str| venv.path().join("lib").join(version).join("site-packages");
    put(venv.path().join("pyvenv.cfg"), "");
    fs::create_dir_all(packages("python3.12").parent().unwrap()).unwrap();
    fs::create_dir_all(packages("python3.13")).unwrap();
    fs::rename(site_of(fat.path()).keep(), packages("python3.12")).unwrap();
    assert_eq!(against(venv.path(), fat.path()), []);
    fs::remove_dir_all(packages("python3.12")).unwrap();
    fs::create_dir(packages("python3.12")).unwrap();
    assert!(is_nothing(&[venv.path().to_owned()]), "all are empty");
}

#[test]
fn a_distribution_without_code_may_be_there_as_it_was() {
    let (fat, needed, resources) = (fat(), tempfile::tempdir().unwrap(), Resources::new(64 << 20));
    let site = site_of(fat.path());
    neighbour(site.path(), &["needed.py"]);
    neighbour(needed.path(), &["needed.py"]);
    put(needed.path().join("needed-1.0.dist-info/WHEEL"), "Wheel-Version: 1.0\nTag: py3-none-any\n");
    let found = |version: &str| {
        let metadata = needed.path().join("needed-1.0.dist-info/METADATA");
        put(metadata, format!("Metadata-Version: 2.1\nName: needed\nVersion: {version}\n"));
        let (site, fats) = ([site.path().to_owned()], [&fat, &needed].map(|it| it.path().to_owned()));
        crate::verify::splits::try_verify(&site, &fats, &VerifyOptions::default(), &resources).unwrap().findings
    };
    assert_eq!(found("1.0"), []);
    assert!(has(&found("2.0"), Rule::AgainstOther, ""));
    fs::copy("tests/fixtures/plain.so", needed.path().join("plain.so")).unwrap();
    assert!(has(&found("1.0"), Rule::AgainstOther, ""), "its code is lost");
}

#[test]
fn the_fat_input_may_be_an_environment() {
    let fat = fat();
    let site = site_of(fat.path());
    let venv = tempfile::tempdir().unwrap();
    put(venv.path().join("pyvenv.cfg"), "");
    put(venv.path().join("bin/activate"), "");
    let packages = |version: &str| venv.path().join("lib").join(version).join("site-packages");
    fs::create_dir_all(packages("python3.12").parent().unwrap()).unwrap();
    fs::rename(fat.keep(), packages("python3.12")).unwrap();
    assert_eq!(against(site.path(), venv.path()), []);
    let out = tempfile::tempdir().unwrap();
    split(venv.path(), &out.path().join("out"), &[]);
    assert_eq!(against(&out.path().join("out"), venv.path()), [], "the split of all of it");
    put(packages("python3.13").join("needed.py"), "");
    let resources = Resources::new(64 << 20);
    let run = |against: &Path| {
        let paths = [site.path().to_owned()];
        let report =
            crate::verify::splits::try_verify(&paths, &[against.to_owned()], &VerifyOptions::default(), &resources);
        report.unwrap_err().to_string()
    };
    assert!(run(venv.path()).contains("it has several directories of packages"));
    let wheels = wheels(&packages("python3.12"), &[]);
    assert!(run(&wheels.path().join("wheels")).contains("the host wheel of a split is no fat input"));
}

/// pip makes no directories of a wheel, and the wheels of a split have none.
#[test]
fn empty_directories_of_a_wheel_are_no_part_of_it() {
    let fat = fat();
    fs::create_dir_all(fat.path().join("fat/plugins/none")).unwrap();
    let out = wheels(fat.path(), &[]);
    assert_eq!(against(&out.path().join("wheels"), fat.path()), []);
    assert_eq!(against(site_of(fat.path()).path(), fat.path()), []);
}

#[test]
fn devices_of_two_runs_in_one_installation() {
    let fat = fat();
    let [one, other] = ["gfx90a", "gfx1100"].map(|gpu| wheels(fat.path(), &["--gpu-targets", gpu]));
    let of_other = ["amd_fat_device_gfx1100", "amd_fat_device_gfx11-"].map(|name| wheel(&other, name));
    let site = installed(&[&[wheel(&one, "fat-"), wheel(&one, "amd_fat_device_gfx90a")], &of_other[..]].concat());
    assert_eq!(against(site.path(), fat.path()), []);
    fs::remove_file(site.path().join(DATABASE)).unwrap();
    assert!(has(&against(site.path(), fat.path()), Rule::AgainstLost, DATABASE));
}
