//! Why nothing can be collected.

use std::path::PathBuf;

use crate::opened::OpenedError;
use crate::rope::ReadError;

/// Why nothing can be collected.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    /// The application or a tree is not understood, or cannot be listed.
    #[error("{0}")]
    Opened(#[from] OpenedError),
    /// A statement could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The application has nothing that a loader loads.
    #[error("{}: contains no program and no library, so it needs nothing", .0.display())]
    NoProgram(PathBuf),
    /// There is no application.
    #[error("no application is named")]
    NoApp,
}
