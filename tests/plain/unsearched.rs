//! Files in which device code may be, and which are not searched.

use std::fs;
use std::io::Write;
use std::path::Path;

use crate::common::{code_object, program};
use crate::forms::made::zipped;

#[track_caller]
fn says(place: &Path, arguments: &[&str], code: i32, words: &str) {
    let output = program().args(arguments).current_dir(place).output().unwrap();
    let said = [&*output.stdout, &*output.stderr].map(|text| String::from_utf8_lossy(text)).join("\n");
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    assert!(said.contains(words), "{arguments:?}: {said}");
}

#[test]
fn archives_of_other_formats_are_named() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    fs::create_dir_all(place.join("in/share")).unwrap();
    fs::write(place.join("in/share/kernels.tar"), [&[b'k'; 512], &*code_object(0x4c)].concat()).unwrap();
    says(place, &["inspect", "in"], 0, "1 archive in it is not searched (share/kernels.tar)");
    says(place, &["inspect", "in", "--require", "gfx942"], 1, "share/kernels.tar: an archive, which is not searched");
    says(place, &["why", "in", "--target", "gfx942"], 4, "share/kernels.tar (an archive, which is not searched)");
    says(place, &["diff", "in", "in"], 0, "1 archive in it is not searched (share/kernels.tar)");
}

/// A tar archive with two files.
fn tar(files: [(&str, &[u8]); 2]) -> Vec<u8> {
    let mut made = tar::Builder::new(Vec::new());
    for (path, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        made.append_data(&mut header, path, bytes).unwrap();
    }
    made.into_inner().unwrap()
}

#[test]
fn archives_in_an_input_are_searched() {
    let code = code_object(0x4c);
    let inner = tar([("a", b""), ("b", b"")]);
    let plain = tar([("kernels/k.co", &code), ("README", b"text")]);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&plain).unwrap();
    for (name, bytes) in [
        ("k.tar", plain.clone()),
        ("k.tgz", gzip.finish().unwrap()),
        ("k.tar.zst", zstd::bulk::compress(&plain, 3).unwrap()),
        ("k.zip", zipped(&[("kernels/k.co", code.clone())])),
    ] {
        let place = tempfile::tempdir().unwrap();
        let place = place.path();
        fs::create_dir_all(place.join("in/share")).unwrap();
        fs::write(place.join("in/share").join(name), bytes).unwrap();
        let path = format!("share/{name}/kernels/k.co");
        says(place, &["inspect", "in", "--json"], 0, &format!("\"path\": \"{path}\""));
        says(place, &["inspect", "in", "--require", "gfx942", "--require-judged"], 0, "code for gfx942");
        says(place, &["inspect", "in", "--require", "gfx1100"], 1, "it has code for gfx942 only");
        says(place, &["why", "in", "--target", "gfx942"], 0, &path);
        says(place, &["why", "in", "--target", "gfx1100"], 1, "gfx942");
        fs::write(place.join("in/share").join(name), tar([("in.tar", &inner), ("README", b"text")])).unwrap();
        let warning = format!("1 archive in it is not searched (share/{name}/in.tar)");
        says(place, &["inspect", "in"], 0, &warning);
    }
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
