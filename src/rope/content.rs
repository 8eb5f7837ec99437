//! What can be read: contents, members of zip files, and contents that are made on demand.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::bounds::SizeBounds;
use super::extent::{Backing, Extent, ExtentSource};
use super::{Identity, ReadError, to_usize};

/// Bytes of a fixed length that can be read at any offset, from any thread.
pub trait Content: Send + Sync + fmt::Debug {
    /// Length in bytes. It never changes.
    fn size(&self) -> u64;

    /// Fills `buffer` with the bytes that start at `offset`. Fails with [`ReadError::OutOfRange`] unless all of
    /// them lie inside the content.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError>;

    /// A reader of the bytes from `offset` on. Reading all of a content costs less with it than in pieces, if a piece is
    /// decompressed.
    fn reader(&self, offset: u64) -> Box<dyn InOrderReader + '_> {
        Box::new(PositionedReader { content: self, at: offset })
    }

    /// Fills `buffer` with the first bytes, doing no more work than these need.
    fn peek(&self, buffer: &mut [u8]) -> Result<(), ReadError> {
        self.read_at(0, buffer)
    }

    /// The first `length` bytes, or all if there are fewer.
    fn beginning(&self, length: usize) -> Result<Vec<u8>, ReadError> {
        let mut bytes = vec![0; to_usize(self.size()).min(length)];
        self.peek(&mut bytes).map(|()| bytes)
    }

    /// The bytes as a vector; for small contents only.
    fn to_vec(&self) -> Result<Vec<u8>, ReadError> {
        let mut bytes = vec![0; to_usize(self.size())];
        self.read_at(0, &mut bytes).map(|()| bytes)
    }

    /// The file of the operating system that holds exactly these bytes, if there is one.
    fn backing(&self) -> Option<&dyn Backing> {
        None
    }

    /// Where these bytes come from, in order: ranges of files of the operating system, zeros, or bytes that have to be
    /// read.
    fn extents(&self, offset: u64, length: u64) -> Vec<Extent<'_>> {
        let source = self.backing().map_or(ExtentSource::Read, |file| ExtentSource::File { file, offset });
        vec![Extent { length, source }]
    }

    /// Whether reading these bytes only copies them from memory or from the page cache. Other reads inflate,
    /// decompress, compress or wait for a disk. They must not run on a thread that other requests need.
    fn is_nonblocking(&self, offset: u64, length: usize) -> bool {
        let _ = (offset, length);
        true
    }

    /// A hash of what the bytes are made of; see [`Identity`]. `None` if nothing about them is worth recording.
    fn identity(&self) -> Option<Identity> {
        None
    }

    /// The content as a member of a zip file, if it is one that can be read.
    fn member(&self) -> Option<&dyn PackedContent> {
        None
    }

    /// What is computed of all bytes while they are read for another purpose; `None` if nothing is, or if it is known.
    fn in_passing(&self) -> Option<Box<dyn InPassing + '_>> {
        None
    }

    /// Where it begins in a file that is best read in order, as one on a server is.
    fn place(&self) -> Option<u64> {
        None
    }

    /// The offsets in a range that were found in passing, when all of it was read for another purpose; `None` if nothing was
    /// looked for in all of the range.
    fn found(&self, range: &Range<u64>) -> Option<Vec<u64>> {
        let _ = range;
        None
    }

    /// Bytes that were inflated so far of the members of zip files that it consists of, for all of their readers.
    fn inflated(&self) -> u64 {
        0
    }

    /// Fails if the content does not have the checksum that comes with it. Reads all of it, unless that was done before.
    /// A content without a checksum is not read.
    fn check(&self) -> Result<(), ReadError> {
        Ok(())
    }
}

/// A member of a zip file.
pub trait PackedContent: Content {
    /// The form in which the zip file holds it.
    fn packed(&self) -> Packed;

    /// Has the pass that compares the checksum of a member compute its SHA-256, too. This holds for all members of the same
    /// zip file.
    fn hash_in_passing(&self) {}

    /// The SHA-256 of the content, if the pass that compares its checksum computes it.
    fn sha256(&self) -> Result<Option<[u8; 32]>, ReadError> {
        Ok(None)
    }

    /// The block boundaries of the deflate stream in [`PackedContent::packed`], ascending; `None` if there is no such stream.
    /// The first is the stream's beginning and the last is its end. Blocks that inflate to a few KiB only are joined
    /// with the next one. The first call reads the parts of the stream that no read has decoded before.
    fn block_boundaries(&self) -> Result<Option<Arc<[BlockBoundary]>>, ReadError> {
        Ok(None)
    }
}

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

/// A content whose length is known only after it was made.
pub trait Materialize: Send + Sync + fmt::Debug {
    /// The content if it was made before.
    fn made(&self) -> Option<Arc<dyn Content>>;

    /// The content; the first caller makes it, and others wait.
    fn make(&self) -> Result<Arc<dyn Content>, ReadError>;

    /// Its size, as far as it is known without work.
    fn bounds(&self) -> SizeBounds {
        self.made().map_or(SizeBounds::UNKNOWN, |content| SizeBounds::exact(content.size()))
    }

    /// Bytes of the files that are read to make it; 0 if that is little work, or done.
    fn work(&self) -> u64 {
        0
    }

    /// The files that it consists of, with what each takes of it; none if it is no archive of files.
    fn files(&self) -> Vec<(String, SizeBounds)> {
        Vec::new()
    }
}

/// Reads a content from an offset on, in order.
///
/// It may hold what is expensive to make and has to fit into the memory budget: a decoder at its position, or a decompressed
/// bundle. Nobody can evict that before the reader is dropped. So a thread has one reader at a time, and drops it before it
/// waits for anything else. A reader of a rope holds something of one segment at a time.
pub trait InOrderReader {
    /// Fills `buffer` with the next bytes. Fails with [`ReadError::OutOfRange`] if there are fewer.
    fn read(&mut self, buffer: &mut [u8]) -> Result<(), ReadError>;
}

/// Takes all bytes of a content in order, in pieces.
pub trait InPassing {
    /// Takes the next bytes.
    fn take(&mut self, bytes: &[u8]);
}

/// A reader that holds nothing from one read to the next.
pub(super) struct PositionedReader<'a, C: ?Sized> {
    pub(super) content: &'a C,
    pub(super) at: u64,
}

impl<C: Content + ?Sized> InOrderReader for PositionedReader<'_, C> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<(), ReadError> {
        self.content.read_at(self.at, buffer)?;
        self.at += buffer.len() as u64;
        Ok(())
    }
}
