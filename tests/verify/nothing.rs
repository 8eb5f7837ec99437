//! Input with nothing to verify is not a success.

use std::fs;
use std::path::{Path, PathBuf};

use kpackfs::metrics::Progress;
use kpackfs::resources::Resources;
use kpackfs::verify::{VerifyError, VerifyOptions};

use crate::splits::{GFX90A, PLAIN, Split, verify};

fn is_nothing(paths: &[PathBuf]) -> bool {
    let resources = Resources::new(64 << 20);
    let result = kpackfs::verify::verify(paths, None, &VerifyOptions::default(), &resources, &Progress::default());
    matches!(result, Err(VerifyError::Nothing(_)))
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
    for name in ["empty", "hollow", "text", "plain", "plain/a.so"] {
        assert!(is_nothing(&[at(name)]), "{name}");
        let mut command = assert_cmd::Command::cargo_bin("kpackfs").unwrap();
        let assert = command.arg("verify").arg(at(name)).assert().code(2);
        let message = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
        assert!(message.contains(": there is nothing to verify: no split binary"), "{message}");
    }
    // This also holds next to something that can be verified, in either order.
    let split = Split::make(&[]);
    for name in ["empty", "text"] {
        assert!(is_nothing(&[at(name), split.out()]) && is_nothing(&[split.out(), at(name)]), "{name}");
    }
    assert!(is_nothing(&[at("empty"), at("text")]));
    // Binaries are often named by a pattern, which may match other files as well.
    let report = verify(&[at("plain/a.so"), split.out().join(PLAIN)], None, &VerifyOptions::default());
    assert_eq!((report.findings.as_slice(), report.counts.binaries.get()), (&[][..], 1));
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
