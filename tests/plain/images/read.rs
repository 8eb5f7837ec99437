//! The root file system of an image.

use kpackfs::image::{ImageReference, open_root};
use kpackfs::resources::Resources;
use kpackfs::rope::{Content, read_all};
use kpackfs::source::EntryKind;
use serde_json::json;
use tempfile::tempdir;

use crate::common::{fixture, program};
use crate::images::layout::{Form, INDEX, Layer, Layout, image};

/// Path and kind of everything in an image: the content of a file, the target of a symlink.
pub(crate) fn shown(layout: &Layout) -> Vec<String> {
    shown_as(&layout.name("x"))
}

/// The same of the image with this name.
pub(crate) fn shown_as(name: &str) -> Vec<String> {
    let reference = ImageReference::parse(name.as_ref()).unwrap();
    let input = open_root(&reference, &Resources::new(16 << 20)).unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let all = |content: &dyn Content| {
        let mut bytes = Vec::new();
        read_all(content, |piece| bytes.extend_from_slice(piece)).unwrap();
        text(&bytes)
    };
    let line = |entry: &kpackfs::source::Entry| match &entry.kind {
        EntryKind::Directory => format!("{}/ {:o}", entry.path, entry.attributes.mode),
        EntryKind::Symlink(target) => format!("{} -> {}", entry.path, text(target)),
        EntryKind::File { content, .. } => {
            format!("{} = {}", entry.path, all(&**content))
        }
    };
    input.entries.iter().map(line).collect()
}

/// As in images whose builders make a layer for each step, whatever it changes.
#[test]
fn a_blob_that_is_several_layers_is_read_once() {
    let place = tempdir().unwrap();
    let (first, same) = (Layer::new().file("a", b"1").done(), Layer::new().file("b", &vec![7; 100_000]).done());
    for form in [Form::Plain, Form::Gzip] {
        let read = |name: &str, layers: &[&Vec<u8>]| {
            let layers: Vec<_> = layers.iter().map(|layer| (*layer).clone()).collect();
            let layout = image(&place.path().join(name), form, &layers);
            let resources = Resources::new(16 << 20);
            open_root(&ImageReference::parse(layout.name("x").as_ref()).unwrap(), &resources).unwrap();
            (resources.counters.bytes_hashed.get(), resources.counters.bytes_inflated.get())
        };
        assert_eq!(read("many", &[&first, &same, &same, &same]), read("one", &[&first, &same]), "{form:?}");
    }
}

#[test]
fn layers_are_laid_over_each_other() {
    let lower = Layer::new()
        .directory("a/")
        .file("./a/kept", b"1")
        .file("a/changed", b"2")
        .file("a/removed", b"3")
        .file("b/gone", b"4")
        .file("b/deep/gone", b"5")
        .directory("becomes-file/")
        .file("becomes-file/x", b"6")
        .file("becomes-directory", b"7")
        .symlink("opt/rocm", "/opt/rocm-7.2")
        .device("dev/null")
        .done();
    let upper = Layer::new()
        .file("a/changed", b"new")
        .file("a/.wh.removed", b"")
        .file("a/.wh.never-there", b"")
        .directory("b")
        // It stands behind what it does not remove.
        .file("b/new", b"8")
        .file("b/.wh..wh..opq", b"")
        .file("becomes-file", b"9")
        .directory("becomes-directory")
        .file("becomes-directory/y", b"10")
        .hard_link("c/linked", "a/kept")
        .file(".wh..wh.plnk", b"")
        .done();
    let expected = [
        "a/ 751",
        "a/changed = new",
        "a/kept = 1",
        "b/ 751",
        "b/new = 8",
        "becomes-directory/ 751",
        "becomes-directory/y = 10",
        "becomes-file = 9",
        "c/ 755",
        "c/linked = 1",
        "opt/ 755",
        "opt/rocm -> ../opt/rocm-7.2",
    ];
    for form in [Form::Plain, Form::Gzip, Form::Zstd, Form::DockerGzip] {
        let place = tempdir().unwrap();
        let layout = image(place.path(), form, &[lower.clone(), upper.clone()]);
        assert_eq!(shown(&layout), expected, "{form:?}");
    }
}

#[test]
fn an_image_is_found_through_indexes_and_platforms() {
    let place = tempdir().unwrap();
    let layout = Layout::new(place.path());
    let mut wanted = layout.manifest(Form::Gzip, &[Layer::new().file("wanted", b"").done()]);
    let mut other = layout.manifest(Form::Gzip, &[Layer::new().file("other", b"").done()]);
    let mut attestation = layout.blob(b"no manifest", crate::images::layout::MANIFEST);
    wanted["platform"] = json!({"architecture": "amd64", "os": "linux"});
    other["platform"] = json!({"architecture": "arm64", "os": "linux"});
    attestation["annotations"] = json!({"vnd.docker.reference.type": "attestation-manifest"});
    let inner = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [other, wanted, attestation]});
    let inner = layout.blob(inner.to_string().as_bytes(), INDEX);
    let outer = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [inner]});
    let outer = layout.blob(outer.to_string().as_bytes(), INDEX);
    layout.index(&[(outer, "x")]);
    assert_eq!(shown(&layout), ["wanted = "]);
}

#[test]
fn the_gate_and_why_judge_the_root_file_system() {
    let place = tempdir().unwrap();
    let lower =
        Layer::new().file("lib/a.so", &fixture("mixed.so")).file("lib/hidden.so", &fixture("features.so")).done();
    let upper = Layer::new().file("lib/.wh.hidden.so", b"").file("lib/b.so", &fixture("plain.so")).done();
    let layout = image(place.path(), Form::Gzip, &[lower, upper]);
    let run = |arguments: &[&str]| {
        let output = program().args(arguments).arg(layout.name("x")).env("KPACKFS_CACHE_DIR", "").output().unwrap();
        let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        (output.status.code(), out, err)
    };
    let (code, out, err) = run(&["inspect"]);
    assert!(code == Some(0) && out.contains("lib/b.so") && !out.contains("hidden.so"), "{out}{err}");
    let (code, out, _) = run(&["inspect", "--require", "gfx803"]);
    assert!(code == Some(1) && out.contains("lib/a.so"), "{out}");
    let (code, out, err) = run(&["why", "--target", "gfx803"]);
    assert!(code == Some(1) && out.contains("/lib/a.so"), "{out}{err}");
}
