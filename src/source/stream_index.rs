//! The stored form of the index of a deflate stream.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use super::block_index::BlockIndex;
use super::checkpoint::Checkpoint;
use super::stream::Stream;
use crate::rope::BlockBoundary;

/// A complete block index. Offsets are stored as distances, which take fewer bytes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct StreamIndex {
    /// Bytes of content.
    size: u64,
    /// The content's CRC-32.
    crc32: u32,
    /// Distance of each block boundary but the first from the one before it, in bits of the stream.
    bits: Vec<u64>,
    /// The same distances in bytes of content.
    outputs: Vec<u64>,
    /// CRC-32 of the content up to each block boundary but the first.
    crcs: Vec<u32>,
    /// For each checkpoint but the first: the number of its block boundary, and its window as a zstd frame.
    checkpoints: Vec<(usize, ByteBuf)>,
}

impl StreamIndex {
    /// The stored form of `index`, if it is complete and building it again would take a while.
    pub(super) fn of(index: &BlockIndex, stream: &Stream) -> Option<Self> {
        if !index.complete || index.checkpoints.len() < 2 {
            return None;
        }
        let steps = || index.boundaries.iter().zip(index.boundaries.iter().skip(1));
        let checkpoints = index.checkpoints.iter().skip(1).map(|checkpoint| {
            let found =
                index.boundaries.binary_search_by_key(&checkpoint.boundary.bit, |boundary| boundary.bit).ok()?;
            Some((found, ByteBuf::from(checkpoint.window.to_vec())))
        });
        Some(Self {
            size: stream.size,
            crc32: stream.crc32,
            bits: steps().map(|(from, to)| to.bit - from.bit).collect(),
            outputs: steps().map(|(from, to)| to.output - from.output).collect(),
            crcs: steps().map(|(_, to)| to.crc32).collect(),
            checkpoints: checkpoints.collect::<Option<_>>()?,
        })
    }

    /// The index. `None` if it contradicts itself or cannot belong to `stream`.
    pub(super) fn unpack(&self, stream: &Stream) -> Option<BlockIndex> {
        if self.outputs.len() != self.bits.len() || self.crcs.len() != self.bits.len() {
            return None;
        }
        let mut at = BlockBoundary::default();
        let mut boundaries = vec![at];
        for ((&bits, &output), &crc32) in self.bits.iter().zip(&self.outputs).zip(&self.crcs) {
            at = BlockBoundary { bit: at.bit.checked_add(bits)?, output: at.output.checked_add(output)?, crc32 };
            boundaries.push(at);
        }
        let of_stream = self.size == stream.size && at.output == stream.size && at.bit <= stream.packed.size() * 8;
        if !of_stream || self.crc32 != stream.crc32 || at.crc32 != stream.crc32 || self.bits.contains(&0) {
            return None;
        }
        let mut checkpoints = Vec::with_capacity(1 + self.checkpoints.len());
        checkpoints.push(Arc::<Checkpoint>::default());
        let mut last = 0;
        for (number, window) in &self.checkpoints {
            let boundary = *boundaries.get(*number).filter(|boundary| boundary.output < stream.size)?;
            if *number <= last || window.is_empty() {
                return None;
            }
            last = *number;
            checkpoints.push(Arc::new(Checkpoint::new(boundary, window.as_slice().into(), false)));
        }
        Some(BlockIndex::complete(stream.size, boundaries, checkpoints))
    }
}

#[cfg(test)]
#[path = "stream_index_tests.rs"]
mod tests;
