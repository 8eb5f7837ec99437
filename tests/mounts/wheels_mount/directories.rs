//! Directories of wheels with other things in them, and host wheels with device wheels that nothing is split of.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::common::{Files, assert_same, files_below, program, run};
use crate::wheels_mount::simple::release;
use crate::wheels_mount::wheels::{Mount, wheel};

/// An index of these inputs, and what is said about it.
fn indexed(inputs: &[&Path]) -> (Files, String) {
    let out = tempfile::tempdir().unwrap();
    let mut split = program();
    split.arg("split").args(inputs).args(["--format", "index", "--no-cache", "-o"]).arg(out.path());
    let output = split.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    (files_below(&out.path().join("simple")), said)
}

const PLAIN: &str = "rocm_bootstrap-1.0-py3-none-any.whl";

#[test]
fn symlinks_that_lead_out_of_a_directory_are_not_published() {
    let directory = tempfile::tempdir().unwrap();
    let inputs = release(&directory);
    let (expected, _) = indexed(&[&inputs]);
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("secret");
    fs::write(&secret, "a secret").unwrap();
    let foreign = wheel(&outside, "foreign", &[("foreign.py", Vec::new())]);
    symlink(&secret, inputs.join(format!("{PLAIN}.asc"))).unwrap();
    symlink(&foreign, inputs.join("foreign-1.0-py3-none-any.whl")).unwrap();
    symlink(inputs.join("nothing"), inputs.join(format!("{PLAIN}.sigstore"))).unwrap();
    run(Command::new("mkfifo").arg(inputs.join(format!("{PLAIN}.publish.attestation"))));
    run(Command::new("mkfifo").arg(inputs.join("pipe-1.0-py3-none-any.whl")));
    let (written, said) = indexed(&[&inputs]);
    assert_same(&expected, &written, "with symlinks and without");
    let names = [".whl.asc", "foreign-1.0", ".whl.sigstore", ".whl.publish.attestation", "pipe-1.0"];
    for name in names {
        assert_eq!(
            said.lines().filter(|line| line.contains("warning") && line.contains(name)).count(),
            1,
            "{name}: {said}"
        );
    }
    // A wheel that is named has no better signatures, and one next to it may be a symlink.
    let (written, _) = indexed(&[&inputs.join(PLAIN)]);
    assert!(!written.keys().any(|path| path.to_string_lossy().ends_with(".asc")), "{:?}", written.keys());
    fs::remove_file(inputs.join(format!("{PLAIN}.asc"))).unwrap();
    fs::write(inputs.join("signature"), "signed").unwrap();
    symlink("signature", inputs.join(format!("{PLAIN}.asc"))).unwrap();
    let (written, _) = indexed(&[&inputs.join(PLAIN)]);
    assert_eq!(written[Path::new(&format!("rocm-bootstrap/{PLAIN}.asc"))], b"signed");
}

#[test]
fn what_is_next_to_wheels_changes_nothing_and_is_named_once() {
    let directory = tempfile::tempdir().unwrap();
    let inputs = release(&directory);
    let (expected, said) = indexed(&[&inputs]);
    assert!(!said.contains("left out"), "{said}");
    let others = ["README.md", "SHA256SUMS", "x-1.0.tar.gz", "x-1.0.zip", "notes.txt~"];
    for name in others {
        fs::write(inputs.join(name), "x").unwrap();
    }
    fs::create_dir_all(inputs.join("logs/old")).unwrap();
    fs::write(inputs.join(".notes.swp"), "x").unwrap();
    let (written, said) = indexed(&[&inputs]);
    assert_same(&expected, &written, "with other files and without");
    assert_eq!(said.matches("left out, since only its wheels are used").count(), 1, "{said}");
    assert!(said.contains("README.md, SHA256SUMS, logs, notes.txt~, x-1.0.tar.gz and x-1.0.zip"), "{said}");
    // The same holds for one wheel, and for other commands.
    fs::remove_file(inputs.join(PLAIN)).unwrap();
    let out = tempfile::tempdir().unwrap();
    for arguments in [&["inspect"][..], &["split", "--format", "wheel", "-o", "out"]] {
        let output = program().args(arguments).arg(&inputs).current_dir(out.path()).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success() && said.matches("only its wheels").count() == 1, "{arguments:?}: {said}");
    }
    // In an installation, wheels are files like others.
    fs::create_dir(inputs.join("x-1.0.dist-info")).unwrap();
    let mut split = program();
    let output =
        split.args(["split", "--format", "index", "-o", "other"]).arg(&inputs).current_dir(out.path()).output();
    assert!(!output.unwrap().status.success());
}

#[test]
fn wheels_that_installers_cannot_tell_apart_are_named_by_their_paths() {
    let [one, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let plain = wheel(&one, "evil", &[("evil.py", Vec::new())]);
    for (first, second) in [
        ("evil-1.0-py3-none-any.whl", "Evil-1.0-py3-none-any.whl"),
        ("evil-1.0-1-py3-none-any.whl", "evil-1.0-01-py3-none-any.whl"),
        ("evil-1.0-py2.py3-none-any.whl", "evil-1.0-py3.py2-none-any.whl"),
    ] {
        let [first, second] = [one.path().join(first), other.path().join(second)];
        for copy in [&first, &second] {
            if *copy != plain {
                fs::copy(&plain, copy).unwrap();
            }
        }
        let out = other.path().join("out");
        let mut split = program();
        let output =
            split.args(["split", "--format", "index", "-o"]).arg(&out).args([&first, &second]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        let is_named = |path: &PathBuf| said.contains(path.canonicalize().unwrap().to_str().unwrap());
        assert!(!output.status.success() && is_named(&first) && is_named(&second), "{said}");
    }
}

/// A host wheel, and device wheels that hold tables and packages for one GPU.
fn tables(directory: &TempDir) -> Vec<PathBuf> {
    let metadata =
        |name: &str, lines: &str| format!("Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{lines}").into_bytes();
    let parts = ["gfx942", "gfx950"];
    let extra = |part| format!("Provides-Extra: {part}\nRequires-Dist: x-{part}==1.0; extra == \"{part}\"\n");
    let own = metadata("x", &parts.map(extra).concat());
    let mut wheels = vec![wheel(directory, "x", &[("x/__init__.py", Vec::new()), ("x-1.0.dist-info/METADATA", own)])];
    for part in parts {
        let [module, own] = [format!("x_{part}/__init__.py"), format!("x_{part}-1.0.dist-info/METADATA")];
        let own = (own.as_str(), metadata(&format!("x-{part}"), "Requires-Dist: x==1.0\n"));
        let table = ("x/tuning.csv", part.into());
        wheels.push(wheel(directory, &format!("x_{part}"), &[table, (module.as_str(), Vec::new()), own]));
    }
    wheels
}

#[test]
fn a_mount_has_what_device_wheels_hold_in_the_views_of_their_gpus() {
    let directory = tempfile::tempdir().unwrap();
    let wheels = tables(&directory);
    let Some(mount) = Mount::new(directory.path(), &["--no-cache"]) else { return };
    for gpu in ["gfx942", "gfx950"] {
        for view in ["", "merged/", "thin/"] {
            assert_eq!(
                fs::read(mount.at(&format!("{view}{gpu}/x/tuning.csv"))).unwrap(),
                gpu.as_bytes(),
                "{view}{gpu}"
            );
            assert!(mount.at(&format!("{view}{gpu}/x_{gpu}/__init__.py")).exists(), "{view}{gpu}");
        }
    }
    assert!(!mount.at("merged/gfx942/x_gfx950").exists() && !mount.at("thin/gfx950/x_gfx942").exists());
    assert!(!mount.at("host/x/tuning.csv").exists() && mount.at("host/x/__init__.py").exists());
    for wheel in wheels {
        let name = wheel.file_name().unwrap().to_str().unwrap();
        let project = name.split('-').next().unwrap().replace('_', "-");
        for place in [format!("wheels/{name}"), format!("simple/{project}/{name}")] {
            assert!(fs::read(mount.at(&place)).unwrap() == fs::read(&wheel).unwrap(), "{place}");
        }
    }
}
