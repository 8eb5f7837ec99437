//! A batch: one block, or several small ones, that a thread deflates at a time.

use std::ops::Range;

use super::block::{BLOCK, BlockEncoder};
use super::blocks::Blocks;
use super::change::WINDOW;
use super::error::DeflateError;
use crate::memory::Reservation;
use crate::rope::to_usize;

/// Bytes of a batch at most: a block with its history.
const CAPACITY: usize = to_usize(BLOCK + WINDOW);

/// Blocks that were read.
#[derive(Debug, Default)]
pub(super) struct BlockBatch {
    bytes: Vec<u8>,
    blocks: Vec<ReadBlock>,
    /// Memory for the work on it.
    pub(super) reserved: Option<Reservation>,
}

/// A block in a batch.
#[derive(Debug)]
struct ReadBlock {
    /// The number of the content, and of the block in it.
    stream: usize,
    number: u64,
    /// The bytes before the block, and those of it.
    history: Range<usize>,
    block: Range<usize>,
    is_last: bool,
}

/// A block that was deflated and is kept.
#[derive(Debug)]
pub(super) struct MadeBlock {
    /// Deflated bytes.
    pub(super) length: u32,
    /// Bytes of the content.
    pub(super) size: u64,
    /// CRC-32 of these.
    pub(super) crc32: crc32fast::Hasher,
}

impl BlockBatch {
    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Whether a block fits that has `size` bytes with its history. Any block fits into an empty batch.
    pub(super) fn has_room(&self, size: usize) -> bool {
        self.bytes.len() + size <= CAPACITY
    }

    /// Adds a block, and returns the buffer for its `size` bytes.
    pub(super) fn add(&mut self, stream: usize, number: u64, history: &[u8], size: usize, is_last: bool) -> &mut [u8] {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(history);
        let middle = self.bytes.len();
        self.bytes.resize(middle + size, 0);
        self.blocks.push(ReadBlock { stream, number, history: start..middle, block: middle..middle + size, is_last });
        self.bytes.split_at_mut(middle).1
    }

    /// Deflates and keeps the blocks of these streams.
    pub(super) fn deflate(
        self,
        streams: &[&Blocks],
        encoder: &mut BlockEncoder,
    ) -> Result<Vec<(usize, u64, MadeBlock)>, DeflateError> {
        let mut made = Vec::with_capacity(self.blocks.len());
        for ReadBlock { stream, number, history, block, is_last } in self.blocks {
            let bytes = |range: Range<usize>| self.bytes.get(range).unwrap_or_default();
            let (history, block) = (bytes(history), bytes(block));
            let deflated = encoder.encode(history, block, is_last)?;
            let mut crc32 = crc32fast::Hasher::new();
            crc32.update(block);
            let length = u32::try_from(deflated.len()).map_err(|_| DeflateError::Incomplete)?;
            if let Some(blocks) = streams.get(stream) {
                blocks.keep(number, deflated);
                blocks.resources.counters.bytes_deflated.add(block.len() as u64);
            }
            made.push((stream, number, MadeBlock { length, size: block.len() as u64, crc32 }));
        }
        Ok(made)
    }
}
