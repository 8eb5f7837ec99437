//! Images for one GPU each.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::tempdir;

use crate::common::{fixture, program, succeeds};
use crate::images::layout::{Form, INDEX, Layer, Layout, MANIFEST, image};
use crate::images::unpacked::unpack;

/// The command that makes images of `x`.
fn split(layout: &Layout, out: &Path) -> std::process::Command {
    let mut command = program();
    command.arg("split").arg(layout.name("x")).args(["--format", "oci", "--no-cache", "-o"]).arg(out);
    command
}

/// A fixture in its thin form.
fn thin(name: &str, gpu: &str) -> Vec<u8> {
    let place = tempdir().unwrap();
    let input = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    let view = format!("thin/{gpu}");
    succeeds(program().arg("split").arg(input).args(["--view", &view, "--no-cache", "-o"]).arg(place.path()));
    fs::read(place.path().join(view).join(name)).unwrap()
}

/// What an image for a GPU has to contain: the same as the whole image, with libraries in their thin form.
fn compare(whole: &Layout, layout: &Layout, gpu: &str) {
    let mut expected = unpack(&whole.archives("x"));
    for name in ["mixed.so", "plain.so"] {
        let (fat, thin) = (fixture(name), thin(name, gpu));
        assert_ne!(fat, thin);
        expected.values_mut().filter(|file| file.content == fat).for_each(|file| file.content.clone_from(&thin));
    }
    expected.retain(|path, _| !path.contains("gfx") || path.contains(gpu));
    let found = unpack(&layout.archives(gpu));
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{gpu}");
    for (path, file) in found {
        assert!(
            file == expected[&path],
            "{gpu}: {path} differs: {:?}",
            (file.mode, file.owner, file.mtime, file.xattrs)
        );
    }
}

/// Layers with everything that has to stay as it is.
fn layers() -> Vec<Vec<u8>> {
    let long = format!("opt/{}/{}.so", "d".repeat(90), "f".repeat(120));
    let xattr: &[(&str, &[u8])] =
        &[("SCHILY.xattr.security.capability", b"\x01\0\0\x02\0\x20"), ("mtime", b"1700000000.123456789")];
    let base = Layer::new().directory("etc").file("etc/passwd", b"root").device("dev/null").done();
    let libraries = Layer::new()
        .directory("opt")
        .directory("opt/lib")
        .extended(xattr)
        .file("opt/lib/a.so", &fixture("mixed.so"))
        .hard_link("opt/lib/b.so", "opt/lib/a.so")
        .symlink("opt/lib/c.so", "/opt/lib/a.so")
        .file("opt/lib/hidden.so", &fixture("plain.so"))
        .file("opt/lib/replaced.so", &fixture("plain.so"))
        .file("opt/lib/text", b"text")
        .extended(&[("path", long.as_bytes())])
        .file("short", &fixture("plain.so"))
        .directory("opt/lib/rocblas")
        .directory("opt/lib/rocblas/library")
        .file("opt/lib/rocblas/library/TensileLibrary_Type_gfx90a.co", b"90a")
        .file("opt/lib/rocblas/library/TensileLibrary_Type_gfx1030.co", b"1030")
        .done();
    let changes = Layer::new()
        .file("opt/lib/.wh.hidden.so", b"")
        .file("opt/lib/.wh.never-there", b"")
        .file("opt/lib/replaced.so", &fixture("mixed.so"))
        .done();
    let text = Layer::new().file("etc/hosts", b"localhost").done();
    let opaque = Layer::new()
        .directory("opt/new")
        .file("opt/new/.wh..wh..opq", b"")
        .file("opt/new/one.so", &fixture("mixed.so"))
        .done();
    vec![base, libraries, changes, text, opaque]
}

#[test]
fn each_gpu_gets_the_image_with_its_code() {
    for form in [Form::Gzip, Form::Zstd, Form::Plain, Form::DockerGzip] {
        let place = tempdir().unwrap();
        let whole = image(&place.path().join("in"), form, &layers());
        let out = Layout::opened(&place.path().join("out"));
        let output = succeeds(split(&whole, &out.0).args(["--gpu-targets", "gfx90a,gfx1030"]));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("hidden.so and 1 more: left out, since a later member of the image hides it"), "{said}");
        for gpu in ["gfx90a", "gfx1030"] {
            compare(&whole, &out, gpu);
        }
    }
}

/// The digests of an image's layers.
fn digests(layout: &Layout, tag: &str) -> Vec<String> {
    let (manifest, _) = layout.documents(tag);
    let layers = manifest["layers"].as_array().unwrap();
    layers.iter().map(|layer| layer["digest"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn layers_without_device_code_stay_and_images_share_the_rest() {
    let place = tempdir().unwrap();
    let whole = image(&place.path().join("in"), Form::Gzip, &layers());
    let old = digests(&whole, "x");
    let images = ["1", "16"].map(|jobs| {
        let out = Layout::opened(&place.path().join(jobs));
        succeeds(split(&whole, &out.0).args(["-j", jobs]));
        ["gfx90a", "gfx1030", "gfx1100"].map(|gpu| digests(&out, gpu))
    });
    assert_eq!(images[0], images[1]);
    let [one, other, third] = &images[0];
    assert_eq!((one.len(), other.len()), (8, 8));
    assert_eq!([&one[0], &one[5]], [&old[0], &old[3]]);
    for shared in [0, 1, 3, 5, 6] {
        assert_eq!(one[shared], other[shared], "{shared}");
        assert!(third.contains(&one[shared]), "{shared}");
    }
    for own in [2, 4, 7] {
        assert_ne!(one[own], other[own], "{own}");
    }
    // A blob that stays is the same file.
    let inode = |layout: &Layout| fs::metadata(layout.blob_path(&old[0])).unwrap().ino();
    assert_eq!(inode(&whole), inode(&Layout::opened(&place.path().join("1"))));
    // A copy of it has its time.
    let time = |layout: &Layout| fs::metadata(layout.blob_path(&old[0])).unwrap().modified().unwrap();
    let copied = Layout::opened(&place.path().join("copied"));
    succeeds(split(&whole, &copied.0).args(["--reflink", "never"]));
    assert_ne!(inode(&whole), inode(&copied));
    assert_eq!(time(&whole), time(&copied));
}

#[test]
fn documents_fit_to_the_layers() {
    let place = tempdir().unwrap();
    let whole = image(&place.path().join("in"), Form::DockerGzip, &layers());
    let out = Layout::opened(&place.path().join("out"));
    succeeds(&mut split(&whole, &out.0));
    let ((_, old), (manifest, config)) = (whole.documents("x"), out.documents("gfx90a"));
    let history = config["history"].as_array().unwrap();
    let has_layer = |entry: &&Value| entry["empty_layer"] != true;
    assert_eq!(history.iter().filter(has_layer).count(), manifest["layers"].as_array().unwrap().len());
    assert_eq!(history[2]["created_by"], "kpackfs split --format oci --gpu-targets gfx90a");
    assert_eq!(history.last(), old["history"].as_array().unwrap().last());
    for field in ["architecture", "os", "config"] {
        assert_eq!(config[field], old[field]);
    }
    let types: BTreeSet<_> = manifest["layers"].as_array().unwrap().iter().map(|it| it["mediaType"].as_str()).collect();
    assert_eq!(types, [Some("application/vnd.oci.image.layer.v1.tar+gzip")].into());
    let annotations = manifest["annotations"].as_object().unwrap();
    assert!(annotations["io.kpackfs.source"].as_str().unwrap().starts_with("sha256:"), "{annotations:?}");
    // The list of images has one entry for each GPU.
    let index: Value = serde_json::from_slice(&fs::read(out.0.join("index.json")).unwrap()).unwrap();
    assert_eq!(index["manifests"].as_array().unwrap().len(), 3);
    assert_eq!(index["mediaType"], INDEX);
}

#[test]
fn links_stay_links_only_in_one_layer() {
    let place = tempdir().unwrap();
    let lower = Layer::new()
        .file("a.so", &fixture("mixed.so"))
        .hard_link("b.so", "a.so")
        // Hidden later, so that its other name is the file.
        .file("c.so", &fixture("plain.so"))
        .hard_link("d.so", "c.so")
        .hard_link("e.so", "d.so")
        .file("text", b"text")
        .hard_link("other", "text")
        .done();
    let upper = Layer::new().file(".wh.c.so", b"").done();
    let whole = image(&place.path().join("in"), Form::Gzip, &[lower, upper]);
    let out = Layout::opened(&place.path().join("out"));
    let output = succeeds(&mut split(&whole, &out.0));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("hard links that would lead to files of other layers, and are copies: 1"), "{said}");
    compare(&whole, &out, "gfx90a");
    let links = |archive: &Vec<u8>| {
        let mut archive = tar::Archive::new(&**archive);
        let links = archive.entries().unwrap().map(Result::unwrap);
        let links = links.filter(|entry| entry.header().entry_type() == tar::EntryType::Link);
        links.map(|entry| entry.path().unwrap().display().to_string()).collect::<Vec<_>>()
    };
    let archives = out.archives("gfx90a");
    assert_eq!(archives.iter().map(links).collect::<Vec<_>>(), [vec!["other"], vec!["b.so", "e.so"], vec![]]);
}

#[test]
fn further_gpus_are_added_to_a_layout() {
    let place = tempdir().unwrap();
    let whole = image(&place.path().join("in"), Form::Gzip, &layers());
    let [out, once] = ["out", "once"].map(|name| Layout::opened(&place.path().join(name)));
    let blobs =
        || fs::read_dir(out.0.join("blobs/sha256")).unwrap().map(|it| it.unwrap().file_name()).collect::<BTreeSet<_>>();
    succeeds(split(&whole, &out.0).args(["--gpu-targets", "gfx90a"]));
    let before = blobs();
    // A registry that serves the layout has to notice another list of images.
    let second = || fs::metadata(out.0.join("index.json")).unwrap().mtime();
    let mut last = second();
    let add = |gpu: &str| {
        let mut command = program();
        command.arg("split").arg(whole.name("x")).args(["--format", "oci", "--no-cache", "--gpu-targets", gpu]);
        command.arg("--add-to").arg(&out.0);
        command
    };
    let output = succeeds(add("gfx1030").env("RUST_LOG", "debug"));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("unchanged=2 written=3 found=3"), "{said}");
    assert!(second() > last);
    last = second();
    // Three layers, a configuration and a manifest.
    assert_eq!(blobs().difference(&before).count(), 5);
    succeeds(split(&whole, &once.0).args(["--gpu-targets", "gfx90a,gfx1030"]));
    for gpu in ["gfx90a", "gfx1030"] {
        assert_eq!(out.documents(gpu), once.documents(gpu));
        compare(&whole, &out, gpu);
    }
    let output = add("gfx1030").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        !output.status.success() && said.contains("there is an image gfx1030 in it; --force replaces it"),
        "{said}"
    );
    succeeds(add("gfx1030").arg("--force"));
    assert!(second() > last);
    assert_eq!(out.documents("gfx1030"), once.documents("gfx1030"));
    assert!(fs::read_dir(&out.0).unwrap().all(|it| !it.unwrap().file_name().to_string_lossy().starts_with('.')));
}

#[test]
fn layers_may_be_compressed_with_zstd() {
    let place = tempdir().unwrap();
    let whole = image(&place.path().join("in"), Form::Gzip, &layers());
    let out = Layout::opened(&place.path().join("out"));
    succeeds(split(&whole, &out.0).args(["--layer-compression", "zstd", "--gpu-targets", "gfx90a"]));
    compare(&whole, &out, "gfx90a");
    let (manifest, _) = out.documents("gfx90a");
    assert_eq!(manifest["layers"][2]["mediaType"], "application/vnd.oci.image.layer.v1.tar+zstd");
}

#[test]
fn what_cannot_be_written_is_refused_and_leaves_nothing() {
    let place = tempdir().unwrap();
    let whole = image(&place.path().join("in"), Form::Gzip, &layers());
    let text = Layout::new(&place.path().join("text"));
    let manifest = text.manifest(Form::Gzip, &[Layer::new().file("text", b"text").done()]);
    text.index(&[(manifest, "x")]);
    let out = place.path().join("out");
    let refusal = |command: &mut std::process::Command| {
        let output = command.output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let refuses = |command: &mut std::process::Command, part: &str| {
        let said = refusal(command);
        assert!(said.contains(part), "{said} lacks {part}");
    };
    refuses(&mut split(&text, &out), "nothing to split: it contains no device code");
    refuses(split(&whole, &out).args(["--gpu-targets", "gfx942"]), "it has code for gfx1030, gfx1100, gfx90a");
    refuses(split(&whole, &out).args(["--gpu-targets", "gfx90a:xnack+"]), "a tag cannot have this name");
    refuses(split(&whole, &out).args(["--view", "thin/gfx90a"]), "--gpu-targets chooses images");
    refuses(&mut split(&whole, &whole.0.join("out")), "it is in the input");
    let tree = ["split", "/usr/bin", "--format", "oci", "-o"];
    refuses(program().args(tree).arg(&out), "name one in an OCI layout");
    assert!(!out.exists() && !whole.0.join("out").exists());
    refuses(program().args(["split", "x.whl"]), "--output");
    succeeds(&mut split(&whole, &out));
    refuses(&mut split(&whole, &out), "there already");
    succeeds(split(&whole, &out).arg("--force"));
}

/// Signatures and attestations are about the digest of the image.
#[test]
fn what_is_about_the_whole_image_is_left_out_and_named() {
    let place = tempdir().unwrap();
    let layout = Layout::new(&place.path().join("in"));
    let manifest = layout.manifest(Form::Gzip, &layers());
    let digest = manifest["digest"].as_str().unwrap();
    let text = layout.manifest(Form::Gzip, &[Layer::new().file("text", b"text").done()]);
    let signature = json!({
        "schemaVersion": 2, "mediaType": MANIFEST, "artifactType": "application/vnd.example.signature", "config": text,
        "layers": [], "subject": manifest,
    });
    let signature = layout.blob(signature.to_string().as_bytes(), MANIFEST);
    let other = json!({
        "schemaVersion": 2, "mediaType": MANIFEST, "artifactType": "application/vnd.example.other", "config": text,
        "layers": [], "subject": text,
    });
    let other = layout.blob(other.to_string().as_bytes(), MANIFEST);
    let cosign = format!("{}.sig", digest.replace(':', "-"));
    layout.index(&[(manifest.clone(), "x"), (signature, "signature"), (other, "other"), (text, &cosign)]);
    let path = layout.0.join("index.json");
    let mut index: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let mut attestation = index["manifests"][3].clone();
    attestation["annotations"] =
        json!({"vnd.docker.reference.type": "attestation-manifest", "vnd.docker.reference.digest": digest});
    index["manifests"].as_array_mut().unwrap().push(attestation);
    fs::write(&path, index.to_string()).unwrap();
    let out = Layout::opened(&place.path().join("out"));
    let said = String::from_utf8(succeeds(split(&layout, &out.0).args(["--gpu-targets", "gfx90a"])).stderr).unwrap();
    let named = "3 left out (application/vnd.example.signature, attestation-manifest, cosign's .sig)";
    assert!(said.contains(named), "{said}");
    let index: Value = serde_json::from_slice(&fs::read(out.0.join("index.json")).unwrap()).unwrap();
    assert_eq!(index["manifests"].as_array().unwrap().len(), 1);
}

/// The layer of a GPU is the largest one. Without it the others fit.
#[test]
fn layers_that_exceed_a_limit_are_not_written() {
    let place = tempdir().unwrap();
    let noise: Vec<u8> = (0_u32..100_000).flat_map(|at| at.wrapping_mul(2_654_435_761).to_be_bytes()).collect();
    let layer = Layer::new()
        .file("opt/lib/a.so", &fixture("mixed.so"))
        .file("opt/lib/rocblas/library/TensileLibrary_Type_gfx90a.co", &noise)
        .file("opt/lib/rocblas/library/TensileLibrary_Type_gfx1030.co", b"1030");
    let whole = image(&place.path().join("in"), Form::Gzip, &[layer.done(), Layer::new().file("etc/x", b"x").done()]);
    let split = |out: &str, options: &[String]| {
        let mut command = program();
        command.arg("split").arg(whole.name("x")).args(["--quiet", "--format", "oci", "--no-cache", "-o"]);
        let output = command.arg(place.path().join(out)).args(options).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let limit = |bytes: u64| vec!["--max-part".to_owned(), bytes.to_string()];
    assert_eq!(split("out", &[]).0, Some(0));
    let blobs = fs::read_dir(place.path().join("out/blobs/sha256")).unwrap();
    let largest = blobs.map(|blob| blob.unwrap().metadata().unwrap().len()).max().unwrap();
    assert_eq!(split("limited", &limit(largest)).0, Some(0));
    let (code, said) = split("refused", &limit(largest - 1));
    assert!(code == Some(1) && said.contains("layer 0 for gfx90a: ") && said.contains("(1 bytes)"), "{said}");
    assert!(said.contains("TensileLibrary_Type_gfx90a.co (390.62 KiB)"), "{said}");
    assert!(!place.path().join("refused/index.json").exists());
    let gpus = said.split("--gpu-targets ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    assert!(gpus.contains("gfx1030") && !gpus.contains("gfx90a"), "{said}");
    let options = [limit(largest - 1), vec!["--gpu-targets".to_owned(), gpus.to_owned()]].concat();
    assert_eq!(split("followed", &options), (Some(0), String::new()));
    // A layer that stays as it is needs no work.
    let (code, said) = split("early", &limit(1));
    assert!(code == Some(1) && said.contains("layer 1: ") && !place.path().join("early").exists(), "{said}");
}
