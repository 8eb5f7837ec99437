//! Reads a part of a compressed bundle from its beginning to its end.

#[cfg(all(test, feature = "shuttle"))]
mod schedules;

use super::Decompressed;
use super::compressed::{Compressed, Slice};
use crate::memory::{OpenStream, Pooled};
use crate::rope::{InOrderReader, ReadError, check_range, copy_from};
use crate::sync::Arc;

/// A reader that keeps the bundle open. Without it, two threads with memory for one decoder would take it from each other, and
/// each would begin again for every piece.
pub(super) struct SliceReader<'a> {
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

impl<'a> SliceReader<'a> {
    /// A reader from an offset in the slice on. It opens the bundle when it is read.
    pub(super) fn new(slice: &'a Slice, offset: u64) -> Self {
        Self { slice, at: offset, open: None }
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
