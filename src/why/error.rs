//! Why there is no answer.

use std::path::PathBuf;

use crate::binary::BinaryError;
use crate::fatbin::FatbinError;
use crate::source::SourceError;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WhyError {
    /// A file cannot be opened.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A library cannot be parsed.
    #[error("{}: {source}", path.display())]
    Binary {
        /// The library.
        path: PathBuf,
        /// The reason.
        source: BinaryError,
    },
    /// A bundle cannot be parsed.
    #[error("{}: {source}", path.display())]
    Bundle {
        /// The library.
        path: PathBuf,
        /// The reason.
        source: FatbinError,
    },
    /// No library has device code or a marker.
    #[error("{}: no library there has device code, or wrappers that lead to archives", .0.display())]
    Nothing(PathBuf),
    /// No library has the wrapper that was asked for.
    #[error("--wrapper {0}: no library has so many")]
    NoWrapper(usize),
}
