//! Why an input is not opened.

use std::path::PathBuf;

use crate::image::ImageError;
use crate::join::WheelsError;
use crate::packages::ArtifactError;
use crate::source::SourceError;
use crate::split::StatementError;

/// Why an input is not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenedError {
    /// It cannot be listed.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// Wheels cannot be used together.
    #[error(transparent)]
    Wheels(#[from] WheelsError),
    /// An image cannot be read.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// An artifact cannot be read.
    #[error(transparent)]
    Artifact(#[from] Box<ArtifactError>),
    /// The statement of a split cannot be used.
    #[error("{path}: this statement of a split cannot be read: {source}; split again, or copy the whole output again")]
    Statement { path: String, source: StatementError },
    /// There is nothing at the path.
    #[error("{}: No such file or directory", .0.display())]
    NotThere(PathBuf),
    /// It is in a mount whose daemon has ended.
    #[error(
        "{}: the daemon of the mount {mount} has ended: unmount it (`kpackfs umount {mount}`), and mount again",
        path.display(),
        mount = mount.display()
    )]
    DeadMount { path: PathBuf, mount: PathBuf },
    /// Its form is known, and nothing in it can be read as it is.
    #[error("{path}: {what}: {way}", path = path.display())]
    Packed {
        /// The input.
        path: PathBuf,
        /// Its form.
        what: &'static str,
        /// How it becomes an input: a command, or what to name instead.
        way: String,
    },
    /// Nothing was found in it, and it has something that was not looked into.
    #[error(
        "{path}: nothing to split was found in it, and it has {what} that were not looked into ({number}, such as {first}): unpack it if it \
         is packed, and name these or their directory",
        path = path.display()
    )]
    NotLookedInto { path: PathBuf, what: &'static str, number: usize, first: String },
    /// It has several trees of which each is a whole.
    #[error("{path}: it has {number} views of which each is a whole tree; name one of them, such as {first}", path = path.display())]
    SeveralViews { path: PathBuf, number: usize, first: String },
}

impl OpenedError {
    /// Whether the input was not understood, or is not there, so that there is no answer about it. Commands have an exit code
    /// of their own for it (docs/cli.md).
    pub fn is_not_understood(&self) -> bool {
        match self {
            Self::NotThere(_) | Self::DeadMount { .. } | Self::Packed { .. } | Self::NotLookedInto { .. } => true,
            Self::Source(error) => matches!(error, SourceError::UnknownKind { .. } | SourceError::Remote(_)),
            Self::Wheels(_)
            | Self::Image(_)
            | Self::Artifact(_)
            | Self::Statement { .. }
            | Self::SeveralViews { .. } => false,
        }
    }
}
