//! Why there is no answer.

use std::fmt::Display;
use std::path::Path;

use anyhow::anyhow;

use crate::opened;
use crate::rope::reason_at;

/// Why there is no answer about what can be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WhyError {
    /// Nothing that was looked at has device code or a marker.
    #[error("{0}")]
    Nothing(String),
    /// No file has the name that was asked for.
    #[error("--binary {0}: {1}; give the name of the file as it is there")]
    NoBinary(String, String),
    /// There is no such process.
    #[error("--pid {0}: there is no process with this ID")]
    NoProcess(u32),
    /// No library has the wrapper that was asked for.
    #[error("--wrapper {0}: no library has so many")]
    NoWrapper(usize),
}

/// The error about a file for a reason.
pub(super) fn at<E: Display>(path: &Path) -> impl Fn(E) -> anyhow::Error {
    |reason| anyhow!("{}: {}", path.display(), reason_at(&path.to_string_lossy(), reason))
}

/// Whether what was asked for was not understood, or is not there.
pub(crate) fn is_not_understood(error: &anyhow::Error) -> bool {
    match error.downcast_ref() {
        Some(WhyError::Nothing(_)) => false,
        Some(_) => true,
        None => opened::is_not_understood(error),
    }
}
