//! A deflate stream in blocks, as a content of known length.

use std::sync::Arc;

use parking_lot::Mutex;

use super::blocks::Blocks;
use crate::rope::{Content, ReadError, check_range, copy_from, head_mut, to_usize};

/// A deflate stream whose length is known. A block that is not kept any more is made again when it is read.
#[derive(derive_more::Debug)]
#[debug("DeflatedStream({:?}, {} bytes)", blocks.of.entry, self.size())]
pub(super) struct DeflatedStream {
    blocks: Blocks,
    /// The offset after each block.
    ends: Box<[u64]>,
    /// Held while a block is made again, so that only one thread does.
    making: Mutex<()>,
}

impl DeflatedStream {
    /// The stream with blocks of these lengths.
    pub(super) fn new(blocks: Blocks, lengths: &[u32]) -> Self {
        let mut end = 0_u64;
        let ends = lengths.iter().map(|&length| {
            end = end.saturating_add(length.into());
            end
        });
        Self { ends: ends.collect(), blocks, making: Mutex::default() }
    }

    /// Fills `buffer` with bytes of a block that has `length` bytes.
    fn read_block(&self, number: u64, length: u64, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        let read = |buffer: &mut [u8]| self.blocks.read_kept(number, length, offset, buffer);
        if read(buffer)? {
            return Ok(());
        }
        let _making = self.making.lock();
        if read(buffer)? {
            return Ok(());
        }
        let entry = &self.blocks.of.entry;
        let made = self.blocks.make(number).map_err(|error| ReadError::caused_by(entry, &error))?;
        if made.len() as u64 != length {
            return Err(ReadError::Changed { entry: Arc::clone(entry) });
        }
        copy_from(&made, offset, buffer)?;
        self.blocks.keep(number, &made);
        Ok(())
    }
}

impl Content for DeflatedStream {
    fn size(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    fn read_at(&self, mut offset: u64, mut buffer: &mut [u8]) -> Result<(), ReadError> {
        check_range(offset, buffer.len(), self.size())?;
        let first = self.ends.partition_point(|&end| end <= offset);
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        for (number, (start, &end)) in starts.zip(&self.ends).enumerate().skip(first) {
            if buffer.is_empty() {
                break;
            }
            let length = buffer.len().min(to_usize(end - offset));
            self.read_block(number as u64, end - start, offset - start, head_mut(buffer, length))?;
            buffer = buffer.split_at_mut(length).1;
            offset = end;
        }
        Ok(())
    }

    /// Always `false`: a block may leave the cache between this call and the read, and making it again is work.
    fn is_nonblocking(&self, _: u64, _: usize) -> bool {
        false
    }
}
