//! A tree with every kind of content, and mounts by the compiled program that never outlive their test.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::common::{can_mount, paths_below, program, skipped, succeeds, umount};

/// A name that is not UTF-8.
pub(crate) const ODD: &[u8] = b"odd-\xff\xfe";

/// Whether a program that a test needs is in `PATH`.
pub(crate) fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        skipped(&format!("there is no {program}; NOTHING was loaded or run from a mount"));
    }
    found
}

/// An install tree with fixtures, databases, links, and odd names and modes.
pub(crate) fn fat() -> TempDir {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| {
        let path = root.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    };
    for name in ["plain.so", "mixed.so", "features.so", "compressed.so", "relr.so", "noheaders.so", "host-only.so"] {
        fs::copy(Path::new("tests/fixtures").join(name), at(&format!("lib/{name}"))).unwrap();
    }
    for name in ["exe-pie", "exe-nopie"] {
        fs::copy(Path::new("tests/fixtures").join(name), at(&format!("bin/{name}"))).unwrap();
        fs::set_permissions(at(&format!("bin/{name}")), fs::Permissions::from_mode(0o755)).unwrap();
    }
    for (name, text) in [
        ("lib/rocblas/library/TensileLibrary_gfx90a.dat", "rocblas, gfx90a"),
        ("lib/rocblas/library/TensileLibrary_gfx1100.dat", "rocblas, gfx1100"),
        ("lib/rocblas/library/common.txt", "rocblas, all"),
        ("lib/aotriton.images/amd-gfx11xx/flash/attn_fwd.zip", "aotriton, gfx11"),
        ("share/miopen/db/gfx90a68.db.txt", "miopen, gfx90a"),
        ("share/notes", "for everybody"),
    ] {
        fs::write(at(name), text).unwrap();
    }
    fs::write(root.path().join("share").join(OsStr::from_bytes(ODD)), "odd").unwrap();
    // The planner reads headers only. Most bytes that it must not read are in this file.
    File::create(at("share/large")).unwrap().set_len(8 << 20).unwrap();
    fs::set_permissions(at("share/notes"), fs::Permissions::from_mode(0o640)).unwrap();
    fs::create_dir(at("empty")).unwrap();
    fs::set_permissions(at("empty"), fs::Permissions::from_mode(0o711)).unwrap();
    symlink("plain.so", at("lib/link.so")).unwrap();
    fs::hard_link(at("lib/plain.so"), at("lib/twin.so")).unwrap();
    fs::hard_link(at("share/notes"), at("share/twin")).unwrap();
    root
}

/// A mount, and an empty directory that the program uses for temporary files.
pub(crate) struct Mount {
    place: TempDir,
    pub(crate) temporary: TempDir,
}

impl Mount {
    /// Mounts with these options; `None` if this machine cannot mount.
    pub(crate) fn new(input: &Path, options: &[&str]) -> Option<Self> {
        if !can_mount() {
            return None;
        }
        let mount = Self { place: tempfile::tempdir().unwrap(), temporary: tempfile::tempdir().unwrap() };
        let mut command = program();
        command.env("TMPDIR", mount.temporary.path()).arg("mount").args(options).arg(input).arg(mount.path());
        succeeds(&mut command);
        Some(mount)
    }

    pub(crate) fn path(&self) -> &Path {
        self.place.path()
    }

    pub(crate) fn at(&self, name: impl AsRef<Path>) -> PathBuf {
        self.place.path().join(name)
    }

    /// One of the counters in `status.json`.
    pub(crate) fn counter(&self, name: &str) -> u64 {
        self.status()["counters"][name].as_u64().unwrap()
    }

    pub(crate) fn status(&self) -> serde_json::Value {
        serde_json::from_str(&fs::read_to_string(self.at(".kpackfs/status.json")).unwrap()).unwrap()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        umount(self.place.path());
    }
}

/// What a copy of a file must keep: kind and permissions, time, number of links, and content.
pub(crate) type Entry = (u32, i64, u64, Vec<u8>);

/// Everything below a directory, by path.
pub(crate) fn survey(root: &Path) -> BTreeMap<PathBuf, Entry> {
    let entry = |path: PathBuf| {
        let place = root.join(&path);
        let metadata = place.symlink_metadata().unwrap();
        // Filesystems count the links of directories differently.
        let (content, links) = if metadata.is_symlink() {
            (place.read_link().unwrap().as_os_str().as_bytes().to_vec(), 1)
        } else if metadata.is_dir() {
            (Vec::new(), 1)
        } else {
            (fs::read(&place).unwrap(), metadata.nlink())
        };
        assert!(!metadata.is_file() || content.len() as u64 == metadata.len(), "{}", place.display());
        (path, (metadata.mode(), metadata.mtime(), links, content))
    };
    paths_below(root).into_iter().map(entry).collect()
}

/// Compares two surveys, and reports only the names that differ.
#[track_caller]
pub(crate) fn same(one: &BTreeMap<PathBuf, Entry>, other: &BTreeMap<PathBuf, Entry>) {
    let names = |survey: &BTreeMap<PathBuf, Entry>| survey.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(one), names(other));
    let differs = |name: &&PathBuf| one[*name] != other[*name];
    let different: Vec<_> = one.keys().filter(differs).collect();
    let brief = |name: &&PathBuf| [one, other].map(|it| (it[*name].0, it[*name].1, it[*name].2, it[*name].3.len()));
    assert!(different.is_empty(), "{:?}", different.iter().map(|name| (name, brief(name))).collect::<Vec<_>>());
}

/// The output of tar for a view, with these options.
pub(crate) fn tar(root: &Path, view: &str, options: &[&str]) -> Vec<u8> {
    let mut command = Command::new("tar");
    succeeds(command.args(["--create", "--sort=name", "--file=-"]).args(options).arg("--directory").arg(root).arg(view))
        .stdout
}

pub(crate) fn names(directory: &Path) -> Vec<OsString> {
    let mut names: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    names
}
