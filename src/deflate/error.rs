//! Why there is no deflate stream.

use crate::rope::{EditError, ReadError};

/// Why no deflate stream can be made.
#[derive(Debug, thiserror::Error)]
pub enum DeflateError {
    /// The edits cannot be applied.
    #[error(transparent)]
    Edit(#[from] EditError),
    /// The content cannot be read.
    #[error("{0}")]
    Read(#[from] ReadError),
    /// The library reported an error.
    #[error("cannot deflate: {0}")]
    Encoder(&'static str),
    /// The library took or returned fewer bytes than it should.
    #[error("cannot deflate: a block is incomplete")]
    Incomplete,
}

impl From<zlib_rs::DeflateError> for DeflateError {
    fn from(error: zlib_rs::DeflateError) -> Self {
        Self::Encoder(error.as_str())
    }
}
