//! Wheels to split, the program under test, and mounts that end with the test.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use crate::common::{self, Files, can_mount, files_below, fixture, program, run};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Runs the program under test.
pub(crate) fn kpackfs<const N: usize>(arguments: [&str; N]) -> Output {
    program().args(arguments).output().unwrap()
}

pub(crate) fn python<const N: usize>(arguments: [&str; N]) -> String {
    run(Command::new("python3").args(arguments))
}

/// Splits into a new directory.
pub(crate) fn split(input: &Path, arguments: &[&str]) -> TempDir {
    let out = tempfile::tempdir().unwrap();
    run(program().arg("split").arg(input).arg("-o").arg(out.path()).args(arguments));
    out
}

/// What `inspect --json` says.
pub(crate) fn inspect(input: &Path, arguments: &[&str]) -> Value {
    serde_json::from_str(&run(program().args(["inspect", "--json"]).arg(input).args(arguments))).unwrap()
}

/// The file names of the wheels, by the directory that holds the same files.
pub(crate) fn wheel_names(input: &Path) -> BTreeMap<String, String> {
    let report = inspect(input, &[]);
    let name = |wheel: &Value| wheel["name"].as_str().unwrap().to_owned();
    let devices = report["parts"].as_object().unwrap().iter();
    let mut names: BTreeMap<_, _> = devices.map(|(key, part)| (key.clone(), name(&part["wheel"]))).collect();
    names.insert("host".to_owned(), name(&report["host_wheels"][0]));
    names
}

/// What Python finds wrong with the wheels in a directory.
pub(crate) fn complaints(directory: &Path) -> String {
    let wheels = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let wheels = wheels.filter(|path| path.extension().is_some_and(|extension| extension == "whl"));
    run(Command::new("python3").arg(Path::new(ROOT).join("tests/wheel_oracle.py")).arg("check").args(wheels))
}

/// The files of a wheel, as Python unpacks it.
pub(crate) fn unpacked(wheel: &Path) -> Files {
    let directory = tempfile::tempdir().unwrap();
    python(["-m", "zipfile", "-e", wheel.to_str().unwrap(), directory.path().to_str().unwrap()]);
    files_below(directory.path())
}

/// The torch-shaped wheel of fixtures.
pub(crate) fn torch(directory: &TempDir) -> PathBuf {
    let script = Path::new(ROOT).join("scripts/make-torch-wheel");
    run(Command::new("python3").arg(script).arg(directory.path()).args(["--size", "tiny"]));
    directory.path().join("torch-2.10.0+rocm7.1-cp312-cp312-manylinux_2_28_x86_64.whl")
}

/// Deflates files to the wheel `name`, version 1.0, with Python.
pub(crate) fn wheel(directory: &TempDir, name: &str, payload: &[(&str, Vec<u8>)]) -> PathBuf {
    let tree = tempfile::tempdir().unwrap();
    let write = |path: &str, content: &[u8]| common::put(tree.path().join(path), content);
    let dist_info = format!("{name}-1.0.dist-info");
    write(&format!("{dist_info}/METADATA"), format!("Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n").as_bytes());
    write(&format!("{dist_info}/WHEEL"), b"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-any\n");
    write(&format!("{dist_info}/RECORD"), b"");
    for (path, content) in payload {
        write(path, content);
    }
    let out = directory.path().join(format!("{name}-1.0-py3-none-any.whl"));
    let oracle = Path::new(ROOT).join("tests/wheel_oracle.py");
    run(Command::new("python3").arg(oracle).arg("pack").arg(tree.path()).arg(&out));
    out
}

/// A wheel with a library that is long enough for splicing, databases, a second package and a data directory.
pub(crate) fn small(directory: &TempDir) -> PathBuf {
    // Host data behind the device code, which compresses to several blocks.
    let mut long = fixture("plain.so");
    let mut state = 1_u32;
    let next = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 27).to_le_bytes()[0]
    });
    long.extend(next.take(1 << 20));
    wheel(
        directory,
        "small",
        &[
            ("small/__init__.py", b"".to_vec()),
            ("small/lib/liblong.so", long),
            ("small/lib/libfeatures.so", fixture("features.so")),
            ("small/lib/rocblas/library/Kernels.so-000-gfx1100.hsaco", b"database".to_vec()),
            ("other/libgeneric.so", fixture("generic.so")),
            ("small-1.0.data/platlib/placed/lib/libmixed.so", fixture("mixed.so")),
            ("small-1.0.data/platlib/placed/rocblas/library/gfx942/x.dat", b"placed".to_vec()),
        ],
    )
}

/// A mount in a temporary directory.
pub(crate) struct Mount(TempDir);

impl Mount {
    /// `None` if this machine cannot mount.
    pub(crate) fn new(input: &Path, arguments: &[&str]) -> Option<Self> {
        if !can_mount() {
            return None;
        }
        let place = tempfile::tempdir().unwrap();
        run(program().arg("mount").arg(input).arg(place.path()).args(arguments));
        Some(Self(place))
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    /// A work counter.
    pub(crate) fn counter(&self, name: &str) -> u64 {
        let text = fs::read(self.at(".kpackfs/status.json")).unwrap();
        let status: Value = serde_json::from_slice(&text).unwrap();
        status["counters"][name].as_u64().unwrap()
    }

    /// All counters of work that listing and copying must not cost.
    pub(crate) fn work(&self) -> BTreeMap<&'static str, u64> {
        let names = ["bytes_inflated", "bytes_deflated", "bytes_compressed", "bytes_decompressed", "frames_made"];
        names.into_iter().map(|name| (name, self.counter(name))).collect()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let output = kpackfs(["umount", "--lazy", self.0.path().to_str().unwrap()]);
        assert!(output.status.success() || std::thread::panicking(), "{output:?}");
    }
}
