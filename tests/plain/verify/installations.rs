//! Installations, and wheels for some GPUs: all parts must exist in one version, and everything is checked.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use kpackfs::verify::{Check, VerifyOptions, VerifyReport};
use tempfile::TempDir;

use crate::common::copy_all;
use crate::verify::splits::{copy, edit, verify, write_at};
use crate::verify::wheels::{split, unpacked};

pub(crate) const ARCHIVE: &str = "fat/.kpack/fat_gfx1100.kpack";
pub(crate) const DEVICE: &str = "amd_fat_device_gfx1100-1.0.dist-info";
pub(crate) const FAMILY: &str = "amd_fat_device_gfx11-1.0.dist-info";
pub(crate) const HOST: &str = "fat-1.0.dist-info";
pub(crate) const DATABASE: &str = "fat/lib/rocblas/library/TensileLibrary_gfx1100.dat";

/// A fat wheel with code for single GPUs and for a family.
pub(crate) fn fat() -> TempDir {
    let fat = tempfile::tempdir().unwrap();
    unpacked(fat.path(), "fat", "1.0");
    copy(Path::new("tests/fixtures/generic.so"), &fat.path().join("fat/generic.so"));
    fs::write(fat.path().join(DATABASE), b"\x91\xabfor gfx1100").unwrap();
    fat
}

/// The same with a library and a script in its `.data` directory.
fn fat_with_data() -> TempDir {
    let fat = fat();
    copy(Path::new("tests/fixtures/mixed.so"), &fat.path().join("fat-1.0.data/platlib/more/mixed.so"));
    copy(Path::new("tests/fixtures/host-only.so"), &fat.path().join("fat-1.0.data/scripts/tool"));
    fat
}

/// The wheels of a split.
pub(crate) fn wheels(fat: &Path, options: &[&str]) -> TempDir {
    let out = tempfile::tempdir().unwrap();
    split(fat, &out.path().join("wheels"), &[&["--format", "wheel"], options].concat());
    out
}

pub(crate) fn wheel(out: &TempDir, start: &str) -> PathBuf {
    let mut names = fs::read_dir(out.path().join("wheels")).unwrap().map(|entry| entry.unwrap().path());
    names.find(|path| path.file_name().unwrap().to_str().unwrap().starts_with(start)).unwrap()
}

/// Wheels, unpacked into one directory as pip does, without the scripts.
pub(crate) fn installed(wheels: &[PathBuf]) -> TempDir {
    let site = tempfile::tempdir().unwrap();
    for wheel in wheels {
        let mut zip = zip::ZipArchive::new(fs::File::open(wheel).unwrap()).unwrap();
        for number in 0..zip.len() {
            let mut member = zip.by_index(number).unwrap();
            let name = member.name().unwrap().into_owned();
            let place = match name.split_once(".data/") {
                Some((_, rest)) => match rest.strip_prefix("platlib/") {
                    Some(rest) => rest.to_owned(),
                    None => continue,
                },
                None => name,
            };
            let place = site.path().join(place);
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            let mut file = fs::File::create(&place).unwrap();
            std::io::copy(&mut member, &mut file).unwrap();
        }
    }
    for record in [HOST, DEVICE, FAMILY].map(|name| site.path().join(name).join("RECORD")) {
        let text = fs::read_to_string(&record).unwrap_or_default();
        let lines = text.lines().map(|line| match line.split_once(".data/") {
            Some((_, rest)) => rest.strip_prefix("platlib/").map_or(format!("../../{rest}"), str::to_owned),
            None => line.to_owned(),
        });
        let text: String = lines.map(|line| line + "\n").collect();
        if record.is_file() {
            fs::write(&record, text).unwrap();
        }
    }
    site
}

fn check(paths: &[PathBuf], against: Option<&Path>) -> VerifyReport {
    verify(paths, against, &VerifyOptions::default())
}

fn has(report: &VerifyReport, check: Check, path: &str, reason: &str) -> bool {
    report.findings.iter().any(|it| it.check == check && it.path.contains(path) && it.reason.contains(reason))
}

#[test]
fn wheels_for_one_gpu() {
    let fat = fat_with_data();
    let out = wheels(fat.path(), &[]);
    let [host, device, family, other] =
        ["fat-", "amd_fat_device_gfx1100", "amd_fat_device_gfx11-", "amd_fat_device_gfx90a"].map(|it| wheel(&out, it));
    for against in [None, Some(fat.path())] {
        let all = check(&[out.path().join("wheels")], against);
        assert_eq!((&*all.findings, &*all.notes), (&[][..], &[][..]));
        let report = check(&[host.clone(), family.clone(), device.clone()], against);
        assert_eq!(report.findings, [], "{against:?}");
        assert!(report.notes.iter().any(|note| note.contains("of its device wheels such as")), "{:?}", report.notes);
        assert_eq!(check(&[other.clone(), host.clone()], against).findings, []);
        let site = installed(&[host.clone(), family.clone(), device.clone()]);
        let report = check(&[site.path().to_owned()], against);
        assert_eq!(report.findings, [], "{against:?}");
        assert!(report.notes.iter().any(|note| note.contains("they are installed elsewhere")), "{:?}", report.notes);
    }
    // A directory of wheels must have each wheel that METADATA names, and each device wheel needs that of its family.
    fs::remove_file(&other).unwrap();
    let report = check(&[out.path().join("wheels")], None);
    assert!(has(&report, Check::Distribution, "fat-1.0-py3", "its METADATA names amd-fat-device-gfx90a==1.0"));
    let report = check(&[host, device.clone()], None);
    let needs = "needs amd-fat-device-gfx11==1.0, which is not among what is verified";
    assert!(has(&report, Check::Distribution, "fat-1.0-py3", needs), "{:?}", report.findings);
    let reason = "it belongs to amd-fat-device-gfx11==1.0, which is not among what is verified";
    assert!(has(&report, Check::Distribution, "amd_fat_device_gfx1100", reason), "{:?}", report.findings);
    assert!(!check(&[device], None).findings.is_empty(), "a device wheel alone");
}

/// A change to an installation, a part of the path that the finding must name, and a part of its reason.
type Damage = (&'static str, fn(&Path), &'static str, &'static str);

const DAMAGES: [(Check, &[Damage]); 5] = [
    (
        Check::Lookup,
        &[(
            "an archive where no marker leads to",
            |at| {
                let moved = "more/libs/.kpack/fat_gfx1100.kpack";
                copy(&at.join("more/.kpack/fat_gfx1100.kpack"), &at.join(moved));
                fs::remove_file(at.join("more/.kpack/fat_gfx1100.kpack")).unwrap();
                edit(&at.join(DEVICE).join("RECORD"), |text| {
                    let record = String::from_utf8(text.clone()).unwrap();
                    *text = record.replace("more/.kpack/fat_gfx1100.kpack", moved).into_bytes();
                });
            },
            "more/libs/.kpack/fat_gfx1100.kpack",
            "no marker leads to it",
        )],
    ),
    (
        Check::Distribution,
        &[
            (
                "another version of the device code",
                |at| {
                    edit(&at.join(DEVICE).join("METADATA"), |text| {
                        *text = String::from_utf8(text.clone()).unwrap().replace("1.0", "2.0").into_bytes();
                    });
                },
                DEVICE,
                "it belongs to fat==2.0, but there is fat 1.0",
            ),
            (
                "no host",
                |at| fs::remove_dir_all(at.join(HOST)).unwrap(),
                DEVICE,
                "it belongs to fat==1.0, which is not among what is verified",
            ),
            (
                "an empty directory in place of the host",
                |at| {
                    fs::remove_dir_all(at.join(HOST)).unwrap();
                    fs::create_dir(at.join(HOST)).unwrap();
                },
                DEVICE,
                "it belongs to fat==1.0, which is not among what is verified",
            ),
            (
                "empty directories in place of the host",
                |at| {
                    fs::remove_dir_all(at.join(HOST)).unwrap();
                    fs::create_dir_all(at.join(HOST).join("licenses")).unwrap();
                },
                DEVICE,
                "it belongs to fat==1.0, which is not among what is verified",
            ),
            (
                "no family",
                |at| {
                    fs::remove_dir_all(at.join(FAMILY)).unwrap();
                    fs::remove_file(at.join("fat/.kpack/fat_gfx11-generic.kpack")).unwrap();
                },
                HOST,
                "with amd-fat-device-gfx1100 it needs amd-fat-device-gfx11==1.0, which is not among",
            ),
            (
                "an empty directory in place of the family",
                |at| {
                    fs::remove_dir_all(at.join(FAMILY)).unwrap();
                    fs::create_dir(at.join(FAMILY)).unwrap();
                    fs::remove_file(at.join("fat/.kpack/fat_gfx11-generic.kpack")).unwrap();
                },
                HOST,
                "with amd-fat-device-gfx1100 it needs amd-fat-device-gfx11==1.0, which is not among",
            ),
        ],
    ),
    (
        Check::Record,
        &[
            (
                "no device code",
                |at| fs::remove_dir_all(at.join("fat/.kpack")).unwrap(),
                ARCHIVE,
                "there is no such file",
            ),
            (
                "an archive that nobody installed",
                |at| copy(&at.join(ARCHIVE), &at.join("fat/.kpack/fat_gfx1101.kpack")),
                "fat/.kpack/fat_gfx1101.kpack",
                "no RECORD names it",
            ),
            (
                "a database that nobody installed",
                |at| copy(&at.join(DATABASE), &at.join("fat/lib/rocblas/library/TensileLibrary_gfx942.dat")),
                "TensileLibrary_gfx942.dat",
                "no RECORD names it",
            ),
            ("archive", |at| edit(&at.join(ARCHIVE), |it| it[40] ^= 1), ARCHIVE, "its SHA-256 is not"),
            (
                "host library",
                |at| write_at(&at.join("fat/host-only.so"), 64, &[0xaa]),
                "fat/host-only.so",
                "its SHA-256 is not",
            ),
            (
                "library of .data",
                |at| edit(&at.join("more/mixed.so"), |it| it.push(0)),
                "more/mixed.so",
                "bytes, but fat-1.0.dist-info/RECORD states",
            ),
            ("database", |at| write_at(&at.join(DATABASE), 0, b"F"), DATABASE, "its SHA-256 is not"),
            (
                "another digest in RECORD",
                |at| {
                    edit(&at.join(HOST).join("RECORD"), |it| {
                        let start = it.windows(18).position(|text| text == b"fat/version.py,sha").unwrap() + 22;
                        it[start] = if it[start] == b'A' { b'B' } else { b'A' };
                    });
                },
                "fat/version.py",
                "its SHA-256 is not",
            ),
            (
                "no digest in RECORD",
                |at| change_line(&at.join(HOST).join("RECORD"), "fat/version.py,", "fat/version.py,,"),
                "fat/version.py",
                "fat-1.0.dist-info/RECORD states no SHA-256 or no size of it",
            ),
            (
                "no line in RECORD",
                |at| change_line(&at.join(HOST).join("RECORD"), "fat/plain.so,", ""),
                "fat/plain.so",
                "no RECORD names it",
            ),
            ("no RECORD", |at| fs::remove_file(at.join(DEVICE).join("RECORD")).unwrap(), ARCHIVE, "no RECORD names it"),
        ],
    ),
    (
        Check::Archive,
        &[
            (
                "code of another GPU under its name",
                |at| copy(&at.join("fat/.kpack/fat_gfx11-generic.kpack"), &at.join(ARCHIVE)),
                ARCHIVE,
                "its name says gfx1100, but it offers gfx11-generic",
            ),
            ("truncated", |at| edit(&at.join(ARCHIVE), |it| it.truncate(it.len() / 2)), ARCHIVE, ""),
        ],
    ),
    (
        Check::Binary,
        &[(
            "still fat",
            |at| copy(Path::new("tests/fixtures/plain.so"), &at.join("fat/plain.so")),
            "fat/plain.so",
            "it still holds device code",
        )],
    ),
];

#[test]
fn damaged_installations() {
    let fat = fat_with_data();
    let out = wheels(fat.path(), &[]);
    let all = ["fat-", "amd_fat_device_gfx1100", "amd_fat_device_gfx11-"].map(|it| wheel(&out, it));
    let damages = DAMAGES.iter().flat_map(|(kind, damages)| damages.iter().map(move |damage| (*kind, damage)));
    for (kind, (name, damage, path, reason)) in damages {
        let site = installed(&all);
        assert_eq!(check(&[site.path().to_owned()], None).findings, []);
        damage(site.path());
        let report = check(&[site.path().to_owned()], None);
        assert!(has(&report, kind, path, reason), "{name}: {:#?}", report.findings);
    }
}

fn change_line(path: &Path, start: &str, line: &str) {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.lines().any(|it| it.starts_with(start)));
    let lines = text.lines().map(|it| if it.starts_with(start) { line } else { it });
    fs::write(path, lines.collect::<Vec<_>>().join("\n") + "\n").unwrap();
}

#[test]
fn a_split_says_what_was_asked_for() {
    let fat = fat();
    for options in [&["--gpu-targets", "gfx1100"][..], &["--exclude-targets", "gfx90a"], &["--databases", ""]] {
        let out = wheels(fat.path(), options);
        split(fat.path(), &out.path().join("parts"), options);
        split(fat.path(), &out.path().join("merged"), &[options, &["--view", "merged/gfx1100"]].concat());
        for name in ["wheels", "parts", "parts/host", "merged"] {
            let host_alone = name == "parts/host";
            for against in [None, Some(fat.path())] {
                let report = check(&[out.path().join(name)], against);
                let is_expected = report.findings.is_empty() != host_alone;
                assert!(is_expected, "{options:?} {name} {against:?}: {:#?}", report.findings);
                assert!(
                    report.notes.iter().any(|note| note.contains(options[0])),
                    "{options:?} {name}: {:?}",
                    report.notes
                );
            }
        }
        // The statement of the split does not excuse missing files.
        fs::remove_file(out.path().join("parts/host/fat/version.py")).unwrap();
        assert!(!check(&[out.path().join("parts")], Some(fat.path())).findings.is_empty());
    }
    let tree = tempfile::tempdir().unwrap();
    copy(Path::new("tests/fixtures/plain.so"), &tree.path().join("fat/lib/x.so"));
    let (from, out) = (tree.path().join("fat"), tree.path().join("out"));
    split(&from, &out, &["--gpu-targets", "gfx90a"]);
    assert_eq!(check(std::slice::from_ref(&out), Some(&from)).findings, []);
    fs::write(out.join(".kpackfs/split.json"), r#"{"json_version": 1, "gpu_targets": ["gfx1030"]}"#).unwrap();
    assert!(!check(std::slice::from_ref(&out), Some(&from)).findings.is_empty());
    fs::remove_dir_all(out.join(".kpackfs")).unwrap();
    assert!(!check(std::slice::from_ref(&out), Some(&from)).findings.is_empty());
    // Without all views, it is a part of a split.
    let some = tree.path().join("some");
    split(&from, &some, &["--view", "host", "--view", "gfx90a"]);
    assert_eq!(check(&[some], Some(&from)).findings, []);
}

#[test]
fn views_that_split_writes_are_all_checked() {
    let fat = fat();
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("out");
    split(fat.path(), &out, &["--view", "wheels", "--view", "merged/gfx1100", "--view", "merged/gfx90a"]);
    let report = check(std::slice::from_ref(&out), Some(fat.path()));
    assert_eq!(report.findings, []);
    assert!(report.counts.binaries.get() == 9, "{:?}", report.counts);
    edit(&out.join("merged/gfx1100/fat/version.py"), |it| it[0] ^= 1);
    let wheel = fs::read_dir(out.join("wheels"))
        .unwrap()
        .map(|it| it.unwrap().path())
        .find(|it| it.to_str().unwrap().contains("device_gfx90a"));
    edit(&wheel.unwrap(), |bytes| {
        let start = bytes.windows(4).position(|window| window == b"KPAK").unwrap();
        bytes[start + 40] ^= 1;
    });
    let report = check(&[out], None);
    assert!(
        has(&report, Check::Record, "merged/gfx1100/fat/version.py", "its SHA-256 is not"),
        "{:?}",
        report.findings
    );
    assert!(has(&report, Check::Record, "device_gfx90a", ""), "{:?}", report.findings);
    assert!(report.findings.len() == 2, "{:?}", report.findings);
}

/// A split, installed for these GPUs as by an installer.
pub(crate) fn installed_by_pip(fat: &Path, options: &[&str], gpus: &[&str]) -> TempDir {
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

/// A wheel that neither is fat nor belongs to a split.
fn dependency(directory: &Path) {
    let mut zip = zip::ZipWriter::new(fs::File::create(directory.join("needed-1.0-py3-none-any.whl")).unwrap());
    let members = [
        ("needed.py", ""),
        ("needed-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: needed\nVersion: 1.0\n"),
        ("needed-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"),
        ("needed-1.0.dist-info/RECORD", "needed-1.0.dist-info/RECORD,,\n"),
    ];
    for (name, text) in members {
        zip.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(text.as_bytes()).unwrap();
    }
    zip.finish().unwrap();
}

/// Two fat wheels, unpacked, and the wheels of each.
pub(crate) fn two_splits() -> ([TempDir; 2], [TempDir; 2]) {
    let fats = ["fat", "other"].map(|name| {
        let fat = tempfile::tempdir().unwrap();
        unpacked(fat.path(), name, "1.0");
        fat
    });
    let outs = fats.each_ref().map(|fat| wheels(fat.path(), &[]));
    (fats, outs)
}

#[test]
fn several_splits_in_one_place() {
    let (fats, outs) = two_splits();
    let place = tempfile::tempdir().unwrap();
    for entry in outs.iter().flat_map(|out| fs::read_dir(out.path().join("wheels")).unwrap()) {
        let path = entry.unwrap().path();
        copy(&path, &place.path().join(path.file_name().unwrap()));
    }
    dependency(place.path());
    let one_gpu = |number: usize, name: &str| {
        [format!("{name}-"), format!("amd_{name}_device_gfx90a")].map(|it| wheel(&outs[number], &it)).to_vec()
    };
    for (fat, name) in fats.iter().zip(["fat", "other"]) {
        let report = check(&[place.path().to_owned()], Some(fat.path()));
        let left = if name == "fat" { "other-1.0" } else { "fat-1.0" };
        assert!(has(&report, Check::Against, left, "names no fat input of this distribution"), "{:?}", report.findings);
        assert_eq!(report.findings.len(), 1, "{:?}", report.findings);
        assert!(
            report.notes.iter().any(|note| note.contains("needed-") && note.contains("not compared")),
            "{:?}",
            report.notes
        );
        let site = installed(&[one_gpu(0, "fat"), one_gpu(1, "other")].concat());
        assert_eq!(check(&[site.path().to_owned()], Some(fat.path())).findings, [], "{name}");
        let lost = site.path().join(name).join("version.py");
        fs::remove_file(lost).unwrap();
        let report = check(&[site.path().to_owned()], Some(fat.path()));
        assert!(has(&report, Check::Against, "version.py", "the file is lost"), "{:?}", report.findings);
    }
    let third = fat();
    let report = check(&[outs[1].path().join("wheels")], Some(third.path()));
    assert!(has(&report, Check::Against, "", "nothing that is verified was made of it"), "{:?}", report.findings);
    // Code of one distribution does not count for the other.
    let site = installed(&[one_gpu(0, "fat"), vec![wheel(&outs[1], "other-")]].concat());
    let report = check(&[site.path().to_owned()], None);
    let [finding] = &*report.findings else { panic!("{:?}", report.findings) };
    assert_eq!(finding.to_string(), "other-1.0.dist-info: no archive has code for any of its split binaries [no-code]");
}

/// pip renames what it replaces, and deletes it at the end of an upgrade. Nothing imports it.
#[test]
fn what_pip_left_of_an_upgrade_is_no_installation() {
    let site = installed_by_pip(fat().path(), &[], &["gfx1100", "gfx11"]);
    for (name, left) in [("fat", "~at"), (HOST, "~at-1.0.dist-info"), (DEVICE, "~md_fat_device_gfx1100-1.0.dist-info")]
    {
        copy_all(site.path().join(name), site.path().join(left));
    }
    fs::remove_file(site.path().join("~at/.kpack/fat_gfx1100.kpack")).unwrap();
    let place = site.path().canonicalize().unwrap();
    let report = check(std::slice::from_ref(&place), None);
    assert_eq!(report.findings, []);
    let left = ["~at", "~at-1.0.dist-info", "~md_fat_device_gfx1100-1.0.dist-info"];
    let expected = format!("{}: pip left {}, {} and {} of upgrades", place.display(), left[0], left[1], left[2]);
    let notes: Vec<_> = report.notes.iter().filter(|note| note.contains("pip left")).collect();
    assert!(matches!(&*notes, [note] if note.starts_with(&expected)), "{notes:?}");
}

/// uv locks the directory that it installs into by an empty file.
#[test]
fn a_lock_of_uv_is_not_compared() {
    let fat = fat();
    let out = wheels(fat.path(), &[]);
    let check = || check(&[out.path().join("wheels")], Some(fat.path())).findings;
    fs::write(fat.path().join(".lock"), "").unwrap();
    assert_eq!(check(), []);
    fs::write(fat.path().join(".lock"), "data").unwrap();
    let [finding] = &*check() else { panic!() };
    assert_eq!(finding.to_string(), ".lock: the file is lost [against-lost]");
}

#[test]
fn a_lock_of_uv_is_compared_with_a_file_of_its_name() {
    let (fat, out) = (fat(), tempfile::tempdir().unwrap());
    fs::write(fat.path().join(".lock"), "").unwrap();
    split(fat.path(), &out.path().join("out"), &[]);
    fs::write(out.path().join("out/host/.lock"), "data").unwrap();
    let findings = check(&[out.path().join("out")], Some(fat.path())).findings;
    let of_lock: Vec<_> = findings.iter().map(ToString::to_string).filter(|it| it.starts_with(".lock")).collect();
    assert!(matches!(&*of_lock, [finding] if finding.contains("[against-changed]")), "{of_lock:?}");
}

/// The RECORD of a wheel that was split after installation does not list the result. Everything else is compared.
#[test]
fn records_older_than_the_split() {
    let fat = fat();
    unpacked(fat.path(), "other", "2.0");
    let sha256 = "aG7TtvnXJEFVNwgQLVKVdT4vNkYQuNSuHBYLNJpGhKo";
    let record =
        format!("fat/plain.so,sha256={sha256},1\n{DATABASE},sha256={sha256},11\nfat/version.py,sha256={sha256},12\n");
    fs::write(fat.path().join(HOST).join("RECORD"), record).unwrap();
    let place = tempfile::tempdir().unwrap();
    split(fat.path(), &place.path().join("all"), &[]);
    split(fat.path(), &place.path().join("views"), &["--view", "merged/gfx90a"]);
    for name in ["all", "views", "views/merged/gfx90a"] {
        let report = check(&[place.path().join(name)], None);
        let [finding] = &*report.findings else { panic!("{name}: {:?}", report.findings) };
        assert!(finding.path.ends_with("fat/version.py") && finding.reason.starts_with("its SHA-256"), "{finding}");
        assert!(report.notes.iter().any(|note| note.contains("older than the split")), "{:?}", report.notes);
        assert_eq!(report.counts.recorded_files.get(), 1);
    }
}

#[test]
fn many_findings_begin_with_their_causes() {
    let fat = fat();
    let out = tempfile::tempdir().unwrap();
    split(fat.path(), &out.path().join("out"), &[]);
    fs::remove_dir_all(out.path().join("out/gfx1100")).unwrap();
    fs::remove_dir_all(out.path().join("out/gfx90a")).unwrap();
    let mut command = assert_cmd::Command::cargo_bin("kpackfs").unwrap();
    let assert = command.arg("verify").arg(out.path().join("out")).arg("--against").arg(fat.path()).assert().code(1);
    let text = String::from_utf8_lossy(&assert.get_output().stdout).into_owned();
    let lines: Vec<_> = text.lines().collect();
    let at = lines.iter().position(|line| line.ends_with(" findings by cause:")).unwrap();
    assert!(lines[at + 1].contains("wrapper …: its code for … is not found; the first: "), "{text}");
    assert!(
        lines.iter().rposition(|line| line.contains("its code for gfx90a is not found")).unwrap() > at + 2,
        "{text}"
    );
    let mut command = assert_cmd::Command::cargo_bin("kpackfs").unwrap();
    let assert = command.args(["verify", "--json"]).arg(out.path().join("out")).assert().code(1);
    let report: serde_json::Value = serde_json::from_slice(&assert.get_output().stdout).unwrap();
    let is_missing = |cause: &serde_json::Value| cause["id"] == "distribution-missing" && cause["count"] == 1;
    assert!(report["json_version"] == 1 && report["causes"].as_array().unwrap().iter().any(is_missing), "{report}");
    assert!(report["notes"].is_array() && report["counts"]["uncompared_files"].is_u64());
}

/// Packages of other distributions can have the names of views.
#[test]
fn an_installation_with_a_package_called_host_is_one() {
    let out = wheels(fat().path(), &[]);
    let starts = ["fat-1.0", "amd_fat_device_gfx1100-", "amd_fat_device_gfx11-"];
    let site = installed(&starts.map(|start| wheel(&out, start)));
    fs::create_dir(site.path().join("host")).unwrap();
    fs::write(site.path().join("host/__init__.py"), "").unwrap();
    let report = check(&[site.path().to_owned()], None);
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    write_at(&site.path().join("fat/version.py"), 0, b"#");
    assert!(has(&check(&[site.path().to_owned()], None), Check::Record, "fat/version.py", ""));
}

/// A merged view, and a mount with --arch, have the dist-info of what was split, without the files of installers.
#[test]
fn a_split_of_a_merged_view() {
    let out = wheels(fat().path(), &[]);
    let view = installed(&["fat-1.0", "amd_fat_device_gfx1100-", "amd_fat_device_gfx11-"].map(|it| wheel(&out, it)));
    let again = tempfile::tempdir().unwrap();
    split(view.path(), &again.path().join("out"), &[]);
    let report = verify(&[again.path().join("out")], None, &VerifyOptions::default());
    assert_eq!(report.findings, []);
}
