//! Why nothing can be checked.

use std::path::PathBuf;

use crate::artifact::ManifestError;
use crate::opened::OpenedError;
use crate::report::table::counted;
use crate::rope::ReadError;
use crate::source::SourceError;

/// Why nothing can be checked.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// An input is not understood, or cannot be opened.
    #[error("{0}")]
    Opened(#[from] OpenedError),
    /// The beginning of a file cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Comparing needs a whole split.
    #[error("{}: only a split or an installation can be compared with what it was made of", .0.display())]
    NotComparable(PathBuf),
    /// `--against` names what is no fat input.
    #[error("{}: {what} is no fat input: name the wheel, or the tree, that was split", .path.display())]
    NotFat { path: PathBuf, what: &'static str },
    /// `--against` names an environment with several directories of packages.
    #[error("{}: it has several directories of packages: name one, such as {}", .path.display(), .first.display())]
    SeveralSites { path: PathBuf, first: PathBuf },
    /// Packages are installed in directories of a tree that is compared with a wheel.
    #[error(
        "{}: packages are installed below it, such as that of {record}: name their directory to compare it, and unpack an \
         archive or an image first", path.display()
    )]
    InstalledBelow { path: PathBuf, record: String },
    /// An artifact's manifest cannot be used.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// There is nothing to check.
    #[error(
        "{0}: no split binary, no .kpack archive and no part of a split; \
         expected is what `kpackfs split` writes or `kpackfs mount` shows, or an installation of that (of a copied \
         thin view, --thin names the GPUs)"
    )]
    Nothing(Unsplit),
}

/// What was looked at in an input that was never split.
#[derive(Clone, Debug, Default, derive_more::Display)]
#[display(
    "{}: nothing there was split: {}, {}",
    path.display(),
    counted(*files, "file", "files"),
    counted(*binaries, "binary", "binaries")
)]
pub struct Unsplit {
    /// The input.
    pub path: PathBuf,
    /// The number of its files.
    pub files: usize,
    /// The number of binaries among them.
    pub binaries: usize,
    /// What was noted of all inputs.
    pub notes: Vec<String>,
}

impl From<SourceError> for VerifyError {
    fn from(error: SourceError) -> Self {
        Self::Opened(error.into())
    }
}
