//! Reading a content, or a range of one, from its beginning to its end.

use std::ops::Range;

use super::{Content, ReadError, Rope, SegmentSource, check_range, head_mut, to_usize};

/// Bytes read at a time.
const STEP: usize = 1 << 20;

/// Reads a content from an offset on, in order.
///
/// It may hold what is expensive to make and has to fit into the memory budget: a decoder at its position, or a decompressed
/// bundle. Nobody can evict that before the reader is dropped. So a thread has one reader at a time, and drops it before it
/// waits for anything else. A reader of a rope holds something of one segment at a time.
pub trait InOrderReader {
    /// Fills `buffer` with the next bytes. Fails with [`ReadError::OutOfRange`] if there are fewer.
    fn read(&mut self, buffer: &mut [u8]) -> Result<(), ReadError>;
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

/// Reads the segments of a rope one after the other.
pub(super) struct RopeReader<'a> {
    pub(super) rope: &'a Rope,
    pub(super) at: u64,
    /// The reader of the segment in which it is, and the end of that segment.
    pub(super) open: Option<(u64, Box<dyn InOrderReader + 'a>)>,
}

impl InOrderReader for RopeReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<(), ReadError> {
        check_range(self.at, buffer.len(), self.rope.size())?;
        let mut rest = buffer;
        for piece in self.rope.pieces(self.at, rest.len()) {
            let (here, after) = rest.split_at_mut(piece.length);
            let end = self.at - piece.skip + piece.segment.length;
            self.at += piece.length as u64;
            let open = self.open.take().filter(|(of, _)| *of == end);
            if let SegmentSource::Range { content, offset } = &piece.segment.origin {
                let mut reader = open.map_or_else(|| content.reader(offset + piece.skip), |(_, reader)| reader);
                reader.read(here)?;
                // What it holds is released before the next segment is read.
                self.open = (self.at < end).then_some((end, reader));
            } else {
                piece.segment.read_at(piece.skip, here)?;
            }
            rest = after;
        }
        Ok(())
    }
}

/// Passes all bytes of a content to `take`, in pieces. The content may be larger than the memory.
pub fn read_all(content: &dyn Content, take: impl FnMut(&[u8])) -> Result<(), ReadError> {
    read_range(content, 0..content.size(), take)
}

/// Passes a range of a content to `take`, in pieces. `take` must not wait for memory; see [`InOrderReader`].
pub fn read_range(content: &dyn Content, range: Range<u64>, mut take: impl FnMut(&[u8])) -> Result<(), ReadError> {
    let mut buffer = vec![0; to_usize(range.end.saturating_sub(range.start)).min(STEP)];
    let mut reader = content.reader(range.start);
    let mut at = range.start;
    while at < range.end {
        let length = to_usize(range.end - at).min(STEP);
        let buffer = head_mut(&mut buffer, length);
        reader.read(buffer)?;
        take(buffer);
        at += length as u64;
    }
    Ok(())
}
