//! Forms that others make: install trees, prefixes, artifacts, images, archives and packages.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use flate2::write::GzEncoder;

use crate::common::fixture;
use crate::forms::made::{Place, kpackfs, members, zipped};
use crate::images::layout::{Form, Layer, image};

/// A tar archive of a directory.
fn tarred(directory: &Path) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    tar.append_dir_all(".", directory).unwrap();
    tar.into_inner().unwrap()
}

/// A tar archive of some files.
fn tar_of(files: &[(&str, &[u8])]) -> Vec<u8> {
    files.iter().fold(Layer::new(), |layer, (name, bytes)| layer.file(name, bytes)).done()
}

/// Trees, and archives of them.
pub(crate) fn trees(place: &Place) {
    for (from, to) in [("fat", "conda-fat"), ("wheels", "conda-split")] {
        place.install(from, &format!("{to}/lib/python3.12/site-packages"));
        place.write(&format!("{to}/conda-meta/history"), b"");
    }
    for (path, bytes) in members() {
        if let Some(path) = path.strip_prefix("small/lib/") {
            place.write(&format!("install/lib/{path}"), &bytes);
        }
    }
    place.write("fat.tar", &tarred(&place.at("site-fat")));
    place.write("split.tar", &tarred(&place.at("site-split")));
    let files = members().into_iter().filter(|(path, _)| path.starts_with("small/lib/"));
    place.write("asset.zip", &zipped(&files.collect::<Vec<_>>()));
    for (output, form) in [
        ("collected-thin", "thin"),
        ("collected-archives", "archives"),
        ("collected.zip", "thin"),
        ("collected.tar.zst", "archives"),
    ] {
        // The runtime is missing, for which it answers with 1.
        let mut collect = kpackfs();
        collect.args(["collect", "site-fat/small/lib", "--from", "site-fat", "--gpu-targets", "gfx90a,gfx1030"]);
        collect.args(["--form", form, "-o", output]).current_dir(place.root());
        let collected = collect.env("KPACKFS_CACHE_DIR", place.cache()).output().unwrap();
        assert!(place.at(output).exists(), "{collected:?}");
    }
}

/// Artifacts of `TheRock`: a directory for each component, with a list of its prefixes.
pub(crate) fn artifacts(place: &Place) {
    place.write("artifacts/x_lib_gfx90X/artifact_manifest.txt", b"stage\n");
    for (path, bytes) in members() {
        if path.starts_with("small/lib/") {
            place.write(&format!("artifacts/x_lib_gfx90X/stage/{path}"), &bytes);
        }
    }
    place.runs(&["split", "artifacts", "-o", "artifacts-split"]);
}

/// An image in a layout, a tar archive of that, and images for each GPU.
pub(crate) fn images(place: &Place) {
    let layer = members().iter().fold(Layer::new(), |layer, (path, bytes)| layer.file(path, bytes)).done();
    image(&place.at("image"), Form::Gzip, std::slice::from_ref(&layer));
    place.write("image.tar", &tarred(&place.at("image")));
    place.runs(&["split", "oci:image:x", "--format", "oci", "-o", "image-split"]);
    // What `docker save` wrote before version 25.
    let manifest = br#"[{"Config":"c.json","RepoTags":["small:1.0"],"Layers":["a/layer.tar"]}]"#;
    let files: [(&str, &[u8]); 5] = [
        ("a/VERSION", b"1.0"),
        ("a/json", br#"{"id":"a"}"#),
        ("a/layer.tar", &layer),
        ("c.json", br#"{"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":[]}}"#),
        ("manifest.json", manifest),
    ];
    place.write("saved.tar", &tar_of(&files));
}

/// Single files with code.
pub(crate) fn files(place: &Place) {
    place.runs(&["kpack", "unbundle", "install/lib/libplain.so", "-o", "objects"]);
    let object = |gpu: &str| format!("objects/libplain.so.0.{gpu}.hsaco");
    place.runs(&["kpack", "bundle", &object("gfx1030"), &object("gfx90a"), "-o", "one.bundle"]);
}

/// Packages that are not read.
pub(crate) fn packages(place: &Place) {
    let tree = tarred(&place.at("install"));
    let compressed = zstd::bulk::compress(&tree, 1).unwrap();
    place.write(
        "small-1.0-0.conda",
        &zipped(&[
            ("metadata.json", br#"{"conda_pkg_format_version": 2}"#.to_vec()),
            ("pkg-small-1.0-0.tar.zst", compressed.clone()),
            ("info-small-1.0-0.tar.zst", zstd::bulk::compress(&tar_of(&[("info/index.json", b"{}")]), 1).unwrap()),
        ]),
    );
    let mut deb = b"!<arch>\n".to_vec();
    for (name, bytes) in [("debian-binary", &b"2.0\n"[..]), ("control.tar.zst", &[]), ("data.tar.zst", &compressed)] {
        writeln!(deb, "{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`", 0, 0, 0, 100_644, bytes.len()).unwrap();
        deb.extend(bytes);
        deb.resize(deb.len().next_multiple_of(2), b'\n');
    }
    place.write("small_1.0_amd64.deb", &deb);
    // The lead, and an empty header with its magic.
    let mut rpm = b"\xed\xab\xee\xdb\x03\0\0\0\0\x01small-1.0-1".to_vec();
    rpm.resize(96, 0);
    rpm.extend(b"\x8e\xad\xe8\x01\0\0\0\0\0\0\0\0\0\0\0\0");
    place.write("small-1.0-1.x86_64.rpm", &rpm);
    let metadata = b"Metadata-Version: 2.1\nName: small\nVersion: 1.0\n";
    let sdist = tar_of(&[
        ("small-1.0/PKG-INFO", metadata),
        ("small-1.0/pyproject.toml", b"[project]\nname = \"small\"\nversion = \"1.0\"\n"),
        ("small-1.0/small/kernels.hip", b"__global__ void f() {}\n"),
    ]);
    let file = File::create(place.at("small-1.0.tar.gz")).unwrap();
    let mut gzip = GzEncoder::new(file, flate2::Compression::fast());
    gzip.write_all(&sdist).unwrap();
    gzip.finish().unwrap();
}

/// What `collect` writes for several GPUs. The HIP runtime is missing.
pub(crate) fn collected(place: &Place) {
    let arguments =
        ["collect", "install", "--from", "install", "--gpu-targets", "gfx90a,gfx1030", "--shared", "-o", "pieces"];
    let output = kpackfs().args(arguments).current_dir(place.at(".")).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Inputs that are damaged.
pub(crate) fn damaged(place: &Place) {
    for (name, of) in [("small-1.0-py3-none-any.whl", place.fat()), ("cut.tar", "fat.tar"), ("cut.zip", "asset.zip")] {
        let bytes = std::fs::read(place.at(of)).unwrap();
        place.write(&format!("damaged/{name}"), &bytes[..bytes.len() / 2]);
    }
    place.write("damaged/image/oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#);
    place.write("damaged/image/index.json", b"{");
    place.write("damaged/parts/host/lib/libplain.so", &fixture("plain.so"));
    place.write("damaged/parts/.kpackfs/split.json", b"{");
}

/// Inputs without device code.
pub(crate) fn empty(place: &Place) {
    place.write("notes.txt", b"for everybody\n");
    std::fs::create_dir(place.at("empty")).unwrap();
    place.write("host-tree/lib/a.so", &fixture("host-only.so"));
    place.write("host-tree/notes", b"for everybody\n");
    let wheel = [
        ("plain/__init__.py", Vec::new()),
        ("plain/a.so", fixture("host-only.so")),
        ("plain-1.0.dist-info/METADATA", b"Metadata-Version: 2.1\nName: plain\nVersion: 1.0\n".to_vec()),
        ("plain-1.0.dist-info/WHEEL", b"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-any\n".to_vec()),
        ("plain-1.0.dist-info/RECORD", b"plain/__init__.py,,\nplain/a.so,,\n".to_vec()),
    ];
    place.write("plain-1.0-py3-none-any.whl", &zipped(&wheel));
}
