//! A directory as a library sees it: names, and what may be read.

use std::collections::BTreeSet;
use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::disk;
use crate::fatbin::{CODE_HEADER, code_target, is_bundle, is_code};
use crate::gpu::TargetId;

/// The most names that are read of one directory. A database of one GPU has about 1,000 files.
const MAX_NAMES: usize = 1 << 17;

/// The files of a directory.
pub(super) struct DirectoryListing {
    pub(super) directory: PathBuf,
    pub(super) names: BTreeSet<String>,
}

/// Why a directory has no listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoListing {
    Absent,
    Denied,
}

/// What the first bytes of a code object show.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CodeState {
    /// Code for this target.
    For(TargetId),
    /// A bundle, or code whose header names no target.
    Other,
    Denied,
    Damaged(&'static str),
}

impl DirectoryListing {
    pub(super) fn of(directory: &Path) -> Result<Self, NoListing> {
        let entries = fs::read_dir(directory).map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied => NoListing::Denied,
            _ => NoListing::Absent,
        })?;
        // A dangling symlink is no file.
        let existing = entries.filter_map(Result::ok).filter(|entry| entry.path().exists());
        let names = existing.take(MAX_NAMES).filter_map(|entry| entry.file_name().into_string().ok()).collect();
        Ok(Self { directory: directory.to_owned(), names })
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// The names that end with one of these suffixes.
    pub(super) fn ending<'a>(&'a self, suffixes: &'a [&str]) -> impl Iterator<Item = &'a str> {
        let names = self.names.iter().map(String::as_str);
        names.filter(move |name| suffixes.iter().any(|suffix| name.ends_with(suffix)))
    }
}

/// Whether a process may read a file or a directory, as access(2) says.
pub(super) fn is_readable(path: &Path) -> bool {
    access(path, Access::READ_OK).is_ok()
}

/// The state of a file with a code object.
pub(super) fn code_state(path: &Path) -> CodeState {
    let mut bytes = Vec::new();
    let file = match disk::open(path) {
        Ok((file, _)) => file,
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return CodeState::Denied,
        Err(_) => return CodeState::Damaged("it is no regular file"),
    };
    if file.take(CODE_HEADER as u64).read_to_end(&mut bytes).is_err() {
        return CodeState::Damaged("it cannot be read");
    }
    if bytes.is_empty() {
        CodeState::Damaged("it is empty")
    } else if is_bundle(&bytes) {
        CodeState::Other
    } else if !is_code(&bytes) {
        CodeState::Damaged("it is no code object")
    } else if bytes.len() < CODE_HEADER {
        CodeState::Damaged("it is truncated")
    } else {
        code_target(&bytes).map_or(CodeState::Other, CodeState::For)
    }
}
