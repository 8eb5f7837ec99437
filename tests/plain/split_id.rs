//! The split ID is the same for all forms of an input and all ways of splitting it, and no other input has it.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{self, fixture, program, succeeds};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kpackfs::split::hex;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

const WHEEL: &str = "x-1.0-py3-none-linux_x86_64.whl";
const DIST_INFO: &str = "x-1.0.dist-info";

/// A directory with a wheel in several forms.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        let library = fixture("plain.so");
        place.unpacked("unpacked", &library, b"print(1)\n");
        place.zip("unpacked", WHEEL);
        place
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    /// The files of the wheel with a RECORD.
    fn unpacked(&self, directory: &str, library: &[u8], module: &[u8]) {
        let mut record = Vec::new();
        for (path, bytes) in [
            ("x/__init__.py", module),
            ("x/libx.so", library),
            (&format!("{DIST_INFO}/METADATA"), b"Metadata-Version: 2.1\nName: x\nVersion: 1.0\n"),
            (
                &format!("{DIST_INFO}/WHEEL"),
                b"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-linux_x86_64\n",
            ),
        ] {
            self.write(&format!("{directory}/{path}"), bytes);
            let mut digest = [0; 43];
            URL_SAFE_NO_PAD.encode_slice(Sha256::digest(bytes), &mut digest).unwrap();
            let digest = String::from_utf8_lossy(&digest);
            writeln!(record, "{path},sha256={digest},{}", bytes.len()).unwrap();
        }
        writeln!(record, "{DIST_INFO}/RECORD,,").unwrap();
        self.write(&format!("{directory}/{DIST_INFO}/RECORD"), &record);
    }

    fn write(&self, path: &str, bytes: &[u8]) {
        common::put(self.at(path), bytes);
    }

    fn zip(&self, directory: &str, name: &str) {
        fs::create_dir_all(self.at(name).parent().unwrap()).unwrap();
        let mut zip = zip::ZipWriter::new(fs::File::create(self.at(name)).unwrap());
        for path in ["x/__init__.py", "x/libx.so"]
            .map(str::to_owned)
            .into_iter()
            .chain(["METADATA", "WHEEL", "RECORD"].map(|name| format!("{DIST_INFO}/{name}")))
        {
            zip.start_file(&path, zip::write::SimpleFileOptions::default()).unwrap();
            zip.write_all(&fs::read(self.at(directory).join(path)).unwrap()).unwrap();
        }
        zip.finish().unwrap();
    }

    fn tar(&self, options: &str, name: &str) {
        succeeds(Command::new("tar").args([options, name, "-C", "unpacked", "."]).current_dir(self.0.path()));
    }

    /// Splits an input, and reads the ID that all parts must state.
    #[track_caller]
    fn id(&self, input: &str, options: &[&str]) -> String {
        let out = self.at("out");
        let mut command = program();
        command.current_dir(self.0.path()).env("KPACKFS_CACHE_DIR", "").arg("split").args(input.split(' '));
        succeeds(command.arg("-o").arg(&out).args(options));
        let mut ids: Vec<_> = statements(&out);
        fs::remove_dir_all(out).unwrap();
        ids.dedup();
        assert_eq!(ids.len(), 1, "{input} {options:?}");
        ids.remove(0)
    }
}

fn member(wheel: &Path, name: &str) -> String {
    let mut zip = zip::ZipArchive::new(fs::File::open(wheel).unwrap()).unwrap();
    let mut paths = zip.file_names().map(|path| path.unwrap().into_owned());
    let path = paths.find(|path| path.ends_with(&format!(".dist-info/{name}"))).unwrap();
    drop(paths);
    io::read_to_string(zip.by_name(&path).unwrap()).unwrap()
}

/// The IDs in the statements of all parts: files of directories, or members of wheels.
fn statements(out: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(out).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let text = if path.extension().is_some_and(|it| it == "whl") {
            member(&path, "kpackfs.json")
        } else if ["split.json", "kpackfs.json"].contains(&name) {
            fs::read_to_string(&path).unwrap()
        } else if path.is_dir() {
            found.extend(statements(&path));
            continue;
        } else {
            continue;
        };
        let statement: Value = serde_json::from_str(&text).unwrap();
        found.push(statement.get("split_id").and_then(Value::as_str).unwrap().to_owned());
    }
    found
}

/// What pip adds to an installation.
fn install(place: &Place) {
    place.unpacked("installed", &fixture("plain.so"), b"print(1)\n");
    let record = place.at("installed").join(DIST_INFO).join("RECORD");
    for (name, bytes) in [
        (format!("{DIST_INFO}/INSTALLER"), "pip\n"),
        (format!("{DIST_INFO}/REQUESTED"), ""),
        ("x/__pycache__/__init__.cpython-312.pyc".to_owned(), "compiled"),
    ] {
        place.write(&format!("installed/{name}"), bytes.as_bytes());
        let mut file = fs::OpenOptions::new().append(true).open(&record).unwrap();
        writeln!(file, "{name},,").unwrap();
    }
}

#[test]
fn all_forms_of_an_input_and_all_ways_of_splitting_it_have_one_id() {
    let place = Place::new();
    install(&place);
    place.tar("-cf", "x.tar");
    place.tar("-czf", "x.tar.gz");
    let wheel = ["--format", "wheel"];
    let own = place.id(WHEEL, &wheel);
    for input in ["unpacked", "installed", "x.tar", "x.tar.gz"] {
        assert_eq!(place.id(input, &wheel), own, "{input}");
    }
    for options in [
        &["--format", "directory"][..],
        &["--format", "wheel", "-j", "1"],
        &["--format", "wheel", "-j", "16"],
        &["--format", "wheel", "--gpu-targets", "gfx90a"],
        &["--format", "wheel", "--compression", "none"],
        &["--format", "wheel", "--compression-level", "9"],
        &["--format", "wheel", "--no-manifest"],
        &["--view", "host"],
    ] {
        assert_eq!(place.id(WHEEL, options), own, "{options:?}");
    }
    let other_times = ["-r", "/", "unpacked/x/libx.so", "unpacked/x/__init__.py"];
    succeeds(Command::new("touch").args(other_times).current_dir(place.at(".")));
    assert_eq!(place.id("unpacked", &wheel), own, "other times");
    succeeds(program().args(["split", WHEEL, "-o", "split"]).args(wheel).current_dir(place.at(".")));
    assert_eq!(place.id("split", &wheel), own, "the split of a split");
}

#[test]
fn another_input_or_another_name_has_another_id() {
    let place = Place::new();
    let wheel = ["--format", "wheel"];
    let mut ids = vec![place.id(WHEEL, &wheel), place.id(WHEEL, &["--format", "wheel", "--group", "other"])];
    let mut kernel = fixture("plain.so");
    let magic = b"__CLANG_OFFLOAD_BUNDLE__";
    let bundle = kernel.windows(magic.len()).position(|window| window == magic).unwrap();
    let code = kernel[bundle..].windows(4).position(|window| window == b"\x7fELF").unwrap();
    kernel[bundle + code + 200] ^= 1;
    for (name, library, module) in
        [("kernel", kernel, &b"print(1)\n"[..]), ("module", fixture("plain.so"), &b"print(2)\n"[..])]
    {
        place.unpacked(name, &library, module);
        place.zip(name, &format!("{name}.d/{WHEEL}"));
        ids.push(place.id(&format!("{name}.d/{WHEEL}"), &wheel));
    }
    let count = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), count, "{ids:?}");
    assert!(ids.iter().all(|id| id.len() == hex(&[0; 32]).len()), "{ids:?}");
}

/// As of a host wheel and a device wheel that two versions of kpackfs made.
#[test]
fn parts_of_one_input_that_are_named_in_other_ways_are_told_apart() {
    let place = Place::new();
    for (out, group) in [("host", "x"), ("device", "other")] {
        let mut command = program();
        command.current_dir(place.at(".")).args(["split", WHEEL, "-o", out, "--format", "wheel", "--group", group]);
        succeeds(&mut command);
    }
    for entry in fs::read_dir(place.at("device")).unwrap() {
        let wheel = entry.unwrap().path();
        let name = wheel.file_name().unwrap();
        if name != WHEEL {
            fs::copy(&wheel, place.at("host").join(name)).unwrap();
        }
    }
    let verified = program().current_dir(place.at(".")).args(["verify", "host"]).output().unwrap();
    let said = String::from_utf8(verified.stdout).unwrap();
    assert_eq!(verified.status.code(), Some(1), "{said}");
    assert!(said.contains("both are of one input") && said.contains("[other-split]"), "{said}");
}
