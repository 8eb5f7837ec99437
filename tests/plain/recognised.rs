//! Files that are recognised by their first or last bytes and by their first members: zip files that are no wheels, and
//! forms that have to be unpacked.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kpackfs::opened::{Named, NotUnderstood, is_not_understood, recognise};
use kpackfs::resources::Resources;
use kpackfs::source::{Input, InputKind};
use serde_json::Value;
use tempfile::tempdir;

use crate::common::{files_and_links_below, fixture, gzip, program, put, succeeds};

/// Zip files of the directory `tree`, as a release asset and as programs with a first line: `zipapp` counts offsets from the
/// beginning of the file, and `cat` leaves those of the zip file. Two have a comment.
const MAKE: &str = r##"
import os, zipfile
def add(target, mode):
    with zipfile.ZipFile(target, mode, zipfile.ZIP_DEFLATED) as packed:
        for place, _, names in os.walk("tree"):
            for name in sorted(names):
                path = os.path.join(place, name)
                inside = os.path.relpath(path, "tree")
                info = zipfile.ZipInfo.from_file(path, inside)
                if os.path.islink(path):
                    info.external_attr = 0o120777 << 16
                    packed.writestr(info, os.readlink(path))
                else:
                    kind = zipfile.ZIP_STORED if name.endswith(".txt") else zipfile.ZIP_DEFLATED
                    packed.writestr(info, open(path, "rb").read(), kind)
add("asset.zip", "w")
line = b"#!/usr/bin/env python3\n"
open("app.pex", "wb").write(line)
add("app.pex", "a")
open("cat.pex", "wb").write(line + open("asset.zip", "rb").read())
add("comment.zip", "w")
with zipfile.ZipFile("comment.zip", "a") as packed:
    packed.comment = b"a release"
open("both.pex", "wb").write(line + open("comment.zip", "rb").read())
"##;

/// The zip files, and the directory that they were made of.
fn zip_files() -> (tempfile::TempDir, [PathBuf; 5]) {
    let place = tempdir().unwrap();
    let tree = place.path().join("tree");
    fs::create_dir_all(tree.join("lib")).unwrap();
    fs::write(tree.join("lib/a.so.1"), fixture("mixed.so")).unwrap();
    std::os::unix::fs::symlink("a.so.1", tree.join("lib/a.so")).unwrap();
    fs::write(tree.join("notes.txt"), "notes").unwrap();
    succeeds(Command::new("python3").args(["-c", MAKE]).current_dir(place.path()));
    let files = ["asset.zip", "app.pex", "cat.pex", "comment.zip", "both.pex"].map(|name| place.path().join(name));
    (place, files)
}

fn said(arguments: &[&str]) -> (Option<i32>, String) {
    let output = program().args(arguments).env("KPACKFS_CACHE_DIR", "").output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn zip_files_that_are_no_wheels_are_read_as_their_trees() {
    let (place, files) = zip_files();
    let split = |input: &Path, out: &str| {
        let out = place.path().join(out);
        let mut split = program();
        succeeds(split.arg("split").arg(input).args(["--no-cache", "--no-manifest", "-o"]).arg(&out));
        files_and_links_below(&out)
    };
    let report = |input: &Path| -> Value {
        let output = succeeds(program().args(["inspect", "--json", "--no-cache"]).arg(input));
        let mut report: Value = serde_json::from_slice(&output.stdout).unwrap();
        report.as_object_mut().unwrap().remove("input");
        report
    };
    let tree = place.path().join("tree");
    let (of_tree, expected) = (split(&tree, "of tree"), report(&tree));
    assert!(of_tree.keys().any(|path| path.starts_with("gfx90a")), "{:?}", of_tree.keys());
    for file in &files {
        let name = file.display();
        assert!(matches!(recognise(file), Ok(Named::Zip)), "{name}");
        let input = Input::open(file, &Resources::new(16 << 20)).unwrap();
        assert!(matches!(input.kind, InputKind::Tree) && input.warnings.is_empty(), "{name}: {:?}", input.warnings);
        assert_eq!(report(file), expected, "{name}");
        let of_file = split(file, &format!("of {}/", file.file_name().unwrap().display()));
        assert_eq!(of_file.keys().collect::<Vec<_>>(), of_tree.keys().collect::<Vec<_>>(), "{name}");
        let different = of_tree.iter().find(|(path, bytes)| of_file[*path] != **bytes).map(|(path, _)| path);
        assert_eq!(different, None, "{name}");
    }
}

#[test]
fn zip_files_that_cannot_be_used_are_named() {
    let (place, [asset, app, ..]) = zip_files();
    let whole = fs::read(&asset).unwrap();
    let refuses = |name: &str, bytes: &[u8], part: &str| {
        fs::write(place.path().join(name), bytes).unwrap();
        let (code, said) = said(&["inspect", place.path().join(name).to_str().unwrap()]);
        assert!(code == Some(1) && said.lines().count() == 1, "{code:?} {said}");
        assert!(said.contains(&format!("{name}: ")) && said.contains(part), "{name}: {said}");
    };
    refuses("cut.zip", &whole[..whole.len() - 30], "not a usable zip file: it is truncated or damaged");
    assert!(matches!(recognise(&place.path().join("cut.zip")), Ok(Named::Zip)));
    let changed = |from: &[u8], to: &[u8]| {
        let mut bytes = whole.clone();
        while let Some(at) = bytes.windows(from.len()).position(|it| it == from) {
            bytes[at..at + from.len()].copy_from_slice(to);
        }
        bytes
    };
    refuses("escape.zip", &changed(b"lib/a.so.1", b"../a.so.1x"), "\"..\"");
    refuses("twice.zip", &changed(b"notes.txt", b"lib//a.so"), "component that is empty");
    // A directory that is said to be elsewhere: the prefix that follows from it has no members.
    let end = whole.len() - 22;
    let mut moved = whole.clone();
    moved[end + 16..end + 20].copy_from_slice(&1_u32.to_le_bytes());
    refuses("moved.zip", &moved, "it overlaps what comes after it");
    // Installers refuse these.
    refuses("x-1.0-py3-none-any.whl", &whole, "not a usable wheel: there has to be exactly one *.dist-info directory");
    let cat = [b"#!/bin/sh\n".as_slice(), &whole].concat();
    refuses("y-1.0-py3-none-any.whl", &cat, "not a usable wheel: 10 bytes are before its zip file");
    let commented = [&whole[..end + 20], &[4, 0], b"text"].concat();
    let cat = [b"#!/bin/sh\n".as_slice(), &commented].concat();
    refuses("z-1.0-py3-none-any.whl", &cat, "not a usable wheel: 10 bytes are before its zip file");
    let damaged = [&whole[..end + 16], &[0xff; 4], &whole[end + 20..]].concat();
    refuses("d-1.0-py3-none-any.whl", &damaged, "its directory is damaged");

    // What a server sent in place of a wheel.
    for (name, what) in [("page-1.0-py3-none-any.whl", "no wheel despite its name"), ("page", "no known format")] {
        let page = place.path().join(name);
        fs::write(&page, "<html>404</html>").unwrap();
        let error = recognise(&page).and_then(|_| Ok(Input::open(&page, &Resources::new(16 << 20))?)).unwrap_err();
        assert!(is_not_understood(&error) && error.to_string().contains(what), "{error}");
    }

    // The end of a zip file that something else follows does not make one.
    let behind = [fs::read(app).unwrap(), b"more".to_vec()].concat();
    fs::write(place.path().join("behind"), behind).unwrap();
    assert!(recognise(&place.path().join("behind")).is_err_and(|error| is_not_understood(&error)));
}

/// A tar archive of these files.
fn tar(files: &[(&str, usize)]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (name, size) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(*size as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, name, &*vec![7; *size]).unwrap();
    }
    archive.into_inner().unwrap()
}

#[test]
fn forms_that_have_to_be_unpacked_are_named_with_the_command() {
    let place = tempdir().unwrap();
    let digest = "0123456789abcdef".repeat(4);
    let (layer, legacy, blob) =
        (format!("{digest}.tar"), format!("{digest}/layer.tar"), format!("blobs/sha256/{digest}"));
    let sdist = tar(&[("x-1.0/LICENSE", 9), ("x-1.0/PKG-INFO", 9), ("x-1.0/x.py", 5_000_000)]);
    let layout = tar(&[(&blob, 3_000_000), ("index.json", 2), ("oci-layout", 2)]);
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("docker.tar", tar(&[(&legacy, 9), ("manifest.json", 2)]), "skopeo copy docker-archive:{} oci:DIR:TAG"),
        ("skopeo.tar", tar(&[(&layer, 9), (&legacy, 0), ("manifest.json", 2)]), "skopeo copy docker-archive:{}"),
        (
            "named.tar",
            tar(&[("a/VERSION", 3), ("a/layer.tar", 9), ("manifest.json", 2)]),
            "skopeo copy docker-archive:{}",
        ),
        ("blobs.tar", tar(&[(&blob, 9), ("manifest.json", 2)]), "skopeo copy docker-archive:{}"),
        ("docker.tar.gz", gzip(&tar(&[(&legacy, 9_000_000)])), "skopeo copy docker-archive:{}"),
        ("layout.tar.gz", gzip(&layout), "gunzip --keep {}"),
        ("layout.tar.zst", zstd::encode_all(&*layout, 1).unwrap(), "unzstd {}"),
        ("kernels.hsaco.zst", zstd::encode_all(&b"no tar archive"[..], 1).unwrap(), "unzstd {}"),
        ("readme.gz", gzip(&[7; 9000]), "gunzip --keep {}"),
        ("x-1.0.tar.gz", gzip(&sdist), "pip wheel --no-deps {}"),
        // What is behind the first members is not read.
        ("cut-1.0.tar.gz", gzip(&sdist[..4096]), "pip wheel --no-deps {}"),
        ("x.conda", b"PK\x03\x04".to_vec(), "cph extract --dest DIR {}"),
        ("x.deb", b"!<arch>\ndebian-binary   ".to_vec(), "dpkg-deb -x {} DIR"),
        ("x.rpm", b"\xed\xab\xee\xdb\x03".to_vec(), "mkdir DIR && rpm2cpio {} | cpio -idm -D DIR"),
    ];
    for (name, bytes, command) in cases {
        let path = place.path().join(name);
        fs::write(&path, bytes).unwrap();
        let error = recognise(&path).expect_err(name);
        assert!(matches!(error.downcast_ref(), Some(NotUnderstood::Packed { .. })), "{name}: {error:?}");
        let command = command.replace("{}", path.to_str().unwrap());
        assert!(error.to_string().contains(&command), "{name}: {error} lacks {command}");
    }
    // By itself, and as what it is said to be.
    for (name, command) in [("docker.tar", "skopeo copy docker-archive:"), ("layout.tar.gz", "gunzip --keep ")] {
        let path = place.path().join(name);
        let error = recognise(format!("oci-archive:{}:x", path.display()).as_ref()).expect_err(name);
        assert!(
            is_not_understood(&error) && error.to_string().contains(&format!("{command}{}", path.display())),
            "{error}"
        );
    }
    for name in ["docker://rocm/x:1", "docker-daemon:x:1", "docker-archive:x.tar", "containers-storage:x", "dir:x"] {
        let error = recognise(name.as_ref()).expect_err(name).to_string();
        assert!(error.contains(&format!("skopeo copy {name} oci:DIR:TAG")), "{error}");
    }
}

#[test]
fn commands_refuse_forms_that_they_do_not_take() {
    let place = tempdir().unwrap();
    let at = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    fs::write(at("x.tar.zst"), zstd::encode_all(&*tar(&[("lib/a.so", 9)]), 1).unwrap()).unwrap();
    fs::write(at("x.hipfb"), b"__CLANG_OFFLOAD_BUNDLE__\0\0\0\0\0\0\0\0").unwrap();
    fs::create_dir(at("mnt")).unwrap();
    for (arguments, what) in [
        (&["mount", &at("x.tar.zst"), &at("mnt")][..], "`kpackfs ls` and `kpackfs cat` read it"),
        (&["inspect", &at("x.hipfb")], "an offload bundle without a library"),
        (&["verify", &at("x.hipfb")], "an offload bundle without a library"),
    ] {
        let (code, said) = said(arguments);
        assert!(code == Some(5) && said.contains(what), "{arguments:?}: {code:?} {said}");
    }
}

#[test]
fn trees_in_tar_archives_that_look_like_these_stay_trees() {
    let place = tempdir().unwrap();
    let names: Vec<_> = (0..40).map(|number| format!("lib/{number}")).collect();
    let many = |more: &[&'static str]| -> Vec<u8> {
        tar(&names.iter().map(String::as_str).chain(more.iter().copied()).map(|name| (name, 9)).collect::<Vec<_>>())
    };
    for (name, bytes) in [
        ("manifest.tar", tar(&[("manifest.json", 2), ("lib/a.so", 9)])),
        ("layer.tar", tar(&[("rootfs/layer.tar", 2), ("lib/a.so", 9)])),
        ("index.tar", tar(&[("index.json", 2), ("lib/blobs/sha256/x", 9)])),
        // An install tree with metadata of a package, and one whose name says nothing of a version.
        ("tree.tar", tar(&[("x-1.0/PKG-INFO", 9), ("x-1.0/lib/a.so", 9)])),
        ("x.tar.gz", gzip(&tar(&[("x/PKG-INFO", 9), ("x/lib/a.so", 9)]))),
        ("deep-1.0.tar.gz", gzip(&tar(&[("x-1.0/lib/a.so", 9), ("x-1.0/y/PKG-INFO", 9)]))),
        // The members of an image come first.
        ("many.tar", many(&["oci-layout", "index.json"])),
        ("zip.tar", [tar(&[("lib/a.so", 9)]), b"PK\x05\x06".to_vec(), vec![0; 18]].concat()),
    ] {
        let path = place.path().join(name);
        fs::write(&path, bytes).unwrap();
        assert!(matches!(recognise(&path), Ok(Named::Tar)), "{name}");
    }
}

#[test]
fn pieces_of_a_collection_are_next_to_the_directory_of_a_gpu() {
    let place = tempdir().unwrap();
    put(place.path().join("common/.kpackfs/collect.json"), b"{}");
    put(place.path().join("lib/a.so"), fixture("mixed.so"));
    assert!(matches!(recognise(place.path()), Ok(Named::Tree)));
    fs::create_dir(place.path().join("gfx90a")).unwrap();
    let error = recognise(place.path()).unwrap_err().to_string();
    assert!(error.contains("what `collect --shared` wrote"), "{error}");
}

#[test]
fn references_to_no_layout_are_not_understood() {
    let place = tempdir().unwrap();
    for (name, what) in [
        (format!("oci:{}", place.path().display()), "no layout of images"),
        (format!("oci:{}/absent:tag", place.path().display()), "No such file"),
        (format!("oci-archive:{}/absent.tar", place.path().display()), "No such file"),
    ] {
        let error = recognise(name.as_ref()).expect_err(&name);
        assert!(is_not_understood(&error) && error.to_string().contains(what), "{name}: {error}");
    }
}

/// What is next to the parts of a split belongs to no answer, and is named.
#[test]
fn directories_next_to_a_split_are_noted() {
    let place = tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let [fat, out] = ["fat", "out"].map(|name| at(name).to_str().unwrap().to_owned());
    fs::create_dir(&fat).unwrap();
    fs::write(at("fat/libplain.so"), fixture("plain.so")).unwrap();
    assert_eq!(said(&["split", &fat, "-o", &out]).0, Some(0));
    assert!(!said(&["inspect", &out]).1.contains("left out"));
    fs::create_dir(at("out/notes")).unwrap();
    let unknown = std::os::unix::ffi::OsStringExt::from_vec(b"gfx90a\xff".to_vec());
    fs::create_dir(at("out").join::<std::ffi::OsString>(unknown)).unwrap();
    let text = |command: &str| {
        let output = succeeds(program().args([command, &out]).env("KPACKFS_CACHE_DIR", ""));
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    assert!(text("inspect").contains("notes") && text("inspect").contains("gfx90a\u{fffd}"));
    assert!(!text("verify").contains("notes"));
    // Without a statement, each directory whose name is text counts as a part.
    fs::remove_dir_all(at("out/.kpackfs")).unwrap();
    fs::remove_dir(at("out/notes")).unwrap();
    assert!(text("verify").contains("gfx90a\u{fffd}"));
}

/// The notes about what was not looked at come with the sentence that nothing there was split.
#[test]
fn notes_of_verify_are_printed_if_nothing_was_split() {
    let place = tempdir().unwrap();
    fs::create_dir_all(place.path().join("tree/lib")).unwrap();
    fs::write(place.path().join("tree/lib/libplain.so"), fixture("plain.so")).unwrap();
    fs::write(place.path().join("tree/x-1.0-py3-none-any.whl"), "").unwrap();
    let (code, text) = said(&["verify", place.path().join("tree").to_str().unwrap()]);
    assert!(code == Some(2) && text.contains("x-1.0-py3-none-any.whl: wheels in a tree"), "{text}");
    assert!(text.contains("nothing there was split"), "{text}");
}
