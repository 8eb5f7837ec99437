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
    /// Waits for memory.
    fn new(bundle: &Compressed) -> Result<Self, ReadError> {
        if bundle.is_decompressed_in_memory() {
            return bundle.decompressed().map(Self::InMemory);
        }
        Ok(Self::Stream(bundle.stream()))
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
        let start = offset + self.at;
        let open = match self.open.take() {
            Some(open) => open,
            None => Open::new(bundle)?,
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
