//! Segments, and ropes of them.

use std::sync::Arc;

use super::{
    Backing, Content, Extent, ExtentSource, Identity, InOrderReader, ReadError, check_range, copy_from, to_usize,
};

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

/// An immutable list of segments; see the [module](super).
#[derive(Debug, Default)]
pub struct Rope {
    /// Each with its end, ascending; the last one is the rope's size.
    segments: Vec<(Segment, u64)>,
}

impl Rope {
    /// Joins segments. Empty ones are left out. Fails with [`ReadError::OutOfRange`] if the total length does not
    /// fit into 63 bits, which is what a file offset can hold.
    pub fn new(segments: impl IntoIterator<Item = Segment>) -> Result<Self, ReadError> {
        let segments = segments.into_iter();
        let mut rope = Self { segments: Vec::with_capacity(segments.size_hint().0) };
        let mut end = 0_u64;
        for segment in segments {
            if segment.length == 0 {
                continue;
            }
            end = end
                .checked_add(segment.length)
                .filter(|&end| i64::try_from(end).is_ok())
                .ok_or(ReadError::OutOfRange { offset: end, length: segment.length, size: i64::MAX.unsigned_abs() })?;
            rope.segments.push((segment, end));
        }
        Ok(rope)
    }

    /// The segments that hold `length` bytes from `offset` on.
    fn pieces(&self, offset: u64, length: usize) -> impl Iterator<Item = Piece<'_>> {
        let first = self.segments.partition_point(|(_, end)| *end <= offset);
        let mut at = offset;
        let mut left = length;
        self.segments.iter().skip(first).map_while(move |(segment, end)| {
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
        self.segments.last().map_or(0, |(_, end)| *end)
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
            [(Segment { origin: SegmentSource::Range { content, offset: 0 }, length }, _)]
                if *length == content.size() =>
            {
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
        for (segment, _) in &self.segments {
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

    fn inflated(&self) -> u64 {
        let of_segment = |(segment, _): &(Segment, u64)| match &segment.origin {
            SegmentSource::Range { content, .. } => content.inflated(),
            SegmentSource::Literal(_) | SegmentSource::Zeros => 0,
        };
        self.segments.iter().map(of_segment).sum()
    }
}

/// Reads the segments of a rope one after the other.
struct RopeReader<'a> {
    rope: &'a Rope,
    at: u64,
    /// The reader of the segment in which it is, and the end of that segment.
    open: Option<(u64, Box<dyn InOrderReader + 'a>)>,
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
