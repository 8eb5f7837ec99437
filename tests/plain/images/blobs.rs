//! Blobs that new images take from the input or from the layout to which they are added.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::tempdir;

use crate::common::{fixture, program, succeeds};
use crate::images::layout::{Form, Layer, Layout, MANIFEST, digest, image};

const CONFIG: &str = "application/vnd.oci.image.config.v1+json";

/// Two layers that stay as they are around one that is divided.
fn layers() -> Vec<Vec<u8>> {
    let base = Layer::new().file("etc/passwd", b"root").done();
    let library = Layer::new().file("a.so", &fixture("mixed.so")).file("text", b"text").done();
    vec![base, library, Layer::new().file("etc/hosts", b"localhost").done()]
}

/// The command that makes images of `x`.
fn split(layout: &Layout) -> std::process::Command {
    let mut command = program();
    command.arg("split").arg(layout.name("x")).args(["--format", "oci", "--no-cache"]);
    command
}

fn blobs(layout: &Layout) -> Vec<PathBuf> {
    let mut found: Vec<_> =
        fs::read_dir(layout.0.join("blobs/sha256")).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found
}

/// Everything in the layout is a file with the digest that is its name.
#[track_caller]
fn check_blobs(layout: &Layout) {
    for path in blobs(layout) {
        assert!(path.symlink_metadata().unwrap().is_file(), "{}", path.display());
        let name = path.file_name().unwrap().to_str().unwrap();
        assert_eq!(digest(&fs::read(&path).unwrap()), format!("sha256:{name}"));
    }
}

/// Moves the blobs of a layout to `store`, and leaves symlinks to them.
fn move_blobs(layout: &Layout, store: &Path, prefix: &Path) {
    fs::create_dir_all(store).unwrap();
    for path in blobs(layout) {
        let name = path.file_name().unwrap();
        fs::rename(&path, store.join(name)).unwrap();
        symlink(prefix.join(name), &path).unwrap();
    }
}

#[test]
fn blobs_behind_symlinks_are_files_in_new_images() {
    for is_relative in [true, false] {
        for reflink in ["auto", "never"] {
            let place = tempdir().unwrap();
            let whole = image(&place.path().join("in"), Form::Gzip, &layers());
            let store = place.path().join("in/store");
            move_blobs(&whole, &store, if is_relative { Path::new("../../store") } else { &store });
            // A link to a link leads to the same file.
            let base = &whole.documents("x").0["layers"][0];
            let base = whole.blob_path(base["digest"].as_str().unwrap());
            let target = fs::read_link(&base).unwrap();
            symlink(&target, base.with_file_name("link")).unwrap();
            fs::remove_file(&base).unwrap();
            symlink("link", &base).unwrap();
            let out = Layout::opened(&place.path().join("deep/er/out"));
            succeeds(split(&whole).args(["--reflink", reflink, "-o"]).arg(&out.0));
            let name = base.file_name().unwrap();
            let inode = |path: &Path| fs::metadata(path).unwrap().ino();
            let is_linked = inode(&store.join(name)) == inode(&out.0.join("blobs/sha256").join(name));
            assert_eq!(is_linked, reflink == "auto");
            fs::remove_dir_all(&whole.0).unwrap();
            check_blobs(&out);
            out.archives("gfx90a");
        }
    }
}

/// What `--add-to` says when a GPU is added.
fn add(whole: &Layout, out: &Layout, gpus: &str) -> String {
    let mut command = split(whole);
    command.args(["--force", "--reflink", "never", "--gpu-targets", gpus, "--add-to"]).arg(&out.0);
    String::from_utf8(succeeds(command.env("RUST_LOG", "debug")).stderr).unwrap()
}

#[test]
fn damaged_blobs_of_a_layout_are_written_again() {
    let place = tempdir().unwrap();
    let whole = image(&place.path().join("in"), Form::Gzip, &layers());
    let out = Layout::opened(&place.path().join("out"));
    succeeds(split(&whole).args(["--reflink", "never", "--gpu-targets", "gfx90a", "-o"]).arg(&out.0));
    let expected = out.documents("gfx90a");
    let all = blobs(&out);
    // Three of layers that all share, one of the GPU, a configuration and a manifest.
    assert_eq!(all.len(), 6);
    for path in &all {
        let good = fs::read(path).unwrap();
        let mut flipped = good.clone();
        flipped[40..43].copy_from_slice(b"\xff\xff\xff");
        for damage in [Some(good[..20].to_vec()), Some(flipped), Some(Vec::new()), None] {
            fs::remove_file(path).unwrap();
            match damage {
                Some(bytes) => fs::write(path, bytes).unwrap(),
                None => symlink("nowhere", path).unwrap(),
            }
            add(&whole, &out, "gfx90a,gfx1030");
            check_blobs(&out);
            assert_eq!(out.documents("gfx90a"), expected);
            for gpu in ["gfx90a", "gfx1030"] {
                out.archives(gpu);
            }
        }
    }
    // What is in order is not written again.
    let inodes = || blobs(&out).iter().map(|path| fs::metadata(path).unwrap().ino()).collect::<Vec<_>>();
    let before = inodes();
    let said = add(&whole, &out, "gfx90a,gfx1030");
    assert!(said.contains("unchanged=2 written=0 found=3"), "{said}");
    assert_eq!(inodes(), before);
}

/// The layers of an image that cannot be read are made again, and the user learns which image that is.
#[test]
fn a_damaged_image_of_a_layout_is_named() {
    let place = tempdir().unwrap();
    let whole = image(&place.path().join("in"), Form::Gzip, &layers());
    let out = Layout::opened(&place.path().join("out"));
    succeeds(split(&whole).args(["--gpu-targets", "gfx90a", "-o"]).arg(&out.0));
    let index: Value = serde_json::from_slice(&fs::read(out.0.join("index.json")).unwrap()).unwrap();
    let manifest = index["manifests"][0]["digest"].as_str().unwrap().to_owned();
    fs::write(out.blob_path(&manifest), b"{}").unwrap();
    let said = add(&whole, &out, "gfx1030");
    assert!(said.contains(&manifest[7..]) && said.contains("layers of this image are made again"), "{said}");
    out.archives("gfx1030");
}

#[test]
fn blobs_of_the_input_are_not_replaced_through_a_layout() {
    let place = tempdir().unwrap();
    let whole = image(&place.path().join("in"), Form::Gzip, &layers());
    let out = Layout::opened(&place.path().join("out"));
    succeeds(split(&whole).args(["--gpu-targets", "gfx90a", "-o"]).arg(&out.0));
    fs::rename(out.0.join("blobs"), place.path().join("moved")).unwrap();
    for path in fs::read_dir(place.path().join("moved/sha256")).unwrap() {
        let path = path.unwrap().path();
        let place = whole.0.join("blobs/sha256").join(path.file_name().unwrap());
        if !place.exists() {
            fs::copy(path, place).unwrap();
        }
    }
    symlink(whole.0.join("blobs"), out.0.join("blobs")).unwrap();
    let before = blobs(&whole);
    let output = split(&whole).args(["--gpu-targets", "gfx1030", "--add-to"]).arg(&out.0).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && said.contains("it is in the input"), "{said}");
    assert_eq!(blobs(&whole), before);
}

/// An image whose configuration states these digests of its archives.
fn lying(place: &Path, form: Form, lies: &BTreeMap<usize, String>) -> Layout {
    let layout = image(place, form, &layers());
    let (mut manifest, mut config) = layout.documents("x");
    for (number, lie) in lies {
        config["rootfs"]["diff_ids"][number] = json!(lie);
    }
    manifest["config"] = layout.blob(config.to_string().as_bytes(), CONFIG);
    layout.index(&[(layout.blob(manifest.to_string().as_bytes(), MANIFEST), "x")]);
    layout
}

/// Docker, containerd and umoci refuse an image whose layers do not unpack to what `diff_ids` state.
#[test]
fn false_diff_ids_are_named_and_new_images_have_right_ones() {
    let lie = digest(b"another archive");
    for form in [Form::Gzip, Form::Zstd, Form::Plain, Form::DockerGzip] {
        for wrong in [vec![], vec![0], vec![2], vec![0, 1, 2]] {
            let place = tempdir().unwrap();
            let lies: BTreeMap<_, _> = wrong.iter().map(|number| (*number, lie.clone())).collect();
            let whole = lying(&place.path().join("in"), form, &lies);
            let out = Layout::opened(&place.path().join("out"));
            let said = succeeds(split(&whole).args(["--gpu-targets", "gfx90a", "-o"]).arg(&out.0)).stderr;
            let said = String::from_utf8(said).unwrap();
            let named: Vec<_> = said.lines().filter(|line| line.contains("diff_ids")).collect();
            // That of a divided layer is not in new images.
            let of_unchanged: Vec<_> = wrong.iter().filter(|number| **number != 1).collect();
            assert_eq!(named.len(), of_unchanged.len(), "{said}");
            for (line, number) in named.into_iter().zip(of_unchanged) {
                let right = digest(&layers()[*number]);
                for part in [&format!("layer {number} "), &lie, &right] {
                    assert!(line.contains(part), "{line} lacks {part}");
                }
            }
            // This compares diff_ids.
            out.archives("gfx90a");
        }
    }
}
