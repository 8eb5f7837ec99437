//! Files that differ from RECORD.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use kpackfs::verify::{Check, Finding, VerifyOptions};

use crate::verify::installations::installed;
use crate::verify::splits::{edit, verify};
use crate::verify::wheels::{split, unpacked};

const VERSION: &str = "host/fat/version.py";
const RECORD: &str = "host/fat-1.0.dist-info/RECORD";
const DATABASE: &str = "gfx90a/fat/lib/rocblas/library/TensileLibrary_gfx90a.dat";
const ARCHIVE: &str = "gfx90a/fat/.kpack/fat_gfx90a.kpack";
const MERGED: &str = "merged/gfx90a";

/// A change to a split.
type Change = fn(&Path);

fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
}

#[test]
fn files_that_differ_from_record_are_named() {
    let place = tempfile::tempdir().unwrap();
    let (fat, out) = (place.path().join("fat"), place.path().join("out"));
    unpacked(&fat, "fat", "1.0");
    split(&fat, &out, &[]);
    split(&fat, &place.path().join("views"), &["--view", MERGED]);
    let views = [out.clone(), out.join("gfx90a"), place.path().join("views").join(MERGED)];
    for view in &views {
        let report = verify(std::slice::from_ref(view), None, &VerifyOptions::default());
        let reasons: Vec<_> = report.findings.iter().map(|finding| finding.reason.as_str()).collect();
        let is_device = view.ends_with("gfx90a") && !view.ends_with(MERGED);
        let expected =
            if is_device { &["it belongs to fat==1.0, which is not among what is verified"][..] } else { &[] };
        assert_eq!((reasons.as_slice(), report.counts.recorded_files.get() > 3), (expected, true), "{view:?}");
    }
    let changes: [(&str, Change, &str, &str); 9] = [
        (
            "other bytes",
            |at| write(&at.join(VERSION), "version = 2\n"),
            VERSION,
            "its SHA-256 is not the one that fat-1.0.dist-info/RECORD states",
        ),
        (
            "longer",
            |at| write(&at.join(VERSION), "version = 10\n"),
            VERSION,
            "it has 13 bytes, but fat-1.0.dist-info/RECORD states 12",
        ),
        ("missing", |at| fs::remove_file(at.join(VERSION)).unwrap(), VERSION, "names it, but there is no such file"),
        (
            "a directory",
            |at| {
                fs::remove_file(at.join(VERSION)).unwrap();
                fs::create_dir(at.join(VERSION)).unwrap();
            },
            VERSION,
            "there is no such file",
        ),
        (
            "a symlink to another file",
            |at| {
                fs::remove_file(at.join(VERSION)).unwrap();
                symlink("plain.so", at.join(VERSION)).unwrap();
            },
            VERSION,
            "bytes, but fat-1.0.dist-info/RECORD states 12",
        ),
        (
            "database",
            |at| fs::write(at.join(DATABASE), b"\x91\xaafor gfx90b").unwrap(),
            DATABASE,
            "its SHA-256 is not the one",
        ),
        (
            "header of an archive, which nobody reads",
            |at| edit(&at.join(ARCHIVE), |bytes| bytes[40] ^= 1),
            ARCHIVE,
            "its SHA-256 is not the one",
        ),
        (
            "no digests",
            |at| write(&at.join(RECORD), "fat/version.py,,\n"),
            RECORD,
            "it states SHA-256 and size of no file",
        ),
        ("no UTF-8, no lines", |at| fs::write(at.join(RECORD), [0xff; 9]).unwrap(), RECORD, "it states SHA-256"),
    ];
    for (name, change, path, reason) in changes {
        let copied = tempfile::tempdir().unwrap();
        let status = std::process::Command::new("cp").arg("-a").arg(out.join(".")).arg(copied.path()).status();
        assert!(status.unwrap().success());
        change(copied.path());
        let report = verify(&[copied.path().to_owned()], None, &VerifyOptions::default());
        let [finding] = report.findings.as_slice() else { panic!("{name}: {:?}", report.findings) };
        assert_eq!((finding.check, finding.path.as_str()), (Check::Record, path), "{name}");
        assert!(finding.reason.contains(reason), "{name}: {finding}");
    }
}

#[test]
fn what_record_leaves_open_is_fine() {
    let place = tempfile::tempdir().unwrap();
    let (fat, out) = (place.path().join("fat"), place.path().join("out"));
    unpacked(&fat, "fat", "1.0");
    split(&fat, &out, &[]);
    // Files that installers and Python add: scripts elsewhere, files without digest, files without a line, links to a
    // cache.
    edit(&out.join(RECORD), |bytes| {
        bytes.extend(format!("../../bin/fat,sha256={},9\nfat/__pycache__/gone.pyc,,\n", "A".repeat(43)).bytes());
    });
    write(&out.join("host/fat/more.py"), "");
    fs::rename(out.join(VERSION), place.path().join("cached")).unwrap();
    symlink(place.path().join("cached"), out.join(VERSION)).unwrap();
    assert_eq!(verify(&[out], None, &VerifyOptions::default()).findings, []);
    // Real wheels without device code may state only sizes.
    let other = tempfile::tempdir().unwrap();
    let site = installed(&wheels(other.path()));
    let report = || verify(&[site.path().to_owned()], None, &VerifyOptions::default());
    let compared = report().counts.recorded_files.get();
    unpacked(site.path(), "pure", "1.0");
    fs::remove_file(site.path().join("pure/plain.so")).unwrap();
    fs::remove_file(site.path().join("pure/features.so")).unwrap();
    write(&site.path().join("pure-1.0.dist-info/RECORD"), "pure/version.py,,12\n");
    let report = report();
    assert_eq!((report.findings.as_slice(), report.counts.recorded_files.get()), (&[][..], compared));
}

/// Changes members of a wheel. Members for which `change` returns `None` are removed.
fn rewrite(wheel: &Path, change: impl Fn(&str, Vec<u8>) -> Option<Vec<u8>>) {
    let mut zip = zip::ZipArchive::new(std::io::Cursor::new(fs::read(wheel).unwrap())).unwrap();
    let mut made = zip::ZipWriter::new(fs::File::create(wheel).unwrap());
    for number in 0..zip.len() {
        let mut member = zip.by_index(number).unwrap();
        let name = member.name().unwrap().into_owned();
        let mut bytes = Vec::new();
        member.read_to_end(&mut bytes).unwrap();
        if let Some(bytes) = change(&name, bytes) {
            made.start_file(&*name, zip::write::SimpleFileOptions::default()).unwrap();
            made.write_all(&bytes).unwrap();
        }
    }
    made.finish().unwrap();
}

/// The wheels of a distribution: the host wheel and one device wheel.
fn wheels(place: &Path) -> [PathBuf; 2] {
    let (fat, out) = (place.join("fat"), place.join("out"));
    unpacked(&fat, "fat", "1.0");
    split(&fat, &out, &["--format", "wheel", "--force"]);
    ["fat-1.0-py3-none-any.whl", "amd_fat_device_gfx90a-1.0-py3-none-any.whl"].map(|name| out.join(name))
}

#[test]
fn a_wheel_needs_a_record() {
    let place = tempfile::tempdir().unwrap();
    for number in [0, 1] {
        let [host, device] = wheels(place.path());
        let paths = [host, device];
        assert_eq!(verify(&paths, None, &VerifyOptions::default()).findings, []);
        rewrite(&paths[number], |name, bytes| (!name.ends_with("/RECORD")).then_some(bytes));
        let report = verify(&paths, None, &VerifyOptions::default());
        let is_it = |it: &Finding| it.path.ends_with(".dist-info/RECORD") && it.reason == "there is no such file";
        assert!(report.findings.iter().any(is_it), "{number}: {:?}", report.findings);
    }
}

#[test]
fn a_record_of_a_wheel_cannot_name_what_is_outside() {
    let place = tempfile::tempdir().unwrap();
    for path in ["../../bin/x", "/etc/x", "fat/../../x"] {
        for claim in [format!("sha256={},9", "A".repeat(43)), ",".to_owned()] {
            let [host, device] = wheels(place.path());
            rewrite(&host, |name, mut bytes| {
                if name.ends_with("/RECORD") {
                    bytes.extend(format!("{path},{claim}\n").bytes());
                }
                Some(bytes)
            });
            let report = verify(&[host, device], None, &VerifyOptions::default());
            let is_it = |it: &Finding| it.path == path && it.reason.contains("a wheel can have no such path");
            assert!(report.findings.iter().any(is_it), "{path}: {:?}", report.findings);
        }
    }
}
