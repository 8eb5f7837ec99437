//! Input with nothing to verify is not a success.

use std::fs;
use std::path::{Path, PathBuf};

use kpackfs::resources::Resources;
use kpackfs::verify::{NothingSplit, VerifyOptions};

use crate::common::put;
use crate::verify::installations::{fat, installed, wheel, wheels};
use crate::verify::splits::{GFX90A, PLAIN, Split, verify};

/// The statement of a mount that shows its input as the host part.
pub(crate) const OF_HOST: &str = r#"{"json_version": 1, "format": 2, "parts": ["host"]}"#;

pub(crate) fn is_nothing(paths: &[PathBuf]) -> bool {
    let resources = Resources::new(64 << 20);
    let result = crate::verify::splits::try_verify(paths, &[], &VerifyOptions::default(), &resources);
    result.is_err_and(|error| error.is::<NothingSplit>())
}

#[test]
fn nothing_to_verify_is_an_error() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    fs::create_dir_all(at("empty")).unwrap();
    fs::create_dir_all(at("hollow/host")).unwrap();
    fs::create_dir_all(at("text")).unwrap();
    fs::write(at("text/notes"), "for everybody").unwrap();
    fs::create_dir_all(at("plain")).unwrap();
    fs::copy("tests/fixtures/host-only.so", at("plain/a.so")).unwrap();
    fs::create_dir_all(at("fat/lib")).unwrap();
    fs::copy("tests/fixtures/plain.so", at("fat/lib/a.so")).unwrap();
    fs::create_dir_all(at("joined/.kpackfs")).unwrap();
    fs::create_dir_all(at("joined/fat")).unwrap();
    fs::copy("tests/fixtures/plain.so", at("joined/fat/a.so")).unwrap();
    let statement = r#"{"json_version": 1, "format": 2, "views": ["fat"], "parts": ["fat"]}"#;
    fs::write(at("joined/.kpackfs/split.json"), statement).unwrap();
    for (name, looked_at) in [
        ("empty", "0 files, 0 binaries"),
        ("hollow", "0 files, 0 binaries"),
        ("joined", "0 files, 0 binaries"),
        ("joined/fat", "1 file, 1 binary"),
        ("text", "1 file, 0 binaries"),
        ("plain", "1 file, 1 binary"),
        ("plain/a.so", "1 file, 1 binary"),
        ("fat", "1 file, 1 binary"),
        ("fat/lib/a.so", "1 file, 1 binary"),
    ] {
        assert!(is_nothing(&[at(name)]), "{name}");
        for against in [&[][..], &[Path::new("--against"), &at("fat")]] {
            let mut command = assert_cmd::Command::cargo_bin("kpackfs").unwrap();
            let assert = command.arg("verify").arg(at(name)).args(against).assert().code(2);
            let message = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
            assert!(message.contains(&format!(": nothing there was split: {looked_at}: no split")), "{message}");
        }
    }
    // This also holds next to something that can be verified, in either order.
    let split = Split::make(&[]);
    for name in ["empty", "text"] {
        assert!(is_nothing(&[at(name), split.out()]) && is_nothing(&[split.out(), at(name)]), "{name}");
    }
    assert!(is_nothing(&[at("empty"), at("text")]));
    assert!(is_nothing(&[at("joined"), at("plain/a.so")]) && !is_nothing(&[at("joined"), split.out()]));
    // Binaries are often named by a pattern, which may match other files as well.
    let report = verify(&[at("plain/a.so"), split.out().join(PLAIN)], None, &VerifyOptions::default());
    assert_eq!((report.findings.as_slice(), report.counts.binaries.get()), (&[][..], 1));
    assert!(report.notes.iter().any(|note| note.contains("its form was checked")), "{:?}", report.notes);
}

#[test]
fn a_mount_of_what_has_no_device_code_is_nothing() {
    let place = tempfile::tempdir().unwrap();
    let host = place.path().join("host");
    fs::create_dir_all(host.join("empty")).unwrap();
    put(place.path().join(".kpackfs/status.json"), b"{}");
    put(place.path().join(".kpackfs/split.json"), OF_HOST.as_bytes());
    assert!(is_nothing(&[place.path().to_owned()]));
    fs::copy("tests/fixtures/host-only.so", host.join("a.so")).unwrap();
    assert!(is_nothing(&[place.path().to_owned()]) && is_nothing(&[host]));
}

#[test]
fn what_is_odd_about_what_was_never_split_is_found() {
    let place = tempfile::tempdir().unwrap();
    let library = place.path().join("math_generic/math/lib/stage/lib/a.so");
    fs::create_dir_all(library.parent().unwrap()).unwrap();
    fs::copy("tests/fixtures/host-only.so", library).unwrap();
    fs::write(place.path().join("math_generic/artifact_manifest.txt"), "math/lib/stage\n").unwrap();
    assert!(is_nothing(&[place.path().to_owned()]));
    fs::create_dir(place.path().join("base_generic")).unwrap();
    let report = verify(&[place.path().to_owned()], None, &VerifyOptions::default());
    assert!(report.findings.iter().any(|it| it.path == "base_generic"), "{:?}", report.findings);
    assert!(report.notes.iter().any(|note| note.contains("nothing there was split")), "{:?}", report.notes);
}

/// A directory of packages with one distribution looks like an unpacked wheel.
#[test]
fn an_environment_without_a_split_is_nothing() {
    let place = tempfile::tempdir().unwrap();
    let packages = place.path().join("lib/python3.12/site-packages");
    fs::create_dir_all(packages.join("pip-1.0.dist-info")).unwrap();
    fs::write(place.path().join("pyvenv.cfg"), "").unwrap();
    fs::write(packages.join("pip-1.0.dist-info/METADATA"), "Metadata-Version: 2.1\nName: pip\nVersion: 1.0\n").unwrap();
    fs::write(packages.join("pip-1.0.dist-info/WHEEL"), "Wheel-Version: 1.0\nTag: py3-none-any\n").unwrap();
    fs::write(packages.join("pip-1.0.dist-info/RECORD"), "pip.py,,\n").unwrap();
    fs::write(packages.join("pip.py"), "").unwrap();
    for path in [place.path(), &packages] {
        assert!(is_nothing(&[path.to_owned()]), "{}", path.display());
    }
    // What belongs to a split is something, even if nothing but metadata is left.
    let out = wheels(fat().path(), &[]);
    let site = installed(&[wheel(&out, "fat-1.0")]);
    fs::remove_dir_all(site.path().join("fat")).unwrap();
    for name in ["", "pip-1.0.dist-info"] {
        fs::create_dir_all(site.path().join(name)).unwrap();
        assert!(!verify(&[site.path().to_owned()], None, &VerifyOptions::default()).findings.is_empty(), "{name}");
    }
}

#[test]
fn parts_of_a_split_are_something() {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir_all(place.path().join("host")).unwrap();
    fs::write(place.path().join("host/notes"), "for everybody").unwrap();
    assert_eq!(verify(&[place.path().to_owned()], None, &VerifyOptions::default()).findings, []);
    let split = Split::make(&[]);
    let part = split.out().join(Path::new(GFX90A).components().next().unwrap());
    fs::remove_file(split.out().join(GFX90A)).unwrap();
    fs::remove_dir_all(part.join(".kpack")).unwrap();
    let report = verify(&[part], None, &VerifyOptions::default());
    assert_eq!((report.findings.as_slice(), report.counts.files.get()), (&[][..], 1), "a database only");
}
