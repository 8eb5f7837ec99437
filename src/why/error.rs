//! Why there is no answer.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use crate::image::ImageError;
use crate::join::WheelsError;
use crate::opened::OpenedError;
use crate::packages::ArtifactError;
use crate::rope::reason_at;
use crate::source::SourceError;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WhyError {
    /// What was named is not understood, or cannot be listed.
    #[error(transparent)]
    Opened(#[from] OpenedError),
    /// A file cannot be opened.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// An image cannot be read.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// An artifact cannot be read.
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
    /// Wheels cannot be installed together.
    #[error(transparent)]
    Wheels(#[from] WheelsError),
    /// A file cannot be parsed.
    #[error("{}: {reason}", path.display())]
    File { path: PathBuf, reason: String },
    /// Nothing that was looked at has device code or a marker.
    #[error("{0}")]
    Nothing(String),
    /// No file has the name that was asked for.
    #[error("--binary {0}: {1}; give the name of the file as it is there")]
    NoBinary(String, String),
    /// There is no such process.
    #[error("--pid {0}: there is no process with this ID")]
    NoProcess(u32),
    /// There is no procfs, which tells about processes.
    #[error("/proc/self: no such directory; mount /proc")]
    NoProc,
    /// No library has the wrapper that was asked for.
    #[error("--wrapper {0}: no library has so many")]
    NoWrapper(usize),
}

impl WhyError {
    /// The error about a file for a reason.
    pub(super) fn at<E: Display>(path: &Path) -> impl Fn(E) -> Self {
        |reason| Self::File { path: path.to_owned(), reason: reason_at(&path.to_string_lossy(), reason) }
    }

    /// Whether an input was not understood, or is not there.
    pub(crate) fn is_not_understood(&self) -> bool {
        match self {
            Self::Opened(error) => error.is_not_understood(),
            Self::Source(error) => matches!(error, SourceError::UnknownKind { .. } | SourceError::Remote(_)),
            Self::NoProcess(_) | Self::NoBinary(..) | Self::NoWrapper(_) => true,
            _ => false,
        }
    }
}
