//! Content as a rope: an immutable list of segments whose total length is known when it is built.
//!
//! A file's size has to be exact before its first byte is made. Tools that trust `st_size` are silently wrong
//! otherwise. So planning fixes lengths, and reading copies ranges.
//!
//! It imports no other room: a source is whatever implements [`Content`].
//!
//! ```
//! use std::sync::Arc;
//!
//! use kpackfs::rope::{Content, Edit, ReadError, Rope, Segment, edited};
//!
//! let segments = [Segment::literal(*b"Hello, "), Segment::zeros(3), Segment::literal(*b"!")];
//! let text: Arc<dyn Content> = Arc::new(Rope::new(segments)?);
//! assert_eq!(text.size(), 11);
//!
//! // A changed copy has the same segments but for what is changed.
//! let changed = edited(&text, vec![Edit::replace(7, 10, *b"world")])?;
//! assert_eq!(changed.to_vec()?, b"Hello, world!");
//!
//! let mut bytes = [0; 5];
//! changed.read_at(7, &mut bytes)?;
//! assert_eq!(&bytes, b"world");
//! assert!(matches!(changed.read_at(9, &mut bytes), Err(ReadError::OutOfRange { .. })));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod compare;
mod edit;
mod extent;
mod identity;
mod lazy;
mod packed;
mod read;
mod sha256;

use std::fmt;
use std::fs::File;
use std::io;
use std::sync::Arc;

pub use compare::equal;
pub use edit::{Edit, EditError, edited};
pub use extent::{Extent, ExtentSource};
pub use identity::{Identifier, Identity};
pub use lazy::LazyContent;
pub use packed::{BlockBoundary, Packed};
pub use read::{InOrderReader, read_all, read_range};
use read::{PositionedReader, RopeReader};
pub use sha256::Sha256;

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

    /// The form in which a zip file holds exactly these bytes, if the content is a member of one.
    fn packed(&self) -> Option<Packed> {
        None
    }

    /// Fails if the content does not have the checksum that comes with it. Reads all of it, unless that was done before.
    /// A content without a checksum is not read.
    fn check(&self) -> Result<(), ReadError> {
        Ok(())
    }

    /// The SHA-256 of all bytes, if the pass that compares their checksum computes it.
    fn sha256(&self) -> Result<Option<[u8; 32]>, ReadError> {
        Ok(None)
    }

    /// The size of [`Content::packed`] in bytes. The default implementation calls it.
    fn packed_size(&self) -> Option<u64> {
        self.packed().map(|packed| packed.bytes.size())
    }

    /// Whether [`Content::packed`] returns a form. The default implementation calls it.
    fn is_packed(&self) -> bool {
        self.packed_size().is_some()
    }

    /// The block boundaries of the deflate stream in [`Content::packed`], ascending; `None` if there is no such stream.
    /// The first is the stream's beginning and the last is its end. Blocks that inflate to a few KiB only are joined
    /// with the next one. The first call reads the parts of the stream that no read has decoded before.
    fn block_boundaries(&self) -> Result<Option<Arc<[BlockBoundary]>>, ReadError> {
        Ok(None)
    }
}

/// A length or an offset as an index in memory. Lossless, since kpackfs is built for 64-bit systems only.
#[expect(clippy::cast_possible_truncation, reason = "the assertion proves that there is none")]
pub(crate) const fn to_usize(value: u64) -> usize {
    const { assert!(usize::BITS >= u64::BITS) };
    value as usize
}

/// The first `length` of these. The caller has proven that there are as many: what is impossible panics, which a mount answers with
/// EIO and a line in the log, instead of going on with nothing.
pub(crate) fn head<T>(items: &[T], length: usize) -> &[T] {
    items.split_at(length).0
}

/// Like [`head`], to be written.
pub(crate) fn head_mut<T>(items: &mut [T], length: usize) -> &mut [T] {
    items.split_at_mut(length).0
}

/// Those behind the first `length`; see [`head`].
pub(crate) fn tail<T>(items: &[T], length: usize) -> &[T] {
    items.split_at(length).1
}

/// A file of the operating system that holds exactly the bytes of a content.
pub trait Backing {
    /// Opens it. Fails with [`ReadError::Changed`] if it is no longer the file that was planned with.
    fn open(&self) -> Result<File, ReadError>;

    /// Fails with [`ReadError::Changed`] if a file that was opened is no longer what was planned with.
    fn check(&self, file: &File) -> Result<(), ReadError>;
}

/// A content whose length is known only after it was made.
pub trait Materialize: Send + Sync + fmt::Debug {
    /// The content if it was made before.
    fn made(&self) -> Option<Arc<dyn Content>>;

    /// The content; the first caller makes it, and others wait.
    fn make(&self) -> Result<Arc<dyn Content>, ReadError>;
}

/// Why bytes cannot be read. Cheap to clone: each thread that waited for the failed work gets a copy.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ReadError {
    /// The operating system refused to read the input.
    #[error("{entry}: {source}")]
    Io {
        /// What was being read.
        entry: Arc<str>,
        /// The operating system's answer.
        source: Arc<io::Error>,
    },
    /// The input is no longer the file that was planned with.
    #[error("{entry}: changed since it was opened; unmount and mount it again")]
    Changed {
        /// What was being read.
        entry: Arc<str>,
    },
    /// The input's bytes contradict its own description of them.
    #[error("{entry}: {reason}")]
    Damaged {
        /// What was being read.
        entry: Arc<str>,
        /// What is wrong with it.
        reason: Arc<str>,
    },
    /// A caller asked for bytes that the content does not have.
    #[error("bytes {offset}+{length} lie outside of a content of {size} bytes")]
    OutOfRange {
        /// First byte asked for.
        offset: u64,
        /// Number of bytes asked for.
        length: u64,
        /// Bytes there are.
        size: u64,
    },
}

impl ReadError {
    /// An I/O error that names the entry it concerns.
    pub fn io(entry: &Arc<str>, source: io::Error) -> Self {
        Self::Io { entry: Arc::clone(entry), source: Arc::new(source) }
    }

    /// A damaged entry, with the reason.
    pub fn damaged(entry: &Arc<str>, reason: impl Into<Arc<str>>) -> Self {
        Self::Damaged { entry: Arc::clone(entry), reason: reason.into() }
    }
}

/// Checks that `offset..offset + length` lies inside `size` bytes.
pub fn check_range(offset: u64, length: usize, size: u64) -> Result<(), ReadError> {
    let length = length as u64;
    match offset.checked_add(length) {
        Some(end) if end <= size => Ok(()),
        _ => Err(ReadError::OutOfRange { offset, length, size }),
    }
}

/// Fills `buffer` with the part of `bytes` that starts at `offset`. Fails if `bytes` is too short.
pub fn copy_from(bytes: &[u8], offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
    let start = to_usize(offset);
    let piece = bytes.get(start..start.saturating_add(buffer.len()));
    let out_of_range = || ReadError::OutOfRange { offset, length: buffer.len() as u64, size: bytes.len() as u64 };
    buffer.copy_from_slice(piece.ok_or_else(out_of_range)?);
    Ok(())
}

/// One piece of a rope. The fields are private so that every segment that exists has been validated.
#[derive(Clone, Debug)]
pub struct Segment {
    origin: SegmentSource,
    length: u64,
}

#[derive(Clone, Debug)]
enum SegmentSource {
    Literal(Arc<[u8]>),
    Range { content: Arc<dyn Content>, offset: u64 },
    Zeros,
}

impl Segment {
    /// Bytes held in memory.
    pub fn literal(bytes: impl Into<Arc<[u8]>>) -> Self {
        let bytes = bytes.into();
        Self { length: bytes.len() as u64, origin: SegmentSource::Literal(bytes) }
    }

    /// `length` bytes of `content` from `offset`. Fails if the content does not have them.
    pub fn range(content: Arc<dyn Content>, offset: u64, length: u64) -> Result<Self, ReadError> {
        match offset.checked_add(length) {
            Some(end) if end <= content.size() => Ok(Self { length, origin: SegmentSource::Range { content, offset } }),
            _ => Err(ReadError::OutOfRange { offset, length, size: content.size() }),
        }
    }

    /// All of `content`.
    pub fn whole(content: Arc<dyn Content>) -> Self {
        Self { length: content.size(), origin: SegmentSource::Range { content, offset: 0 } }
    }

    /// `length` zero bytes.
    pub fn zeros(length: u64) -> Self {
        Self { length, origin: SegmentSource::Zeros }
    }

    /// Its length in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        match &self.origin {
            SegmentSource::Literal(bytes) => copy_from(bytes, offset, buffer),
            SegmentSource::Range { content, offset: start } => content.read_at(start + offset, buffer),
            SegmentSource::Zeros => {
                buffer.fill(0);
                Ok(())
            }
        }
    }
}

/// An immutable list of segments; see the [module](self).
#[derive(Debug, Default)]
pub struct Rope {
    segments: Vec<Segment>,
    /// End offset of each segment, ascending; the last one is the rope's size.
    ends: Vec<u64>,
}

impl Rope {
    /// Joins segments. Empty ones are left out. Fails with [`ReadError::OutOfRange`] if the total length does not
    /// fit into 63 bits, which is what a file offset can hold.
    pub fn new(segments: impl IntoIterator<Item = Segment>) -> Result<Self, ReadError> {
        let mut rope = Self { segments: Vec::new(), ends: Vec::new() };
        let mut end = 0_u64;
        for segment in segments {
            if segment.length == 0 {
                continue;
            }
            end = end
                .checked_add(segment.length)
                .filter(|&end| i64::try_from(end).is_ok())
                .ok_or(ReadError::OutOfRange { offset: end, length: segment.length, size: i64::MAX.unsigned_abs() })?;
            rope.segments.push(segment);
            rope.ends.push(end);
        }
        Ok(rope)
    }

    /// The segments that hold `length` bytes from `offset` on.
    fn pieces(&self, offset: u64, length: usize) -> impl Iterator<Item = Piece<'_>> {
        let first = self.ends.partition_point(|&end| end <= offset);
        let mut at = offset;
        let mut left = length;
        self.segments.iter().zip(&self.ends).skip(first).map_while(move |(segment, &end)| {
            if left == 0 {
                return None;
            }
            let length = to_usize(end - at).min(left);
            let piece = Piece { segment, skip: at - (end - segment.length), length };
            at += length as u64;
            left -= length;
            Some(piece)
        })
    }

    /// The bytes as a vector; for small contents only.
    pub fn to_vec(&self) -> Result<Vec<u8>, ReadError> {
        let mut bytes = vec![0; to_usize(self.size())];
        self.read_at(0, &mut bytes)?;
        Ok(bytes)
    }
}

/// Some bytes of a segment.
struct Piece<'a> {
    segment: &'a Segment,
    /// Offset in the segment.
    skip: u64,
    length: usize,
}

impl Content for Rope {
    fn size(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        check_range(offset, buffer.len(), self.size())?;
        let mut rest = buffer;
        for piece in self.pieces(offset, rest.len()) {
            let (here, after) = rest.split_at_mut(piece.length);
            piece.segment.read_at(piece.skip, here)?;
            rest = after;
        }
        Ok(())
    }

    fn reader(&self, offset: u64) -> Box<dyn InOrderReader + '_> {
        Box::new(RopeReader { rope: self, at: offset, open: None })
    }

    fn backing(&self) -> Option<&dyn Backing> {
        match self.segments.as_slice() {
            [Segment { origin: SegmentSource::Range { content, offset: 0 }, length }] if *length == content.size() => {
                content.backing()
            }
            _ => None,
        }
    }

    fn extents(&self, offset: u64, length: u64) -> Vec<Extent<'_>> {
        let length = to_usize(length);
        let extents = self.pieces(offset, length).flat_map(|piece| {
            let length = piece.length as u64;
            match &piece.segment.origin {
                SegmentSource::Range { content, offset } => content.extents(offset + piece.skip, length),
                SegmentSource::Literal(_) => vec![Extent { length, source: ExtentSource::Read }],
                SegmentSource::Zeros => vec![Extent { length, source: ExtentSource::Zeros }],
            }
        });
        extents.collect()
    }

    fn is_nonblocking(&self, offset: u64, length: usize) -> bool {
        self.pieces(offset, length).all(|piece| match &piece.segment.origin {
            SegmentSource::Range { content, offset } => content.is_nonblocking(offset + piece.skip, piece.length),
            SegmentSource::Literal(_) | SegmentSource::Zeros => true,
        })
    }

    fn identity(&self) -> Option<Identity> {
        let mut identity = Identity::describe("rope");
        for segment in &self.segments {
            match &segment.origin {
                SegmentSource::Literal(bytes) => identity.add(b"literal").add(bytes),
                SegmentSource::Range { content, offset } => {
                    identity.add(b"range").add(&content.identity()?.0).number(*offset).number(segment.length)
                }
                SegmentSource::Zeros => identity.add(b"zeros").number(segment.length),
            };
        }
        Some(identity.finish())
    }
}

#[cfg(test)]
mod tests;
