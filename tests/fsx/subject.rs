//! A mount, and the same files written to a disk.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::common::PATIENCE;

/// The number of merged views that are written to the disk.
const MERGED: usize = 2;

pub(crate) struct Subject {
    mount: TempDir,
    oracle: TempDir,
}

/// A file of the mount, and the same one on the disk.
pub(crate) struct Pair {
    pub(crate) mounted: PathBuf,
    pub(crate) written: PathBuf,
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn kpackfs(command: &str) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_kpackfs"));
    program.arg(command).env_remove("SOURCE_DATE_EPOCH");
    program
}

impl Subject {
    pub(crate) fn new(input: &Path) -> Self {
        let (mount, oracle) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        run(kpackfs("mount").arg(input).arg(mount.path()));
        let subject = Self { mount, oracle };
        let names = |directory: &Path| {
            let mut names: Vec<_> = fs::read_dir(directory).into_iter().flatten().collect::<Result<_, _>>().unwrap();
            names.sort_by_key(fs::DirEntry::file_name);
            names.into_iter().map(|entry| entry.file_name().into_string().unwrap()).collect::<Vec<_>>()
        };
        let devices = names(&subject.mount().join("device"));
        let merged = names(&subject.mount().join("merged")).into_iter().take(MERGED);
        let views = devices.into_iter().chain(["host".to_owned()]);
        let mut split = kpackfs("split");
        split.arg(input).arg("--output").arg(subject.oracle());
        for view in views.chain(merged.map(|target| format!("merged/{target}"))) {
            split.args(["--view", &view]);
        }
        run(&mut split);
        if subject.mount().join("wheels").exists() {
            let wheels = subject.oracle().join("wheels");
            run(kpackfs("split").arg(input).arg("--output").arg(wheels).args(["--format", "wheel", "--deflate", "0"]));
        }
        subject
    }

    pub(crate) fn mount(&self) -> &Path {
        self.mount.path()
    }

    pub(crate) fn oracle(&self) -> &Path {
        self.oracle.path()
    }

    /// Waits until all memory for work is returned.
    pub(crate) fn is_at_rest(&self) {
        let limit = Instant::now() + PATIENCE;
        loop {
            let text = fs::read(self.mount().join(".kpackfs/status.json")).unwrap();
            let status: serde_json::Value = serde_json::from_slice(&text).unwrap();
            let gauges =
                [&status["gauges"]["requests_waiting"], &status["memory"]["compression"], &status["memory"]["bundles"]];
            if gauges.iter().all(|gauge| gauge.as_u64() == Some(0)) {
                return;
            }
            assert!(Instant::now() < limit, "not given back: {status:#}");
            thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        kpackfs("umount").arg("--lazy").arg(self.mount()).output().ok();
    }
}

/// All regular files.
pub(crate) fn files(mount: &Path, oracle: &Path) -> Vec<Pair> {
    let mut pairs = Vec::new();
    let mut directories = vec![oracle.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            let (kind, written) = (entry.file_type().unwrap(), entry.path());
            // The statement of a split of selected views.
            if entry.file_name() == ".kpackfs" {
                continue;
            }
            if kind.is_dir() {
                directories.push(written);
            } else if kind.is_file() {
                let mounted = mount.join(written.strip_prefix(oracle).unwrap());
                pairs.push(Pair { mounted, written });
            }
        }
    }
    pairs.sort_by(|a, b| a.written.cmp(&b.written));
    assert!(!pairs.is_empty());
    pairs
}

/// A tree, with a file that is passed through, and a wheel.
pub(crate) fn fixtures(place: &Path) -> Vec<PathBuf> {
    let tree = place.join("tree");
    fs::create_dir_all(tree.join("lib/rocblas/library")).unwrap();
    for name in ["plain.so", "mixed.so", "compressed.so", "twins.so", "host-only.so"] {
        fs::copy(Path::new("tests/fixtures").join(name), tree.join("lib").join(name)).unwrap();
    }
    let large: Vec<u8> = (0..5_000_001_u32).map(|at| (at * 7 % 251).to_le_bytes()[0]).collect();
    fs::write(tree.join("large"), large).unwrap();
    fs::write(tree.join("empty"), "").unwrap();
    fs::write(tree.join("lib/rocblas/library/TensileLibrary_gfx90a.dat"), "rocblas").unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/make-torch-wheel");
    run(Command::new("python3").arg(script).arg(place).args(["--size", "tiny"]));
    let wheel = place.join("torch-2.10.0+rocm7.1-cp312-cp312-manylinux_2_28_x86_64.whl");
    vec![tree, wheel]
}
