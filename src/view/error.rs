//! Why a split cannot be shown.

use std::io;
use std::path::PathBuf;

use crate::gpu::{BundleKey, doubt};
use crate::rope::ReadError;
use crate::simple::SameWheel;
use crate::split::join;
use crate::tree::TreeError;
use crate::wheel::WheelError;

/// Why a split cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum ViewError {
    /// Two files claim one path: a file of the input is in the place of an archive.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// The input's dist-info cannot be used.
    #[error(transparent)]
    Wheel(#[from] WheelError),
    /// Two wheels cannot be in one index.
    #[error(transparent)]
    SameWheel(#[from] SameWheel),
    /// A file of the input cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A wheel, or an attestation or a signature next to it, cannot be read.
    #[error("{}: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    /// The input has nothing for a requested target.
    #[error("--arch {wanted}: the input has nothing for it{}; it has code for {}", doubt(.wanted.as_str()), join(.existing))]
    NoSuchArch { wanted: BundleKey, existing: Vec<BundleKey> },
    /// The input has nothing for a requested thin view.
    #[error("--thin {wanted}: the input has nothing for it; there are thin views for {existing}")]
    NoSuchThin { wanted: String, existing: String },
}
