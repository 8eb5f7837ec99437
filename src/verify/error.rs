//! Why nothing can be checked.

use std::path::PathBuf;

use crate::artifact::ManifestError;
use crate::rope::ReadError;
use crate::source::SourceError;
use crate::split::StatementError;

/// Why nothing can be checked.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// A path cannot be listed or opened.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The beginning of a file cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// It is a file of an unknown kind.
    #[error("{}: neither a directory, a wheel, a binary nor a .kpack archive", .0.display())]
    UnknownKind(PathBuf),
    /// Comparing needs a whole split.
    #[error("{}: only a split or an installation can be compared with what it was made of", .0.display())]
    NotComparable(PathBuf),
    /// The statement of a split cannot be used.
    #[error("{path}: this statement of a split cannot be read: {source}; split again, or copy the whole output again")]
    Statement {
        /// The file.
        path: String,
        /// The reason.
        source: StatementError,
    },
    /// `--against` names a directory of wheels.
    #[error("{}: a directory of wheels is no fat input: name the wheel, or the tree, that was split", .0.display())]
    DirectoryOfWheels(PathBuf),
    /// `--against` names an environment with several directories of packages.
    #[error("{}: it has several directories of packages: name one, such as {}", .path.display(), .first.display())]
    SeveralSites {
        /// The environment.
        path: PathBuf,
        /// One of the directories.
        first: PathBuf,
    },
    /// An artifact's manifest cannot be used.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// There is nothing to check.
    #[error(
        "{}: there is nothing to verify: no split binary, no .kpack archive, no wheel and no part of a split; \
         expected is what `kpackfs split` writes (of an index, `simple/`) or `kpackfs mount` shows, or an installation of that",
        .0.display()
    )]
    Nothing(PathBuf),
}
