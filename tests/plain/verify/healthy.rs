//! Variants of splits that are as they should be: `verify` finds nothing, or the one thing that is true.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::slice;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kpackfs::metrics::Progress;
use kpackfs::resources::Resources;
use kpackfs::verify::{Rule, VerifyOptions};
use tempfile::TempDir;

use crate::verify::installations::{DEVICE, FAMILY, HOST, fat, installed, installed_by_pip, wheel, wheels};
use crate::verify::splits::{copy, verify, write_at};
use crate::verify::wheels::{split, unpacked};

/// A split installed for one GPU.
fn site(fat: &Path, options: &[&str]) -> TempDir {
    installed_by_pip(fat, options, &["gfx1100", "gfx11"])
}

/// All files below a directory.
pub(crate) fn files(directory: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[track_caller]
fn clean(path: &Path, against: Option<&Path>) {
    let report = verify(&[path.to_owned()], against, &VerifyOptions::default());
    assert_eq!(report.findings, [], "{}", path.display());
}

/// An installation that is split again keeps the RECORDs of its installer, and has code for its GPUs only.
#[test]
fn splits_of_an_installed_split() {
    let fat = fat();
    let site = site(fat.path(), &[]);
    let place = tempfile::tempdir().unwrap();
    let views = [
        ("all", &[][..]),
        ("thin", &["--view", "thin/gfx1100"]),
        ("merged", &["--view", "merged/gfx1100"]),
        ("some", &["--view", "host", "--view", "thin/gfx1100", "--view", "merged/gfx1100"]),
    ];
    for (name, options) in views {
        let out = place.path().join(name);
        split(site.path(), &out, options);
        for against in [None, Some(site.path()), Some(fat.path())] {
            clean(&out, against);
        }
    }
    write_at(&place.path().join("all/host/fat/version.py"), 0, b"#");
    let report = verify(&[place.path().join("all")], None, &VerifyOptions::default());
    assert!(report.findings.iter().any(|it| it.rule == Rule::FileChanged), "{:?}", report.findings);
}

#[test]
fn modes_that_an_installer_chooses() {
    let fat = fat();
    let site = site(fat.path(), &[]);
    for umask in [0o077, 0o002, 0o027] {
        for path in files(site.path()) {
            let is_executable = fs::metadata(&path).unwrap().permissions().mode() & 0o100 != 0;
            let mode = (if is_executable { 0o777 } else { 0o666 }) & !umask;
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
        clean(site.path(), Some(fat.path()));
    }
    // Zip files of other systems have such modes, which unzip restores.
    let out = site.path().join("out");
    split(fat.path(), &out, &[]);
    fs::set_permissions(out.join("host/fat/version.py"), fs::Permissions::from_mode(0o666)).unwrap();
    clean(&out, Some(fat.path()));
    fs::remove_dir_all(out).unwrap();
    fs::set_permissions(site.path().join("fat/version.py"), fs::Permissions::from_mode(0o755)).unwrap();
    let report = verify(&[site.path().to_owned()], Some(fat.path()), &VerifyOptions::default());
    assert!(report.findings.iter().any(|it| it.rule == Rule::AgainstMode), "{:?}", report.findings);
}

/// Packages, and directories of archives, on other disks.
#[test]
fn directories_behind_symlinks() {
    let fat = fat();
    let store = tempfile::tempdir().unwrap();
    for name in ["fat/.kpack", "fat"] {
        let site = site(fat.path(), &[]);
        let moved = store.path().join(name.replace('/', "_"));
        let copied = std::process::Command::new("mv").arg(site.path().join(name)).arg(&moved).status();
        assert!(copied.unwrap().success());
        symlink(&moved, site.path().join(name)).unwrap();
        clean(site.path(), None);
        clean(site.path(), Some(fat.path()));
    }
    let package = store.path().join("fat");
    fs::rename(package.join(".kpack"), store.path().join("archives")).unwrap();
    symlink("../archives", package.join(".kpack")).unwrap();
    let site = site(fat.path(), &[]);
    fs::remove_dir_all(site.path().join("fat")).unwrap();
    symlink(&package, site.path().join("fat")).unwrap();
    clean(site.path(), None);
}

/// Installers that save space make symlinks to the files of their caches. The mode of a symlink is always 0777.
#[test]
fn files_behind_symlinks() {
    let fat = fat();
    let (site, store) = (site(fat.path(), &[]), tempfile::tempdir().unwrap());
    let (installed, stored) = (site.path().join("fat/version.py"), store.path().join("version.py"));
    fs::copy(&installed, &stored).unwrap();
    fs::remove_file(&installed).unwrap();
    symlink(&stored, &installed).unwrap();
    clean(site.path(), Some(fat.path()));
}

/// The libraries of a fat wheel need not have code for each GPU of its databases. Without a manifest, archives may be lost.
#[test]
fn a_gpu_with_databases_only() {
    let fat = fat();
    fs::write(fat.path().join("fat/lib/rocblas/library/TensileLibrary_gfx1201.dat"), b"\x91\xabfor gfx1201").unwrap();
    for (options, expected) in [(&[] as &[&str], vec![]), (&["--no-manifest"], vec![Rule::NoCode])] {
        let out = wheels(fat.path(), options);
        let site = installed(&["fat-", "amd_fat_device_gfx1201"].map(|it| wheel(&out, it)));
        let report = verify(&[site.path().to_owned()], None, &VerifyOptions::default());
        let rules: Vec<_> = report.findings.iter().map(|it| it.rule).collect();
        assert_eq!(rules, expected, "{:?}", report.findings);
        assert!(!expected.is_empty() || report.notes.iter().any(|it| it.contains("no archive has code for any")));
    }
}

/// A requirement of device wheels may have the version of the split by chance.
#[test]
fn a_requirement_in_the_same_version() {
    let fat = fat();
    let site = site(fat.path(), &["--device-requires-dist", "rocm-sdk-device-@GFXARCH@ == 1.0"]);
    let metadata = fs::read_to_string(site.path().join(DEVICE).join("METADATA")).unwrap();
    assert!(metadata.contains("rocm-sdk-device-gfx1100"), "{metadata}");
    clean(site.path(), None);
}

/// A host distribution may require another one in its own version, and both are split.
#[test]
fn a_requirement_that_is_split_itself() {
    let (one, other) = (fat(), tempfile::tempdir().unwrap());
    unpacked(other.path(), "numpy", "1.0");
    fs::write(other.path().join("numpy/version.py"), "version = '1.0'\n").unwrap();
    let splits = [&one, &other].map(|fat| wheels(fat.path(), &[]));
    let wheels = splits.iter().flat_map(|out| files(out.path())).collect::<Vec<_>>();
    let site = installed(&wheels);
    let metadata = fs::read_to_string(site.path().join(HOST).join("METADATA")).unwrap();
    assert!(metadata.contains("numpy==1.0"), "{metadata}");
    clean(site.path(), None);
}

/// The RECORD of rocm-kpack's splitters has hexadecimal digests.
#[test]
fn hexadecimal_digests_are_compared() {
    let fat = fat();
    let site = site(fat.path(), &[]);
    for name in [HOST, DEVICE, FAMILY] {
        let record = site.path().join(name).join("RECORD");
        let text = fs::read_to_string(&record).unwrap();
        let hexadecimal = |line: &str| match line.split_once(",sha256=") {
            Some((path, rest)) => {
                let (digest, length) = rest.split_once(',').unwrap();
                let mut bytes = [0; 32];
                URL_SAFE_NO_PAD.decode_slice(digest, &mut bytes).unwrap();
                let digits = bytes.map(|byte| format!("{byte:02x}")).concat();
                format!("{path},sha256={digits},{length}\n")
            }
            None => format!("{line}\n"),
        };
        fs::write(&record, text.lines().map(hexadecimal).collect::<Vec<_>>().concat()).unwrap();
    }
    let rules = || {
        let report = verify(&[site.path().to_owned()], None, &VerifyOptions::default());
        report.findings.iter().map(|it| it.rule).collect::<Vec<_>>()
    };
    assert_eq!(rules(), [Rule::RecordForm; 3]);
    write_at(&site.path().join("fat/version.py"), 0, b"#");
    assert_eq!(rules().iter().filter(|rule| **rule == Rule::FileChanged).count(), 1);
}

/// Installers' files are none of the split's.
#[test]
fn a_deleted_installer_file_is_noted() {
    let fat = fat();
    let site = site(fat.path(), &[]);
    let record = site.path().join(HOST).join("RECORD");
    let text = fs::read_to_string(&record).unwrap();
    let name = format!("{HOST}/INSTALLER");
    fs::write(&record, format!("{text}{name},sha256=zuuue4knoyJ-UwPPXg8fezS7VCrXJQrAP7zeNuwvFQg,4\n")).unwrap();
    clean(site.path(), None);
    fs::remove_file(site.path().join(&name)).unwrap();
    let report = verify(&[site.path().to_owned()], None, &VerifyOptions::default());
    assert_eq!(report.findings, []);
    assert!(report.notes.iter().any(|note| note.contains(&name) && note.contains("installer")), "{:?}", report.notes);
    fs::remove_file(site.path().join(HOST).join("METADATA")).unwrap();
    let report = verify(&[site.path().to_owned()], None, &VerifyOptions::default());
    assert!(report.findings.iter().any(|it| it.rule == Rule::FileMissing), "{:?}", report.findings);
}

/// A prefix may hold anything next to packages, so it is a tree, and a note says what is not compared.
#[test]
fn records_in_a_prefix_are_noted() {
    let fat = fat();
    let prefix = tempfile::tempdir().unwrap();
    let packages = prefix.path().join("lib/python3.12/site-packages");
    fs::create_dir_all(packages.parent().unwrap()).unwrap();
    fs::rename(site(fat.path(), &[]).keep(), &packages).unwrap();
    let report = verify(&[prefix.path().to_owned()], None, &VerifyOptions::default());
    assert_eq!((report.findings.as_slice(), report.counts.recorded_files.get()), (&[] as &[_], 0));
    assert!(
        report
            .notes
            .iter()
            .any(|note| note.starts_with("3 RECORDs were not compared with files, such as lib/python3.12/")),
        "{:?}",
        report.notes
    );
    fs::create_dir(prefix.path().join("conda-meta")).unwrap();
    let report = verify(&[prefix.path().to_owned()], None, &VerifyOptions::default());
    assert!(report.counts.recorded_files.get() > 10);
    assert!(!report.notes.iter().any(|note| note.contains("RECORDs")), "{:?}", report.notes);
}

/// A virtual environment stands for its directories of packages, and for those that `.pth` files add.
#[test]
fn environments_are_compared_with_their_records() {
    let fat = fat();
    let place = tempfile::tempdir().unwrap();
    let environment = place.path().join("venv");
    let packages = environment.join("lib/python3.12/site-packages");
    fs::create_dir_all(packages.parent().unwrap()).unwrap();
    fs::write(environment.join("pyvenv.cfg"), "home = /usr/bin\n").unwrap();
    symlink("lib", environment.join("lib64")).unwrap();
    let check = || verify(slice::from_ref(&environment), None, &VerifyOptions::default());

    fs::rename(site(fat.path(), &[]).keep(), &packages).unwrap();
    let report = check();
    let compared = report.counts.recorded_files.get();
    assert!(report.findings.is_empty() && compared > 10, "{:?}", report.findings);
    write_at(&packages.join("fat/version.py"), 0, b"#");
    let report = check();
    let paths: Vec<_> = report.findings.iter().map(|it| it.path.as_str()).collect();
    assert_eq!(paths, ["lib/python3.12/site-packages/fat/version.py"]);

    let other = place.path().join("other");
    fs::rename(&packages, &other).unwrap();
    fs::create_dir(&packages).unwrap();
    fs::create_dir(place.path().join("source")).unwrap();
    let lines = format!("# other\nimport sys; sys.path\n\n{}\n../../../../source\nnone\n", other.display());
    fs::write(packages.join("other.pth"), lines).unwrap();
    for path in [&environment, &packages] {
        let report = verify(slice::from_ref(path), None, &VerifyOptions::default());
        assert_eq!(report.counts.recorded_files.get(), compared);
        let paths: Vec<_> = report.findings.iter().map(|it| it.path.clone()).collect();
        assert_eq!(paths, [other.join("fat/version.py").display().to_string()]);
        // A split of the environment leaves them out, so that nothing is known of their code.
        let inspected = assert_cmd::Command::cargo_bin("kpackfs").unwrap().arg("inspect").arg(path).assert().code(5);
        let said = String::from_utf8_lossy(&inspected.get_output().stderr).into_owned();
        assert!(said.contains("directories added by .pth files") && said.contains("other"), "{said}");
    }
}

/// The content of compressed bundles is read for their hashes.
#[test]
fn hashes_of_the_fat_input_are_part_of_the_progress() {
    let place = tempfile::tempdir().unwrap();
    let more = |name: &str| {
        let (fat, out) = (place.path().join(name), place.path().join(format!("{name}.split")));
        copy(&Path::new("tests/fixtures").join(name), &fat.join("x.so"));
        split(&fat, &out, &[]);
        let processed = |against: &[PathBuf]| {
            let (progress, resources) = (Progress::default(), Resources::new(64 << 20));
            let named = kpackfs::opened::recognise_all_unproved(slice::from_ref(&out)).unwrap();
            kpackfs::verify::verify(&named, against, &VerifyOptions::default(), &resources, &progress).unwrap();
            assert_eq!(progress.processed(), progress.all().0);
            progress.processed()
        };
        let of_comparison = processed(slice::from_ref(&fat)) - processed(&[]);
        of_comparison - fs::metadata(fat.join("x.so")).unwrap().len()
    };
    assert!(more("ccob-v3.so") > more("plain.so"));
}
