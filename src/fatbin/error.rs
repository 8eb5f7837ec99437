//! Why a bundle cannot be read.

use crate::rope::ReadError;

/// Why an offload bundle cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FatbinError {
    /// There is no valid bundle where the wrapper points to.
    #[error("offload bundle at {offset:#x}: {reason}")]
    Malformed {
        /// File offset of the bundle.
        offset: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// The file's bytes cannot be read.
    #[error("{0}")]
    Read(#[from] ReadError),
}

/// The error of a bundle at an offset.
pub(super) fn malformed(offset: u64, reason: impl Into<String>) -> FatbinError {
    FatbinError::Malformed { offset, reason: reason.into() }
}
