//! What is next to a split without being of it, or is not where it was made: `verify` finds nothing in these.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use kpackfs::opened::is_not_understood;
use kpackfs::resources::Resources;
use kpackfs::verify::{Rule, VerifyOptions, VerifyReport};

use crate::common::copy_all;
use crate::verify::installations::{HOST, fat, installed_by_pip};
use crate::verify::nothing::is_nothing;
use crate::verify::splits::{copy, edit, try_verify, verify, write_at};
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

/// A directory of packages with `.pth` files is one nevertheless, and not what an environment has next to its packages.
#[test]
fn a_site_with_added_directories_has_the_fat_wheel() {
    let (fat, added) = (fat(), tempfile::tempdir().unwrap());
    let site = installed_by_pip(fat.path(), &[], &["gfx1100", "gfx11"]);
    fs::create_dir(added.path().join("mine-1.0.dist-info")).unwrap();
    fs::write(added.path().join("mine.py"), "").unwrap();
    fs::write(site.path().join("mine.pth"), format!("{}\n", added.path().display())).unwrap();
    let against = || verify(&[site.path().to_owned()], Some(fat.path()), &VerifyOptions::default());
    let found = against();
    assert_eq!(found.findings, []);
    assert!(found.counts.compared_files.get() > 0);
    fs::remove_file(site.path().join("fat/version.py")).unwrap();
    assert!(rules(&against()).contains(&Rule::AgainstLost));
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
    assert_eq!(rules(&report(site.path())), []);
}

/// A runtime looks for archives next to a library. So what is installed in another directory is no part of a split, though it
/// is named with it.
#[test]
fn device_parts_of_another_installation() {
    let fat = fat();
    let (host, devices) =
        (installed_by_pip(fat.path(), &[], &[]), installed_by_pip(fat.path(), &[], &["gfx90a", "gfx1100", "gfx11"]));
    let files = fs::read_to_string(devices.path().join(HOST).join("RECORD")).unwrap();
    for file in files.lines().filter_map(|line| line.split(',').next()) {
        let _elsewhere = fs::remove_file(devices.path().join(file));
    }
    fs::remove_dir_all(devices.path().join(HOST)).unwrap();
    for paths in [[host.path(), devices.path()], [devices.path(), host.path()]] {
        let report = verify(&paths.map(Path::to_owned), None, &VerifyOptions::default());
        let expected = [Rule::DistributionMissing, Rule::NoCode];
        assert!(expected.iter().all(|rule| rules(&report).contains(rule)), "{:?}", report.findings);
    }
}

/// The parts of a split have their files where these are installed, and not where the parts are.
#[test]
fn splits_in_trees() {
    let fat = fat();
    let site = installed_by_pip(fat.path(), &[], &["gfx90a"]);
    split(fat.path(), &site.path().join("build"), &[]);
    let found = report(site.path());
    assert_eq!(found.findings, []);
    let note = "build: a split in a tree or an installation is not checked with it; name it to check it";
    assert!(found.notes.iter().any(|it| it == note), "{:?}", found.notes);

    let place = tempfile::tempdir().unwrap();
    split(fat.path(), &place.path().join("tree/build"), &[]);
    let at = |name: &str| place.path().join(name);
    for (name, from) in [("of-parent.tar", at("tree")), ("of-split.tar", at("tree/build"))] {
        let packed =
            Command::new("tar").args(["-cf".as_ref(), at(name).as_path(), "-C".as_ref(), &from, ".".as_ref()]).status();
        assert!(packed.unwrap().success());
    }
    for name in ["tree", "of-parent.tar", "of-split.tar"] {
        let result = try_verify(&[at(name)], &[], &VerifyOptions::default(), &Resources::new(64 << 20));
        assert!(result.as_ref().is_err_and(is_not_understood), "{name}: {result:?}");
    }
}

/// A split is left out of all that it may be in, however that is named, and of the fat input. Here each of them is damaged.
#[test]
fn splits_are_left_out_of_each_form() {
    let (fat, place) = (fat(), tempfile::tempdir().unwrap());
    let build = place.path().join("build");
    split(fat.path(), &build, &["--view", "host", "--view", "gfx90a", "--view", "thin/gfx90a"]);
    write_at(&build.join("gfx90a/fat/.kpack/fat_gfx90a.kpack"), 0, b"x");
    let sites = [(); 2].map(|()| installed_by_pip(fat.path(), &[], &["gfx90a"]));
    let paths = sites.each_ref().map(|site| site.path().to_owned());
    for with in paths.iter().chain([&fat.path().to_owned()]) {
        copy_all(&build, with.join("fat/build"));
    }
    let check = |paths: &[PathBuf], against: Option<&Path>| {
        let found = verify(paths, against, &VerifyOptions::default());
        assert_eq!(found.findings, [], "{paths:?} {against:?}");
        let is_note = |note: &String| note.contains("fat/build: a split in a tree or an installation is not checked");
        assert!(found.notes.iter().any(is_note), "{paths:?}: {:?}", found.notes);
    };
    for against in [None, Some(fat.path())] {
        check(&paths, against);
        check(&paths[..1], against);
    }
    // The fat input has more of it.
    fs::remove_dir_all(paths[0].join("fat/build/thin")).unwrap();
    symlink("/nothing", paths[0].join("fat/build/gfx90a/fat/.kpack/other.kpack")).unwrap();
    check(&paths[..1], Some(fat.path()));
    let again = place.path().join("again");
    split(fat.path(), &again.join("of-tree"), &[]);
    check(&[again.join("of-tree")], None);
    check(&[again.join("of-tree")], Some(fat.path()));
    check(&[again.join("of-tree/host"), again.join("of-tree/gfx90a")], None);
}
