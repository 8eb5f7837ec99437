//! Why views or files cannot be written, and what is only warned of.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use crate::disk::PREFIX;
use crate::rope::{ReadError, reason_at};
use crate::source::{EntryPath, PathError};

/// Reports a warning to the user.
pub(crate) type Warn = fn(&str);

/// Why a view or a file cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// Its bytes cannot be read.
    #[error("{}: {}", path.display(), reason_at(&path.to_string_lossy(), source))]
    Read { path: PathBuf, source: ReadError },
    /// `--reflink always` was given, and blocks of the input cannot be shared.
    #[error("{}: it cannot share blocks with the input: {source}; --reflink auto copies then", path.display())]
    NotShared { path: PathBuf, source: io::Error },
    /// Outputs exist. The text lists some of them.
    #[error("{0}: there already; name another directory, or replace what is there by --force")]
    Existing(String),
    /// The statement of an earlier split names a part by a path that is none.
    #[error(transparent)]
    StatedPart(PathError),
    /// What is there, or what was asked for, forbids it.
    #[error("{0}")]
    Refused(String),
}

/// The error about a path for a reason, which says what helps.
pub(crate) fn refused(path: &Path, reason: impl Display) -> ExportError {
    ExportError::Refused(format!("{}: {reason}", path.display()))
}

/// That something would replace a directory, a device or the like.
pub(crate) fn not_regular(path: &Path) -> ExportError {
    refused(path, "it is no regular file, and is not replaced by one; name another output")
}

/// That there is a file where a directory is written.
pub(crate) fn not_a_directory(path: &Path) -> ExportError {
    refused(path, "is not a directory; the output is a directory, which may be new")
}

/// That there is no such view.
pub(super) fn no_view(view: &EntryPath) -> ExportError {
    ExportError::Refused(format!("there is no view {view}"))
}

/// For `map_err`: names the file that is written.
pub(super) fn at(path: &Path) -> impl FnOnce(io::Error) -> ExportError {
    move |source| ExportError::Io { path: published(path), source }
}

/// For `map_err`: names the file that is written, if the input cannot be read.
pub(super) fn reading(path: &Path) -> impl FnOnce(ReadError) -> ExportError {
    move |source| ExportError::Read { path: published(path), source }
}

/// The path that a user knows of a file that is being written.
pub(super) fn published(path: &Path) -> PathBuf {
    path.iter().filter(|name| !name.as_encoded_bytes().starts_with(PREFIX.as_bytes())).collect()
}
