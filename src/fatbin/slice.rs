//! A part of a compressed bundle as a content. It is read in pieces, or from its beginning to its end.

#[cfg(all(test, feature = "shuttle"))]
mod schedules;

use super::compressed::Compressed;
use super::pinned::Decompressed;
use crate::memory::{OpenStream, Pooled};
use crate::rope::{Content, Identity, InOrderReader, ReadError, check_range, copy_from};
use crate::sync::Arc;

impl Compressed {
    /// The decompressed bundle as a content.
    pub fn whole(self: &Arc<Self>) -> Arc<dyn Content> {
        Arc::new(Slice { bundle: Arc::clone(self), offset: 0, size: self.size() })
    }

    /// A part of the decompressed bundle as a content.
    pub(super) fn slice(self: &Arc<Self>, offset: u64, size: u64) -> Result<Slice, ReadError> {
        match offset.checked_add(size) {
            Some(end) if end <= self.size() => Ok(Slice { bundle: Arc::clone(self), offset, size }),
            _ => Err(ReadError::OutOfRange { offset, length: size, size: self.size() }),
        }
    }

    /// A stream for a piece at `offset`: the one that the reader of the piece before has left there, if it still has
    /// its lease.
    fn stream_for_piece(&self, offset: u64) -> Pooled<OpenStream> {
        let position = |stream: &OpenStream| (stream.id == self.id() && stream.at <= offset).then_some(stream.at);
        self.resources().streams.resume(position).unwrap_or_else(|| self.stream())
    }
}

/// A part of a compressed bundle.
#[derive(Debug)]
pub(super) struct Slice {
    bundle: Arc<Compressed>,
    offset: u64,
    size: u64,
}

impl Content for Slice {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        check_range(offset, buffer.len(), self.size)?;
        let (bundle, start, length) = (&self.bundle, self.offset.saturating_add(offset), buffer.len() as u64);
        let end = start.saturating_add(length);
        bundle.check(end)?;
        // A reader that has not reached the end is expected to go on.
        let goes_on = offset + length < self.size;
        if !bundle.is_decompressed_in_memory() {
            let mut stream = bundle.stream_for_piece(start);
            let read = bundle.seek(&mut stream, start).and_then(|()| bundle.read_stream(&mut stream, buffer));
            if goes_on && read.is_ok() {
                stream.lease(start.saturating_add(bundle.stream_memory()), length);
            } else {
                stream.end_lease();
            }
            return read;
        }
        copy_from(&bundle.decompressed(end)?, start, buffer)?;
        let bundles = &bundle.resources().bundles;
        if goes_on {
            bundles.lease(&bundle.id(), bundle.size(), length);
        } else {
            bundles.end_lease(&bundle.id());
        }
        Ok(())
    }

    fn peek(&self, buffer: &mut [u8]) -> Result<(), ReadError> {
        if self.offset > 0 { self.read_at(0, buffer) } else { self.bundle.first(buffer) }
    }

    fn reader(&self, offset: u64) -> Box<dyn InOrderReader + '_> {
        Box::new(SliceReader { slice: self, at: offset, open: None })
    }

    fn is_nonblocking(&self, offset: u64, length: usize) -> bool {
        let start = self.offset.saturating_add(offset);
        self.bundle.in_use_to(start.saturating_add(length as u64)).is_some()
    }

    fn identity(&self) -> Option<Identity> {
        let bundle = &self.bundle;
        let whole = bundle.content().identity()?;
        let mut identity = Identity::describe("offload bundle");
        Some(
            identity
                .add(&whole.0)
                .number(bundle.start())
                .number(bundle.packing.length)
                .number(self.offset)
                .number(self.size)
                .finish(),
        )
    }
}

/// A reader that keeps the bundle open. Without it, two threads with memory for one decoder would take it from each other, and
/// each would begin again for every piece.
struct SliceReader<'a> {
    slice: &'a Slice,
    at: u64,
    open: Option<Open>,
}

/// What is held between reads.
enum Open {
    InMemory(Arc<Decompressed>),
    Stream(Pooled<OpenStream>),
}

impl Open {
    /// The bundle, at least up to `end`. Waits for memory.
    fn new(bundle: &Compressed, end: u64) -> Result<Self, ReadError> {
        if bundle.is_decompressed_in_memory() {
            return bundle.decompressed(end).map(Self::InMemory);
        }
        Ok(Self::Stream(bundle.stream()))
    }

    /// Whether bytes up to `end` can be read from it.
    fn reaches(&self, end: u64) -> bool {
        match self {
            Self::InMemory(held) => held.len() as u64 >= end,
            Self::Stream(_) => true,
        }
    }
}

impl InOrderReader for SliceReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<(), ReadError> {
        let Slice { bundle, offset, size } = self.slice;
        check_range(self.at, buffer.len(), *size)?;
        let start = offset.saturating_add(self.at);
        let end = start.saturating_add(buffer.len() as u64);
        bundle.check(end)?;
        // A thread that waits for memory holds no bundle, so one that is too short is released first.
        let open = match self.open.take().filter(|open| open.reaches(end)) {
            Some(open) => open,
            None => Open::new(bundle, end)?,
        };
        match self.open.insert(open) {
            Open::InMemory(held) => copy_from(held, start, buffer)?,
            Open::Stream(stream) => {
                bundle.seek(stream, start)?;
                bundle.read_stream(stream, buffer)?;
            }
        }
        self.at += buffer.len() as u64;
        Ok(())
    }
}
