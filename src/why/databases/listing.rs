//! A directory as a library sees it: names, and what may be read.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Access, access};

use crate::fatbin::{Bundle, CODE_HEADER, code_target, end_of_tables, is_bundle, is_code};
use crate::gpu::TargetId;
use crate::resources::Resources;
use crate::rope::to_usize;
use crate::source::open_file;

/// The most names that are read of one directory. A database of one GPU has about 1,000 files.
const MAX_NAMES: usize = 1 << 17;

/// The files of a directory.
pub(super) struct DatabaseListing {
    pub(super) directory: PathBuf,
    pub(super) names: BTreeSet<String>,
}

/// Why a directory has no listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoListing {
    Absent,
    Denied,
}

/// What is known of a file with code.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CodeState {
    /// A code object for a target, or a bundle with code for several. None, if the header names no target that is known.
    For(BTreeSet<TargetId>),
    Denied,
    Damaged(String),
}

impl DatabaseListing {
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

/// The state of a file with a code object, or with a bundle of them, as far as headers show it.
pub(super) fn code_state(path: &Path, resources: &Arc<Resources>) -> CodeState {
    let damaged = |reason: &str| CodeState::Damaged(reason.to_owned());
    if !is_readable(path) {
        return CodeState::Denied;
    }
    let Ok(content) = open_file(path, resources) else { return damaged("it is no regular file") };
    let mut beginning = vec![0; CODE_HEADER.min(to_usize(content.size()))];
    if content.peek(&mut beginning).is_err() {
        return damaged("it cannot be read");
    }
    if beginning.is_empty() {
        damaged("it is empty")
    } else if is_bundle(&beginning) {
        let bundle = Bundle::read(&content, 0, content.size(), resources);
        bundle.map_or_else(|_| damaged("it is no whole bundle"), |bundle| CodeState::For(bundle.targets()))
    } else if beginning.len() < CODE_HEADER && beginning.starts_with(b"\x7fELF") {
        damaged("it is truncated")
    } else if !is_code(&beginning) {
        damaged("it is no code object")
    } else if end_of_tables(&beginning).is_none_or(|end| end > content.size()) {
        damaged("it is truncated")
    } else {
        CodeState::For(code_target(&beginning).into_iter().collect())
    }
}
