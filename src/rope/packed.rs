//! The form in which a zip file holds a content.

use std::sync::Arc;

use super::Content;

/// How a zip file holds a content.
#[derive(Clone, Debug)]
pub struct Packed {
    /// The bytes as they stand in the zip file: a raw deflate stream, or the content itself.
    pub bytes: Arc<dyn Content>,
    /// Whether `bytes` is a deflate stream.
    pub deflated: bool,
    /// The CRC-32 which the zip file claims for the content.
    pub crc32: u32,
}

/// A place in a deflate stream between two blocks (RFC 1951, section 3.2.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockBoundary {
    /// Offset in the compressed data in *bits*, counted from the least significant bit of each byte.
    pub bit: u64,
    /// Offset in the content.
    pub output: u64,
    /// CRC-32 of the content up to here.
    pub crc32: u32,
}
