//! What is next to a split without being of it, or is not where it was made: `verify` finds nothing in these.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use kpackfs::verify::{Rule, VerifyOptions, VerifyReport};

use crate::verify::installations::{HOST, fat, installed_by_pip};
use crate::verify::nothing::is_nothing;
use crate::verify::splits::{copy, edit, verify};
use crate::verify::wheels::{split, unpacked};

fn report(path: &Path) -> VerifyReport {
    verify(&[path.to_owned()], None, &VerifyOptions::default())
}

fn rules(report: &VerifyReport) -> Vec<Rule> {
    report.findings.iter().map(|it| it.rule).collect()
}

/// Fat packages, and modules that programs compile when they run, work next to a split.
#[test]
fn device_code_of_others() {
    let fat = fat();
    let site = installed_by_pip(fat.path(), &[], &["gfx1100", "gfx11"]);
    unpacked(site.path(), "other", "2.0");
    fs::remove_file(site.path().join("other-2.0.dist-info/RECORD")).unwrap();
    copy(Path::new("tests/fixtures/plain.so"), &site.path().join("fat/jit/module.so"));
    fs::write(site.path().join("other/not-elf.so"), b"\x7fELF\x02\x01\x01 and nothing that follows, of a test")
        .unwrap();
    let found = report(site.path());
    assert_eq!(found.findings, []);
    let note = "3 binaries with device code of no split, such as fat/jit/module.so";
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

/// A `.pth` file may add a source tree with a fat extension. Named itself, such a tree was never split.
#[test]
fn device_code_in_added_directories() {
    let fat = fat();
    let site = installed_by_pip(fat.path(), &[], &["gfx1100", "gfx11"]);
    let source = tempfile::tempdir().unwrap();
    copy(Path::new("tests/fixtures/plain.so"), &source.path().join("mine/ext.so"));
    fs::create_dir(source.path().join("mine-1.0.dist-info")).unwrap();
    fs::write(site.path().join("mine.pth"), format!("{}\n", source.path().display())).unwrap();
    let found = report(site.path());
    assert_eq!(found.findings, []);
    assert!(
        found.notes.iter().any(|it| it.contains("1 binary with device code of no split, such as ")),
        "{:?}",
        found.notes
    );
    assert!(is_nothing(&[source.path().to_owned()]));
}

/// The restrictions of a split are in the host part, and device parts have statements as well.
#[test]
fn restricted_databases() {
    let fat = fat();
    copy(Path::new("tests/fixtures/plain.so"), &fat.path().join("fat/lib/libMIOpenCKGroupedConv_gfx90a.so"));
    let site = installed_by_pip(fat.path(), &["--databases", "rocblas"], &["gfx90a"]);
    let found = report(site.path());
    assert_eq!(found.findings, []);
    assert!(found.notes.iter().any(|it| it.contains("--databases rocblas")), "{:?}", found.notes);
}

/// `pip install --target` moves scripts to `bin`, and RECORD names another place, which another installation may use.
#[test]
fn scripts_of_other_installations() {
    let fat = fat();
    let place = tempfile::tempdir().unwrap();
    let packages = place.path().join("lib/app");
    fs::create_dir_all(packages.parent().unwrap()).unwrap();
    fs::rename(installed_by_pip(fat.path(), &[], &["gfx90a"]).keep(), &packages).unwrap();
    let script = |path: &Path, text: &str| crate::common::put(path, text);
    script(&place.path().join("bin/tool"), "of another");
    script(&packages.join("bin/tool"), "own");
    let dist_info = packages.join("tool-1.0.dist-info");
    fs::create_dir(&dist_info).unwrap();
    fs::write(dist_info.join("METADATA"), "Metadata-Version: 2.1\nName: tool\nVersion: 1.0\n").unwrap();
    // The SHA-256 of "own".
    let row = "../../bin/tool,sha256=Wzl1ZRw8q5LQRMCW3DChwtlSVJdFdHLeSMUeyzY9H0o,3\n";
    fs::write(dist_info.join("RECORD"), row).unwrap();
    let compared = |found: &VerifyReport| found.counts.recorded_files.get();
    let found = report(&packages);
    let number = compared(&found);
    assert_eq!((found.findings.as_slice(), found.counts.uncompared_files.get()), (&[] as &[_], 0));
    fs::remove_file(packages.join("bin/tool")).unwrap();
    let found = report(&packages);
    assert_eq!((found.findings.as_slice(), compared(&found)), (&[] as &[_], number - 1));
    assert!(found.notes.iter().any(|it| it.contains("../../bin/tool")), "{:?}", found.notes);
    // That of the split itself is judged.
    edit(&packages.join(HOST).join("RECORD"), |it| it.extend_from_slice(row.as_bytes()));
    assert_eq!(rules(&report(&packages)), [Rule::FileChanged]);
}

/// A split of an installation keeps the dist-info of all device parts in each of its views, also where these are copied.
#[test]
fn views_of_installed_splits() {
    let fat = fat();
    fs::write(fat.path().join("fat/lib/rocblas/library/TensileLibrary_gfx1201.dat"), b"\x91\xabfor gfx1201").unwrap();
    let site = installed_by_pip(fat.path(), &[], &["gfx1201", "gfx1100", "gfx11"]);
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("out");
    split(site.path(), &out, &["--view", "thin/gfx1100", "--view", "merged/gfx1201"]);
    assert_eq!(report(&out).findings, []);
    let moved = place.path().join("moved");
    fs::rename(out.join("thin/gfx1100"), &moved).unwrap();
    let options = VerifyOptions { thin: Some("gfx1100".parse().unwrap()), ..VerifyOptions::default() };
    let thin = |path: &Path| verify(&[path.to_owned()], None, &options);
    assert_eq!(thin(&moved).findings, []);
    edit(&moved.join("fat/version.py"), |it| it.push(b'#'));
    assert_eq!(rules(&thin(&moved)), [Rule::FileChanged]);
}

/// `cp -L` and `unzip` make files of the symlinks to a library.
#[test]
fn copies_that_follow_symlinks() {
    let fat = tempfile::tempdir().unwrap();
    copy(Path::new("tests/fixtures/plain.so"), &fat.path().join("lib/libplain.so.1.0"));
    symlink("libplain.so.1.0", fat.path().join("lib/libplain.so.1")).unwrap();
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("out");
    split(fat.path(), &out, &[]);
    let link = out.join("host/lib/libplain.so.1");
    assert!(link.is_symlink());
    fs::remove_file(&link).unwrap();
    fs::copy(out.join("host/lib/libplain.so.1.0"), &link).unwrap();
    assert_eq!(report(&out).findings, []);
    edit(&link, |it| it.push(0));
    assert_eq!(rules(&report(&out)), [Rule::Unlisted]);
}

/// pip leaves a directory with `~` in its name if it is interrupted, and ignores it. RECORD has the former name.
#[test]
fn what_pip_leaves_behind() {
    let fat = fat();
    let site = installed_by_pip(fat.path(), &[], &["gfx90a"]);
    let left = site.path().join("~at-1.0.dist-info");
    fs::create_dir(&left).unwrap();
    for name in ["METADATA", "RECORD", "kpackfs.json"] {
        fs::copy(site.path().join(HOST).join(name), left.join(name)).unwrap();
    }
    assert_eq!(rules(&report(site.path())), [Rule::DistributionTwice]);
}
