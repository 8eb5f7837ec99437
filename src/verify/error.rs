//! What is not to be checked, since nothing there was split.

use std::path::PathBuf;

use crate::report::table::counted;

/// There is nothing to check.
#[derive(Debug, thiserror::Error)]
#[error(
    "{0}: no split binary, no .kpack archive and no part of a split; \
     expected is what `kpackfs split` writes or `kpackfs mount` shows, or an installation of that (of a copied \
     thin view, --thin names the GPUs)"
)]
pub struct NothingSplit(pub Unsplit);

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
