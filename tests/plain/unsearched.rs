//! Files in which device code may be, and which are not searched.

use std::fs;
use std::path::Path;

use crate::common::{code_object, program};

#[track_caller]
fn says(place: &Path, arguments: &[&str], code: i32, words: &str) {
    let output = program().args(arguments).current_dir(place).output().unwrap();
    let said = [&*output.stdout, &*output.stderr].map(|text| String::from_utf8_lossy(text)).join("\n");
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    assert!(said.contains(words), "{arguments:?}: {said}");
}

#[test]
fn archives_in_an_input_are_named() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    fs::create_dir_all(place.join("in/share")).unwrap();
    fs::write(place.join("in/share/kernels.tar"), [&[b'k'; 512], &*code_object(0x4c)].concat()).unwrap();
    says(place, &["inspect", "in"], 0, "1 archive in it is not searched (share/kernels.tar)");
    says(place, &["inspect", "in", "--require", "gfx942"], 1, "share/kernels.tar: an archive, which is not searched");
    says(place, &["why", "in", "--target", "gfx942"], 4, "share/kernels.tar (an archive, which is not searched)");
    says(place, &["diff", "in", "in"], 0, "1 archive in it is not searched (share/kernels.tar)");
}

#[test]
fn diff_names_code_in_xz() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    fs::create_dir(place.join("in")).unwrap();
    fs::write(place.join("in/k.hsaco.xz"), b"\xfd7zXZ\0and more").unwrap();
    says(place, &["diff", "in", "in"], 0, "it has 1 file with device code");
    says(place, &["why", "in", "--target", "gfx942"], 4, "k.hsaco.xz (xz)");
}
