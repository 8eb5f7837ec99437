//! Where the bytes of a content come from. A writer can then have the kernel share or copy ranges of files, without
//! reading them.

use std::fs::File;

use super::ReadError;

/// A file of the operating system that holds exactly the bytes of a content.
pub trait Backing {
    /// Opens it. Fails with [`ReadError::Changed`] if it is no longer the file that was planned with.
    fn open(&self) -> Result<File, ReadError>;

    /// Fails with [`ReadError::Changed`] if a file that was opened is no longer what was planned with.
    fn check(&self, file: &File) -> Result<(), ReadError>;
}

/// A run of bytes of a content with one source.
#[derive(Clone, Copy, Debug)]
pub struct Extent<'a> {
    /// Length in bytes.
    pub length: u64,
    /// Where the bytes come from.
    pub source: ExtentSource<'a>,
}

/// Where a run of bytes comes from.
#[derive(Clone, Copy, derive_more::Debug)]
pub enum ExtentSource<'a> {
    /// A file of the operating system, from an offset on.
    #[debug("File({offset})")]
    File {
        /// The file.
        file: &'a dyn Backing,
        /// Offset of the first byte in the file.
        offset: u64,
    },
    /// Zeros.
    Zeros,
    /// Anything else: the bytes are read with [`Content::read_at`](super::Content::read_at).
    Read,
}
