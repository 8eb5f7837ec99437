//! What a content is, for those who write it: the kernel can share or copy ranges of files without their bytes.

use std::fmt;

use super::Backing;

/// Some bytes of a content.
#[derive(Clone, Copy, Debug)]
pub struct Extent<'a> {
    /// How many.
    pub length: u64,
    /// What they are.
    pub source: ExtentSource<'a>,
}

/// What some bytes of a content are.
#[derive(Clone, Copy)]
pub enum ExtentSource<'a> {
    /// Those of a file of the operating system, from an offset on.
    File {
        /// The file.
        file: &'a dyn Backing,
        /// The first byte.
        offset: u64,
    },
    /// Zeros.
    Zeros,
    /// Others: [`Content::read_at`](super::Content::read_at) has them.
    Read,
}

impl fmt::Debug for ExtentSource<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { offset, .. } => write!(formatter, "File({offset})"),
            Self::Zeros => formatter.write_str("Zeros"),
            Self::Read => formatter.write_str("Read"),
        }
    }
}
