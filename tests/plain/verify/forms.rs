//! The forms of what is verified and of what it is compared with.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use kpackfs::opened::{NotUnderstood, is_not_understood};
use kpackfs::resources::Resources;
use kpackfs::verify::{Rule, VerifyOptions, VerifyReport};
use sha2::{Digest, Sha256};

use crate::common::{files_below, paths_below};
use crate::verify::installations::{fat, installed, wheel, wheels};
use crate::verify::splits::{Split, edit};
use crate::verify::wheels::{split, unpacked};

fn run(path: &Path, against: Option<&Path>) -> anyhow::Result<VerifyReport> {
    let resources = Resources::new(64 << 20);
    crate::verify::splits::try_verify(
        &[path.to_owned()],
        against.map(Path::to_owned).as_slice(),
        &VerifyOptions::default(),
        &resources,
    )
}

/// The wheel of an unpacked one.
fn packed(unpacked: &Path, wheel: &Path) {
    let mut zip = zip::ZipWriter::new(File::create(wheel).unwrap());
    for (path, bytes) in files_below(unpacked) {
        zip.start_file(path.to_str().unwrap(), zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(&bytes).unwrap();
    }
    zip.finish().unwrap();
}

#[test]
fn a_fat_wheel_may_be_next_to_its_digest() {
    let fat = fat();
    let place = tempfile::tempdir().unwrap();
    let against = place.path().join("release");
    fs::create_dir(&against).unwrap();
    packed(fat.path(), &against.join("fat-1.0-py3-none-any.whl"));
    fs::write(against.join("SHA256SUMS"), "").unwrap();
    let out = wheels(fat.path(), &[]);
    let site = installed(&[wheel(&out, "fat-1.0"), wheel(&out, "amd_fat_device_gfx90a")]);
    let found = || run(site.path(), Some(&against)).unwrap().findings;
    assert_eq!(found(), []);
    fs::remove_file(site.path().join("fat/version.py")).unwrap();
    assert!(found().iter().any(|it| it.rule == Rule::AgainstLost && it.path == "fat/version.py"));
    // An index of that one wheel as well.
    let index = place.path().join("index");
    fs::create_dir_all(index.join("simple/fat")).unwrap();
    for page in ["simple/index.html", "simple/fat/index.html"] {
        fs::write(index.join(page), "").unwrap();
    }
    fs::rename(against.join("fat-1.0-py3-none-any.whl"), index.join("simple/fat/fat-1.0-py3-none-any.whl")).unwrap();
    let of_index = run(site.path(), Some(&index)).unwrap().findings;
    assert!(of_index.iter().any(|it| it.rule == Rule::AgainstLost && it.path == "fat/version.py"));
}

#[test]
fn what_is_no_fat_input_is_named() {
    let fat = fat();
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    split(fat.path(), &at("parts"), &["--view", "thin/gfx90a"]);
    split(fat.path(), &at("index"), &["--format", "index"]);
    split(fat.path(), &at("wheels"), &["--format", "wheel"]);
    fs::write(at("code.kpack"), b"KPAK").unwrap();
    let names = fs::read_dir(at("wheels")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let host = names.filter(|name| name.starts_with("fat-1.0")).map(|name| format!("wheels/{name}")).next().unwrap();
    for (name, what) in [
        ("parts", "an output of `split` is no fat input"),
        ("index", "the host wheel of a split is no fat input"),
        ("index/simple", "the host wheel of a split is no fat input"),
        ("wheels", "the host wheel of a split is no fat input"),
        (&host, "the host wheel of a split is no fat input"),
        ("code.kpack", "a .kpack archive is no fat input"),
    ] {
        let error = run(&at("wheels"), Some(&at(name))).unwrap_err();
        assert!(error.to_string().contains(what) && !is_not_understood(&error), "{name}: {error}");
    }
    let absent = |error: anyhow::Error| matches!(error.downcast_ref(), Some(NotUnderstood::NotThere(_)));
    assert!(absent(run(&at("wheels"), Some(&at("absent"))).unwrap_err()));
    assert!(absent(run(&at("absent"), None).unwrap_err()));
}

#[test]
fn packages_below_a_tree_are_not_compared_with_a_wheel() {
    let fat = fat();
    let place = tempfile::tempdir().unwrap();
    let against = place.path().join("fat-1.0-py3-none-any.whl");
    packed(fat.path(), &against);
    let out = wheels(fat.path(), &[]);
    let site = installed(&[wheel(&out, "fat-1.0"), wheel(&out, "amd_fat_device_gfx90a")]);
    let (root, packages) = (place.path().join("root"), place.path().join("root/usr/lib/python3.12/site-packages"));
    fs::create_dir_all(packages.parent().unwrap()).unwrap();
    fs::rename(site.path(), &packages).unwrap();
    fs::create_dir(site.path()).unwrap();
    assert_eq!(run(&packages, Some(&against)).unwrap().findings, []);
    let tar = place.path().join("root.tar");
    assert!(Command::new("tar").arg("-cf").arg(&tar).arg("-C").arg(&root).arg(".").status().unwrap().success());
    for path in [root, tar] {
        let error = run(&path, Some(&against)).unwrap_err().to_string();
        assert!(error.contains("packages are installed below it, such as that of usr/lib/python3.12"), "{error}");
    }
}

#[test]
fn thin_wheels_are_not_written_into_parts_of_a_split() {
    let (fat, place) = (fat(), tempfile::tempdir().unwrap());
    let out = place.path().join("out");
    split(fat.path(), &out, &[]);
    let mut command = assert_cmd::Command::cargo_bin("kpackfs").unwrap();
    let command =
        command.args(["split", "--format", "thin-wheel", "--force", "--gpu-targets", "gfx90a", "-o"]).arg(&out);
    let assert = command.arg(fat.path()).assert().code(1);
    let message = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(message.contains("out/gfx90a: it is a part of a split"), "{message}");
    assert_eq!(run(&out, None).unwrap().findings, []);
}

/// A layout with one image of one layer.
fn layout(root: &Path, layout: &Path) {
    let blobs = layout.join("blobs/sha256");
    fs::create_dir_all(&blobs).unwrap();
    let put = |bytes: &[u8], kind: &str| {
        let name = Sha256::digest(bytes).iter().fold(String::new(), |name, byte| format!("{name}{byte:02x}"));
        fs::write(blobs.join(&name), bytes).unwrap();
        let media_type = format!("application/vnd.oci.image.{kind}");
        serde_json::json!({ "mediaType": media_type, "digest": format!("sha256:{name}"), "size": bytes.len() })
    };
    let tar = Command::new("tar").arg("-C").arg(root).args(["-cf", "-", "."]).output().unwrap();
    let layer = put(&tar.stdout, "layer.v1.tar");
    let diff_ids = [&layer["digest"]];
    let config = serde_json::json!({
        "architecture": "amd64", "os": "linux", "rootfs": { "type": "layers", "diff_ids": diff_ids },
    });
    let config = put(config.to_string().as_bytes(), "config.v1+json");
    let manifest = serde_json::json!({ "schemaVersion": 2, "config": config, "layers": [layer] });
    let manifest = put(manifest.to_string().as_bytes(), "manifest.v1+json");
    let index = serde_json::json!({ "schemaVersion": 2, "manifests": [manifest] });
    fs::write(layout.join("index.json"), index.to_string()).unwrap();
    fs::write(layout.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
}

#[test]
fn the_root_of_an_image_is_an_installation() {
    let split = Split::make(&["merged/gfx90a"]);
    let root = split.out().join("merged/gfx90a");
    let place = tempfile::tempdir().unwrap();
    let image = |name: &str| {
        layout(&root, &place.path().join(name));
        PathBuf::from(format!("oci:{}", place.path().join(name).display()))
    };
    let whole = image("whole");
    let report = run(&whole, None).unwrap();
    assert_eq!(report.findings, []);
    assert!(report.counts.binaries.get() > 5 && report.counts.code_objects.get() > 5, "{:?}", report.counts);
    assert_eq!(run(place.path().join("whole").as_path(), None).unwrap().counts.files.get(), report.counts.files.get());
    let archives = root.join(".kpack");
    edit(&archives.join(&paths_below(&archives)[0]), |bytes| bytes.truncate(64));
    assert!(run(&image("damaged"), None).unwrap().findings.iter().any(|it| it.rule == Rule::ArchiveUnreadable));
    let fat = split.fat();
    layout(&fat, &place.path().join("fat"));
    let error = run(&place.path().join("fat"), None).unwrap_err().to_string();
    assert!(error.starts_with(&format!("{}: nothing there was split", place.path().join("fat").display())), "{error}");
}

/// Wheels of one name in several directories of an index are checked once if they are equal, and each if they are not.
#[test]
fn copies_in_an_index_are_compared() {
    let fat = fat();
    let place = tempfile::tempdir().unwrap();
    let index = place.path().join("index");
    split(fat.path(), &index, &["--format", "index"]);
    let wheel = "amd_fat_device_gfx90a-1.0-py3-none-any.whl";
    let files = run(&index, None).unwrap().counts.files.get();
    fs::copy(index.join("simple/amd-fat-device-gfx90a").join(wheel), index.join(wheel)).unwrap();
    let report = run(&index, None).unwrap();
    assert_eq!((report.findings.as_slice(), report.counts.files.get()), (&[][..], files));
    edit(&index.join(wheel), |bytes| bytes[100] ^= 1);
    assert!(run(&index, None).is_ok_and(|report| !report.findings.is_empty()));
}

#[test]
fn each_split_of_a_release_is_compared_with_its_own_wheel() {
    let (place, release) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let stage = place.path().join("stage");
    fs::create_dir(&stage).unwrap();
    let fats = ["fat", "other", "third"].map(|name| {
        let fat = tempfile::tempdir().unwrap();
        unpacked(fat.path(), name, "1.0");
        if name == "other" {
            fs::write(fat.path().join("other/version.py"), "version = 2\n").unwrap();
        }
        let wheel = stage.join(format!("{name}-1.0-py3-none-any.whl"));
        packed(fat.path(), &wheel);
        wheel
    });
    let [fat, other, third] = &fats;
    for (number, wheel) in [fat, other].into_iter().enumerate() {
        let out = place.path().join(number.to_string());
        split(wheel, &out, &["--format", "wheel"]);
        for made in fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().path()) {
            fs::rename(&made, release.path().join(made.file_name().unwrap())).unwrap();
        }
    }
    let run = |arguments: &[&Path]| {
        let output = Command::new(env!("CARGO_BIN_EXE_kpackfs")).arg("verify").args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        (output.status.code().unwrap(), said)
    };
    let (release, against) = (release.path(), Path::new("--against"));
    let (code, said) = run(&[release, against, fat, other]);
    assert!(code == 0 && said.contains("0 findings"), "{said}");
    let (code, said) = run(&[against, fat, release]);
    let is_missing = said.contains("other-1.0") && said.contains("not compared") && said.contains("[against-missing]");
    assert!(code == 1 && said.contains("1 finding;") && is_missing, "{said}");
    let (code, said) = run(&[release, against, &stage]);
    let is_unused = said.contains("third-1.0-py3-none-any.whl: nothing that is verified was made of it");
    assert!(code == 1 && said.contains("1 finding;") && is_unused, "{said}");
    assert_eq!(run(&[against, fat]).0, 2, "nothing is verified");
    // Of two builds, the fat wheel that fits is taken.
    let again = tempfile::tempdir().unwrap();
    unpacked(again.path(), "other", "2.0");
    packed(again.path(), third);
    let (code, said) = run(&[release, against, &stage]);
    assert!(code == 1 && said.contains("1 finding;") && said.contains("third-1.0"), "{said}");
}
