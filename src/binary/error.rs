//! Why a binary is not split.

use crate::rope::ReadError;

/// Why a binary for another machine is not split.
pub(super) const OTHER_MACHINE: &str = "its machine is not supported";

/// Why a binary is not split. It is then shown unchanged.
#[derive(Clone, Debug, thiserror::Error)]
pub enum BinaryError {
    /// Its headers contradict each other or the file.
    #[error("malformed: {0}")]
    Malformed(String),
    /// kpackfs does not rewrite binaries of this form.
    #[error("{0}")]
    Unsupported(String),
    /// Its bytes cannot be read.
    #[error("{0}")]
    Read(#[from] ReadError),
}

impl BinaryError {
    pub(super) fn malformed(reason: impl Into<String>) -> Self {
        Self::Malformed(reason.into())
    }

    pub(super) fn unsupported(reason: impl Into<String>) -> Self {
        Self::Unsupported(reason.into())
    }
}
