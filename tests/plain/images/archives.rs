//! Layouts in tar archives: the same images as in directories.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use kpackfs::image::{ImageReference, LayoutForm, open_root};
use kpackfs::opened::{Named, NotUnderstood, recognise};
use kpackfs::resources::Resources;
use serde_json::{Value, json};
use tempfile::tempdir;

use crate::common::{fixture, program, skipped, succeeds};
use crate::images::layout::{Form, Layer, Layout, image};
use crate::images::read::shown_as;

/// An image with device code in an upper layer, a whiteout and a hard link.
fn layers() -> Vec<Vec<u8>> {
    let lower = Layer::new().directory("lib").file("lib/gone", b"1").file("lib/text", &[b't'; 3000]);
    let upper = Layer::new().file("lib/a.so", &fixture("mixed.so")).hard_link("lib/b.so", "lib/a.so");
    vec![lower.done(), upper.file("lib/.wh.gone", b"").done()]
}

/// The archive of a layout, with names that begin with `./`.
fn tarred(layout: &Layout, name: &str) -> PathBuf {
    let archive = layout.0.with_file_name(name);
    succeeds(Command::new("tar").arg("-C").arg(&layout.0).arg("-cf").arg(&archive).arg("."));
    archive
}

fn named(archive: &Path) -> String {
    format!("oci-archive:{}:x", archive.display())
}

fn output_of(arguments: &[&str]) -> (Option<i32>, String) {
    let output = program().args(arguments).env("KPACKFS_CACHE_DIR", "").output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap())
}

#[track_caller]
fn refuses(archive: &Path, parts: &[&str]) {
    let (code, said) = output_of(&["inspect", &named(archive)]);
    assert!(code == Some(1) && said.lines().count() == 1, "{code:?} {said}");
    assert!(said.contains(archive.to_str().unwrap()) && parts.iter().all(|part| said.contains(part)), "{said}");
}

#[test]
fn an_archive_has_the_images_of_its_layout() {
    for form in [Form::Plain, Form::Gzip, Form::Zstd, Form::DockerGzip] {
        let place = tempdir().unwrap();
        let layout = image(&place.path().join("layout"), form, &layers());
        let archive = tarred(&layout, "x.tar");
        let expected = shown_as(&layout.name("x"));
        assert_eq!(expected.len(), 4, "{expected:?}");
        assert_eq!(shown_as(&named(&archive)), expected, "{form:?}");

        let report = |name: &str| -> Value {
            let output = succeeds(program().args(["inspect", "--json", "--no-cache", name]));
            let mut report: Value = serde_json::from_slice(&output.stdout).unwrap();
            report.as_object_mut().unwrap().remove("input");
            report
        };
        assert_eq!(report(&named(&archive)), report(&layout.name("x")), "{form:?}");
    }
}

#[test]
fn an_archive_by_skopeo_has_the_image_that_it_copied() {
    if Command::new("skopeo").arg("--version").output().is_err() {
        return skipped("there is no skopeo that writes an archive");
    }
    let place = tempdir().unwrap();
    let layout = image(&place.path().join("layout"), Form::Gzip, &layers());
    let archive = place.path().join("skopeo.tar");
    succeeds(Command::new("skopeo").args(["copy", "--quiet", &layout.name("x"), &named(&archive)]));
    assert_eq!(shown_as(&named(&archive)), shown_as(&layout.name("x")));
    assert!(matches!(recognise(&archive), Ok(Named::Image(it)) if it.form == LayoutForm::Archive && it.tag.is_none()));
}

#[test]
fn images_for_gpus_are_the_same_from_an_archive() {
    let place = tempdir().unwrap();
    let layout = image(&place.path().join("layout"), Form::Gzip, &layers());
    let split = |name: &str, out: &str| {
        let out = place.path().join(out);
        let mut split = program();
        split.args(["split", "--format", "oci", "--no-cache", "--gpu-targets", "gfx90a", name, "-o"]).arg(&out);
        succeeds(&mut split);
        Layout::opened(&out)
    };
    let (of_directory, archive) = (split(&layout.name("x"), "1"), tarred(&layout, "x.tar"));
    for (name, out) in [(named(&archive), "2"), (archive.display().to_string(), "3")] {
        let of_archive = split(&name, out);
        assert_eq!(of_archive.archives("gfx90a"), of_directory.archives("gfx90a"), "{name}");
        assert_eq!(of_archive.documents("gfx90a"), of_directory.documents("gfx90a"), "{name}");
    }
}

#[test]
fn an_archive_is_recognised_by_its_members() {
    let place = tempdir().unwrap();
    let layout = image(&place.path().join("layout"), Form::Gzip, &layers());
    let archive = tarred(&layout, "image");
    let Ok(Named::Image(reference)) = recognise(&archive) else { panic!("no image") };
    assert_eq!(reference, ImageReference { layout: archive.clone(), form: LayoutForm::Archive, tag: None });
    let input = open_root(&reference, &Resources::new(16 << 20)).unwrap();
    assert_eq!(input.entries.len(), 4);

    // More names than a tree is given before its first sign of an image, as in an image of many layers.
    let many: Vec<_> = (0..30).map(|number: u32| Layer::new().file("a", &number.to_le_bytes()).done()).collect();
    let layout = image(&place.path().join("many"), Form::Plain, &many);
    assert!(matches!(recognise(&tarred(&layout, "many.tar")), Ok(Named::Image(_))));

    // A damaged archive of images is no tree without device code.
    fs::remove_file(layout.0.join("oci-layout")).unwrap();
    let Ok(Named::Image(reference)) = recognise(&tarred(&layout, "cut.tar")) else { panic!("no image") };
    let said = open_root(&reference, &Resources::new(16 << 20)).unwrap_err().to_string();
    assert!(said.contains("cut.tar: not an OCI image layout") && said.contains("oci-layout"), "{said}");
    let error = recognise("oci-archive:none.tar:x".as_ref()).unwrap_err();
    assert!(matches!(error.downcast_ref(), Some(NotUnderstood::NotThere(it)) if it == Path::new("none.tar")));
}

#[test]
fn archives_that_are_not_what_they_should_be_are_refused() {
    let place = tempdir().unwrap();
    let layout = image(&place.path().join("layout"), Form::Gzip, &layers());
    let archive = tarred(&layout, "x.tar");
    let whole = fs::read(&archive).unwrap();
    let (manifest, _) = layout.documents("x");
    let layer = manifest["layers"][1]["digest"].as_str().unwrap().trim_start_matches("sha256:");

    let text = output_of(&["inspect", &format!("oci-archive:{}:y", archive.display())]).1;
    assert!(text.contains("there is no image \"y\"; there are x"), "{text}");

    // An image that is not there is an input that is not there, for every command.
    for lacking in [format!("oci-archive:{}:y", archive.display()), layout.name("y")] {
        for command in [
            &["inspect", &lacking][..],
            &["inspect", &lacking, "--require", "gfx90a"],
            &["split", &lacking, "--format", "oci", "-o", "none"],
            &["why", &lacking, "--target", "gfx90a"],
            &["verify", &lacking],
            &["diff", &lacking, &lacking],
            &["ls", &lacking],
        ] {
            let (code, said) = output_of(command);
            assert!(code == Some(5) && said.contains("there is no image \"y\""), "{command:?}: {code:?} {said}");
        }
    }

    let packed = place.path().join("x.tar.gz");
    let mut encoder = flate2::write::GzEncoder::new(File::create(&packed).unwrap(), flate2::Compression::fast());
    std::io::copy(&mut &*whole, &mut encoder).unwrap();
    encoder.finish().unwrap();
    let (code, said) = output_of(&["inspect", &named(&packed)]);
    let command = format!("decompress it and name the result: gunzip --keep {}", packed.display());
    assert!(code == Some(5) && said.contains(&command), "{code:?} {said}");

    let cut = place.path().join("cut.tar");
    fs::write(&cut, &whole[..whole.len() / 2]).unwrap();
    refuses(&cut, &[]);
    fs::write(&cut, "neither").unwrap();
    refuses(&cut, &["no tar archive"]);

    // What is no layout is none after another download.
    let other = tarred(&layout, "other.tar");
    succeeds(Command::new("tar").arg("-f").arg(&other).args(["--delete", "./oci-layout", "./index.json", "./blobs"]));
    let said = output_of(&["inspect", &named(&other)]).1;
    assert!(
        said.contains("the archive has no such file; skopeo copy") && !said.contains("get the image again"),
        "{said}"
    );

    // A byte of the layer, in the archive.
    let blob = fs::read(layout.blob_path(&format!("sha256:{layer}"))).unwrap();
    let at = whole.windows(blob.len()).position(|bytes| bytes == blob).unwrap();
    let mut damaged = whole.clone();
    damaged[at + blob.len() / 2] ^= 1;
    fs::write(&cut, &damaged).unwrap();
    refuses(&cut, &[layer, "its digest is", "get the image again"]);

    fs::remove_file(layout.blob_path(&format!("sha256:{layer}"))).unwrap();
    refuses(&tarred(&layout, "less.tar"), &[layer, "the archive has no such file"]);
    // A link to a file of this machine is no file of the archive.
    std::os::unix::fs::symlink("/etc/passwd", layout.blob_path(&format!("sha256:{layer}"))).unwrap();
    refuses(&tarred(&layout, "link.tar"), &[layer, "the archive has no such file"]);

    fs::write(layout.0.join("oci-layout"), json!({"imageLayoutVersion": "9"}).to_string()).unwrap();
    refuses(&tarred(&layout, "new.tar"), &["not an OCI image layout", "\"9\""]);
    fs::write(layout.0.join("index.json"), vec![b' '; 2_000_000]).unwrap();
    fs::write(layout.0.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
    refuses(&tarred(&layout, "huge.tar"), &["index.json", "the limit is 1048576"]);
}
