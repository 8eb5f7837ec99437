//! Images that are refused, each by what is wrong with it.

use std::fs;

use serde_json::{Value, json};
use tempfile::tempdir;

use crate::common::{fixture, program, succeeds};
use crate::images::layout::{Form, INDEX, Layer, Layout, MANIFEST, digest, image};

/// What `inspect` says about an image that it refuses.
#[track_caller]
pub(crate) fn refusal(layout: &Layout) -> String {
    refusal_with(layout, 1)
}

/// The same, with this exit code.
#[track_caller]
fn refusal_with(layout: &Layout, code: i32) -> String {
    let output = program().arg("inspect").arg(layout.name("x")).env("KPACKFS_CACHE_DIR", "").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), said.lines().count()), (Some(code), 1), "{said}");
    said
}

#[track_caller]
fn refuses(layout: &Layout, parts: &[&str]) {
    let said = refusal(layout);
    assert!(parts.iter().all(|part| said.contains(part)), "{said} lacks one of {parts:?}");
}

#[test]
fn names_and_links_that_lead_astray() {
    let base = Layer::new().symlink("link", "/etc").file("file", b"1").done();
    for (upper, parts) in [
        (Layer::new().file("../escape", b""), ["../escape", "\"..\""]),
        (Layer::new().file("a/../../escape", b""), ["escape", "\"..\""]),
        (Layer::new().file("link/passwd", b""), ["link/passwd", "is a symlink"]),
        (Layer::new().file("file/below", b""), ["file/below", "is a file"]),
        (Layer::new().hard_link("one", "../../etc/shadow"), ["one", "\"..\""]),
        (Layer::new().hard_link("one", "later").file("later", b""), ["one", "no file before it"]),
        (Layer::new().hard_link("one", "link"), ["one", "no file before it"]),
        (Layer::new().file("a/.wh.", b""), [".wh.", "without a name"]),
        (Layer::new().file("a/.wh...", b""), [".wh...", "without a name"]),
        (Layer::new().symlink("x", ""), ["\"x\"", "leads nowhere"]),
    ] {
        let place = tempdir().unwrap();
        refuses(&image(place.path(), Form::Gzip, &[base.clone(), upper.done()]), &parts);
    }
}

#[test]
fn headers_that_programs_read_in_different_ways() {
    let place = tempdir().unwrap();
    let xattr: (&str, &[u8]) = ("SCHILY.xattr.user.a", b"x\n13 path=evil\n");
    let layer =
        |records: &[(&str, &[u8])]| Layer::new().extended(records).file("lib/a.so", &fixture("mixed.so")).done();
    let layout = image(place.path(), Form::Gzip, &[layer(&[xattr])]);
    let out = succeeds(program().arg("inspect").arg(layout.name("x")).env("KPACKFS_CACHE_DIR", "")).stdout;
    let out = String::from_utf8(out).unwrap();
    assert!(out.contains("lib/a.so") && !out.contains("evil"), "{out}");
    for (records, part) in [
        ([xattr, ("size", b"512")], "programs read different sizes"),
        ([xattr, ("uid", b"99999999999")], "its uid is 99999999999"),
        ([xattr, ("gid", b"x")], "its gid is \"x\", which is no number"),
    ] {
        let place = tempdir().unwrap();
        refuses(&image(place.path(), Form::Gzip, &[layer(&records)]), &[part]);
    }
}

#[test]
fn blobs_that_are_not_what_their_descriptors_say() {
    let layer = || vec![Layer::new().file("lib/a.so", &fixture("mixed.so")).done()];
    let change = |which: usize, change: &dyn Fn(&mut Vec<u8>)| {
        let place = tempdir().unwrap();
        let layout = Layout::new(place.path());
        let manifest = layout.manifest(Form::Gzip, &layer());
        let bytes = fs::read(layout.blob_path(manifest["digest"].as_str().unwrap())).unwrap();
        let document: Value = serde_json::from_slice(&bytes).unwrap();
        layout.index(&[(manifest.clone(), "x")]);
        let of = [&manifest, &document["config"], &document["layers"][0]][which]["digest"].as_str().unwrap();
        let path = layout.blob_path(of);
        let mut bytes = fs::read(&path).unwrap();
        change(&mut bytes);
        fs::write(&path, bytes).unwrap();
        (layout, of.to_owned(), place)
    };
    for which in 0..3 {
        let (layout, digest, _place) = change(which, &|bytes| *bytes.last_mut().unwrap() ^= 1);
        refuses(&layout, &[&digest, "its digest is", "get the image again"]);
        let (layout, _, _place) = change(which, &|bytes| bytes.push(b' '));
        refuses(&layout, &["its descriptor says"]);
        let (layout, digest, _place) = change(which, &|_| {});
        fs::remove_file(layout.blob_path(&digest)).unwrap();
        refuses(&layout, &[digest.trim_start_matches("sha256:"), "No such file"]);
    }
}

#[test]
fn documents_that_cannot_be_used() {
    let place = tempdir().unwrap();
    let layout = Layout::new(place.path());
    let manifest = layout.manifest(Form::Gzip, &[Layer::new().file("a", b"").done()]);
    let with = |field: &str, value: Value| {
        let mut changed = manifest.clone();
        changed[field] = value;
        layout.index(&[(changed, "x")]);
        refusal(&layout)
    };
    assert!(with("mediaType", json!("application/vnd.oci.image.layer.v1.tar")).contains("the media type"));
    assert!(with("mediaType", json!(INDEX)).contains("missing field `manifests`"));
    assert!(with("digest", json!("sha256:../../../etc/passwd")).contains("index.json"));
    assert!(with("digest", json!(format!("sha512:{}", "0".repeat(128)))).contains("no SHA-256"));
    assert!(with("size", json!(1)).contains("its descriptor says 1"));

    let both = json!({"schemaVersion": 2, "manifests": [], "layers": [], "config": {}});
    layout.index(&[(layout.blob(both.to_string().as_bytes(), MANIFEST), "x")]);
    refuses(&layout, &["an index and a manifest at once"]);

    // Cycles cannot have the right digests.
    let this = digest(b"1");
    let index =
        json!({"schemaVersion": 2, "manifests": [{"mediaType": INDEX, "digest": this, "size": 200}]}).to_string();
    fs::write(layout.blob_path(&this), format!("{index:<200}")).unwrap();
    layout.index(&[(json!({"mediaType": INDEX, "digest": this, "size": 200}), "x")]);
    refuses(&layout, &["its digest is"]);

    let mut nested = layout.blob(json!({"schemaVersion": 2, "manifests": [manifest]}).to_string().as_bytes(), INDEX);
    for _ in 0..20 {
        nested = layout.blob(json!({"schemaVersion": 2, "manifests": [nested]}).to_string().as_bytes(), INDEX);
    }
    layout.index(&[(nested, "x")]);
    refuses(&layout, &["nested more than 16 times"]);

    let huge = layout.blob(format!("{{{}}}", " ".repeat(1_999_998)).as_bytes(), MANIFEST);
    layout.index(&[(huge, "x")]);
    refuses(&layout, &["it takes 2000000 bytes; the limit is 1048576"]);
}

#[test]
fn the_first_of_many_tags_are_named() {
    let place = tempdir().unwrap();
    let layout = Layout::new(place.path());
    let manifest = layout.manifest(Form::Gzip, &[Layer::new().file("a", b"").done()]);
    for (count, more) in [(10, ""), (11, ", and 1 more"), (3000, ", and 2990 more")] {
        let tags: Vec<_> = (0..count).map(|number| format!("t{number}")).collect();
        layout.index(&tags.iter().map(|tag| (manifest.clone(), &**tag)).collect::<Vec<_>>());
        let said = refusal_with(&layout, 5);
        let end = format!("there are t0, t1, t2, t3, t4, t5, t6, t7, t8, t9{more}");
        assert!(said.trim_end().ends_with(&end), "{said}");
    }
}

#[test]
fn layers_of_another_form_than_their_media_type_says() {
    let place = tempdir().unwrap();
    let layout = Layout::new(place.path());
    let manifest = layout.manifest(Form::Plain, &[Layer::new().file("a", b"").done()]);
    let bytes = fs::read(layout.blob_path(manifest["digest"].as_str().unwrap())).unwrap();
    for (media_type, part) in [
        ("application/vnd.oci.image.layer.v1.tar+gzip", "not compressed as its media type"),
        ("application/vnd.oci.image.layer.v1.tar+xz", "the media type"),
        ("text/plain.tar", "the media type"),
    ] {
        let mut document: Value = serde_json::from_slice(&bytes).unwrap();
        document["layers"][0]["mediaType"] = json!(media_type);
        layout.index(&[(layout.blob(document.to_string().as_bytes(), MANIFEST), "x")]);
        refuses(&layout, &[part]);
    }
    let mut document: Value = serde_json::from_slice(&bytes).unwrap();
    document["layers"] = json!([]);
    layout.index(&[(layout.blob(document.to_string().as_bytes(), MANIFEST), "x")]);
    refuses(&layout, &["it has 1 diff_ids, and the manifest 0 layers"]);
}

#[test]
fn a_layer_that_unpacks_to_a_disk_full_of_zeros_is_refused() {
    use std::io::Write;
    let place = tempdir().unwrap();
    let layout = Layout::new(place.path());
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let member = Layer::new().file("zeros", &[]).done();
    let mut header = tar::Header::from_byte_slice(&member[..512]).clone();
    header.set_size(1_200 << 20);
    header.set_cksum();
    encoder.write_all(header.as_bytes()).unwrap();
    let zeros = vec![0; 1 << 20];
    for _ in 0..1_201 {
        encoder.write_all(&zeros).unwrap();
    }
    let layer = layout.blob(&encoder.finish().unwrap(), "application/vnd.oci.image.layer.v1.tar+gzip");
    let config = json!({"rootfs": {"diff_ids": ["sha256:0"]}}).to_string();
    let config = layout.blob(config.as_bytes(), "application/vnd.oci.image.config.v1+json");
    let manifest = json!({"schemaVersion": 2, "config": config, "layers": [layer]}).to_string();
    layout.index(&[(layout.blob(manifest.as_bytes(), MANIFEST), "x")]);
    let outside = tempfile::tempdir().unwrap();
    let out = outside.path().join("out");
    let output = program().arg("split").arg(layout.name("x")).arg("-o").arg(out).arg("--no-cache").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains("--allow-ratio"), "{said}");
}
