//! Makes artifacts from fixtures, and runs the compiled program.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use kpackfs::kpack::ArchiveReader;
use kpackfs::resources::Resources;
use kpackfs::source::open_file;
use tempfile::TempDir;

use crate::common::{self, fixture, paths_below, umount};

/// A directory to fill.
pub(crate) struct Place(TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    pub(crate) fn file(&self, path: &str, content: impl AsRef<[u8]>) -> &Self {
        common::put(self.at(path), content);
        self
    }

    pub(crate) fn fixture(&self, path: &str, name: &str) -> &Self {
        self.file(path, fixture(name))
    }

    pub(crate) fn link(&self, path: &str, to: &str) -> &Self {
        symlink(to, self.at(path)).unwrap();
        self
    }

    pub(crate) fn manifest(&self, artifact: &str, prefixes: &[&str]) -> &Self {
        self.file(&format!("{artifact}/artifact_manifest.txt"), prefixes.join("\n"))
    }

    /// All files and symlinks below a directory, by path, without the statement of the split.
    pub(crate) fn files(&self, directory: &str) -> BTreeSet<String> {
        let root = self.at(directory);
        let is_listed = |path: &PathBuf| {
            let place = root.join(path);
            let is_of_split = path.iter().any(|name| name == ".kpackfs");
            !is_of_split && (place.is_symlink() || !place.is_dir())
        };
        let paths = paths_below(&root).into_iter().filter(is_listed);
        paths.map(|path| path.to_str().unwrap().to_owned()).collect()
    }

    /// The names in a directory, without the statement of the split.
    pub(crate) fn names(&self, directory: &str) -> BTreeSet<String> {
        let entries = fs::read_dir(self.at(directory)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name != ".kpackfs").collect()
    }

    pub(crate) fn text(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).unwrap()
    }

    /// The names and targets in an archive.
    pub(crate) fn archive(&self, path: &str) -> BTreeSet<(String, String)> {
        let reader = ArchiveReader::open(open_file(&self.at(path), &Resources::new(0)).unwrap()).unwrap();
        reader.entries().map(|(key, target, _)| (key.to_owned(), target.to_owned())).collect()
    }

    /// Runs the program in this directory.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_kpackfs")).args(arguments).current_dir(self.0.path()).output().unwrap()
    }

    /// Runs the program, which must succeed. Returns its stderr.
    #[track_caller]
    pub(crate) fn succeeds(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{arguments:?}: {error}{}", String::from_utf8_lossy(&output.stdout));
        error
    }

    /// Runs the program, which must fail with this exit code. Returns its output.
    #[track_caller]
    pub(crate) fn fails(&self, code: i32, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
        text
    }
}

pub(crate) fn set<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
    names.map(str::to_owned).into()
}

/// A binary whose offload bundles name other targets. The longer tables fit, since code objects begin on the next page.
pub(crate) fn renamed(name: &str, names: &[(&str, &str)]) -> Vec<u8> {
    const MAGIC: &[u8] = b"__CLANG_OFFLOAD_BUNDLE__";
    let mut bytes = fixture(name);
    let starts: Vec<_> = (0..bytes.len()).step_by(4096).filter(|&at| bytes[at..].starts_with(MAGIC)).collect();
    assert!(!starts.is_empty());
    for start in starts {
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        let mut at = start + 32;
        let mut table = Vec::new();
        for _ in 0..number(start + 24) {
            let end = at + 24 + usize::try_from(number(at + 16)).unwrap();
            let id = std::str::from_utf8(&bytes[at + 24..end]).unwrap();
            let other = names
                .iter()
                .find_map(|(from, to)| Some(format!("{}--{to}", id.strip_suffix(from)?.strip_suffix("--")?)));
            let id = other.unwrap_or_else(|| id.to_owned());
            table.extend_from_slice(&bytes[at..at + 16]);
            table.extend((id.len() as u64).to_le_bytes());
            table.extend(id.as_bytes());
            at = end;
        }
        bytes[start + 32..start + 32 + table.len()].copy_from_slice(&table);
    }
    bytes
}

/// Unmounts at the end of a test.
pub(crate) struct Mounted<'a>(pub(crate) &'a Path);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        umount(self.0);
    }
}
