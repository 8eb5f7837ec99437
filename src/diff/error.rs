//! Why two inputs cannot be compared.

use std::path::PathBuf;

use crate::artifact::ManifestError;
use crate::opened::OpenedError;
use crate::rope::ReadError;
use crate::split::SplitError;

/// Why two inputs cannot be compared.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DiffError {
    /// An input is not understood, or cannot be opened.
    #[error("{0}")]
    Opened(#[from] OpenedError),
    /// An artifact's manifest cannot be used.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// An input cannot be planned.
    #[error("{}: {source}", location.display())]
    Split { location: PathBuf, source: SplitError },
    /// A file cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A code object of an archive cannot be read.
    #[error("an archive: {0}")]
    Archive(String),
}
