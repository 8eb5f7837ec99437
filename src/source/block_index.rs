//! What one pass over a deflate stream finds out: where blocks begin, and what it takes to start decoding there.
//!
//! Decoding costs time for what goes in and, some fifty times less per byte, for what comes out. A *checkpoint* costs what
//! its window compresses to. Checkpoints are spaced by decoding cost: the larger their windows, the farther
//! apart. So the index stays below 1 % of the stream, and a random read is a matter of milliseconds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::decoder::{Decoder, Stream};
use super::inflate::DecoderPosition;
use super::stream_index::StreamIndex;
use crate::rope::{BlockBoundary, ReadError};

/// Joints are noted at least so many bytes of output apart, so that no stream can make their list longer than 0.3 %
/// of its content. zlib's blocks of incompressible data, the shortest usual ones, have 16 KiB.
const JOINT_DISTANCE: u64 = 8 << 10;

/// Checkpoints are at least so many bytes of output apart: decoding less takes no longer than finding where to start.
const CHECKPOINT_DISTANCE: u64 = 1 << 20;

/// A byte of output costs a 50th of a compressed byte (4.9 ns and 0.1 ns on the machines this was measured on).
const OUTPUT_PER_INPUT: u64 = 50;

/// The decoding cost between checkpoints, in compressed bytes, is this multiple of the last window's size, clamped to the limits.
const WINDOW_SHARE: u64 = 160;
const LEAST_COST: u64 = 256 << 10;
const MOST_COST: u64 = 9 << 18;

/// Where decoding can start.
#[derive(Debug, Default)]
pub(super) struct Checkpoint {
    /// The place.
    pub(super) boundary: BlockBoundary,
    /// The up to 32 KiB of content before it, as a zstd frame; nothing at the beginning.
    pub(super) window: Box<[u8]>,
    /// Whether the window is known to be right. That of a recalled index is not at first.
    proved: AtomicBool,
}

impl Checkpoint {
    /// One whose caller claims that it is good.
    pub(super) fn claimed(boundary: BlockBoundary, window: Box<[u8]>) -> Self {
        Self { boundary, window, proved: AtomicBool::new(false) }
    }

    pub(super) fn is_proved(&self) -> bool {
        self.proved.load(Ordering::Relaxed)
    }

    pub(super) fn prove(&self) {
        self.proved.store(true, Ordering::Relaxed);
    }
}

/// The index of a stream. It is built exactly as far as it was read.
#[derive(Debug)]
pub(super) struct BlockIndex {
    /// The content up to here is indexed.
    pub(super) indexed_to: u64,
    /// Whether the end of the stream has been seen.
    pub(super) complete: bool,
    /// Where blocks begin; at last, where the stream ends.
    pub(super) boundaries: Vec<BlockBoundary>,
    /// Where decoding can start; the first one is the beginning.
    pub(super) checkpoints: Vec<Arc<Checkpoint>>,
    /// Of everything before `indexed_to`.
    crc: crc32fast::Hasher,
    /// Bytes of all windows.
    windows: u64,
}

impl Default for BlockIndex {
    fn default() -> Self {
        let start = Checkpoint { proved: AtomicBool::new(true), ..Checkpoint::default() };
        Self {
            indexed_to: 0,
            complete: false,
            boundaries: vec![BlockBoundary::default()],
            checkpoints: vec![Arc::new(start)],
            crc: crc32fast::Hasher::new(),
            windows: 0,
        }
    }
}

impl BlockIndex {
    /// The index that a session before this one made, unless it contradicts the stream or itself.
    pub(super) fn restored(index: &StreamIndex, stream: &Stream) -> Option<Self> {
        let (boundaries, mut checkpoints) = index.unpack(stream)?;
        let windows = checkpoints.iter().map(|checkpoint| checkpoint.window.len() as u64).sum();
        let mut restored = Self { indexed_to: stream.size, complete: true, boundaries, windows, ..Self::default() };
        restored.checkpoints.append(&mut checkpoints);
        Some(restored)
    }

    /// The last checkpoint that is not behind `offset`.
    pub(super) fn checkpoint(&self, offset: u64) -> Arc<Checkpoint> {
        let after = self.checkpoints.partition_point(|checkpoint| checkpoint.boundary.output <= offset);
        self.checkpoints.get(after.saturating_sub(1)).map(Arc::clone).unwrap_or_default()
    }

    /// The first boundary at or behind `offset`, or else the end.
    pub(super) fn joint_from(&self, offset: u64) -> Option<BlockBoundary> {
        let found = self.boundaries.partition_point(|boundary| boundary.output < offset);
        self.boundaries.get(found).or(self.boundaries.last()).copied()
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> u64 {
        let checkpoints = self.checkpoints.capacity() * size_of::<Arc<Checkpoint>>();
        // An `Arc` has two counters.
        let each = size_of::<Checkpoint>() + 2 * size_of::<usize>();
        let lists =
            self.boundaries.capacity() * size_of::<BlockBoundary>() + checkpoints + self.checkpoints.len() * each;
        self.windows.saturating_add(lists as u64)
    }

    /// Prepares to index more.
    pub(super) fn builder(&self) -> IndexBuilder {
        IndexBuilder {
            indexed_to: self.indexed_to,
            last: self.boundaries.last().copied().unwrap_or_default(),
            checkpoint: self.checkpoints.last().map(Arc::clone).unwrap_or_default(),
            boundaries: Vec::new(),
            checkpoints: Vec::new(),
            complete: false,
            crc: self.crc.clone(),
        }
    }

    /// Takes over what `builder` observed up to `indexed_to`.
    pub(super) fn extend(&mut self, builder: &mut IndexBuilder, indexed_to: u64) {
        self.indexed_to = indexed_to;
        self.complete = builder.complete;
        self.windows += builder.checkpoints.iter().map(|checkpoint| checkpoint.window.len() as u64).sum::<u64>();
        self.boundaries.append(&mut builder.boundaries);
        self.checkpoints.append(&mut builder.checkpoints);
        self.crc = builder.crc.clone();
        if self.complete {
            self.boundaries.shrink_to_fit();
            self.checkpoints.shrink_to_fit();
        }
    }
}

/// Builds the index of what a decoder makes beyond what is indexed.
///
/// Where boundaries and checkpoints are depends on the stream alone, never on who read what when: wheels are made of them.
#[derive(Debug)]
pub(super) struct IndexBuilder {
    /// What was indexed when this began.
    indexed_to: u64,
    last: BlockBoundary,
    checkpoint: Arc<Checkpoint>,
    boundaries: Vec<BlockBoundary>,
    checkpoints: Vec<Arc<Checkpoint>>,
    complete: bool,
    crc: crc32fast::Hasher,
}

impl IndexBuilder {
    /// Whether the content at `offset` was indexed before.
    pub(super) fn is_indexed(&self, offset: u64) -> bool {
        offset < self.indexed_to
    }

    /// Observes a piece that was decoded and the place where it ends. A piece is either indexed as a whole or new as a
    /// whole.
    pub(super) fn observe(
        &mut self,
        stream: &Stream,
        decoder: &Decoder,
        piece: &[u8],
        place: DecoderPosition,
    ) -> Result<(), ReadError> {
        if decoder.output > self.indexed_to {
            self.crc.update(piece);
        }
        // A boundary right at the end of what is indexed may have been left to the next decoder.
        if decoder.output < self.indexed_to {
            return Ok(());
        }
        let boundary = |unused| BlockBoundary {
            bit: decoder.bit(unused),
            output: decoder.output,
            crc32: self.crc.clone().finalize(),
        };
        match place {
            DecoderPosition::Boundary(unused) if decoder.output - self.last.output >= JOINT_DISTANCE => {
                self.last = boundary(unused);
                self.boundaries.push(self.last);
                // Nobody would start at the very end.
                if decoder.output < stream.size && self.is_far(self.last) {
                    let window = decoder.window(stream)?;
                    self.checkpoint = Arc::new(Checkpoint::claimed(self.last, window));
                    self.checkpoint.prove();
                    self.checkpoints.push(Arc::clone(&self.checkpoint));
                }
            }
            DecoderPosition::End => {
                let end = boundary(0);
                if end.crc32 != stream.crc32 {
                    return Err(stream.damaged("the content does not have the CRC-32 that the zip file claims"));
                }
                self.boundaries.push(end);
                self.complete = true;
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether decoding from the last checkpoint to here costs more than a new checkpoint is worth.
    fn is_far(&self, here: BlockBoundary) -> bool {
        let last = &self.checkpoint;
        let output = here.output - last.boundary.output;
        let cost = (here.bit - last.boundary.bit) / 8 + output / OUTPUT_PER_INPUT;
        let limit = (last.window.len() as u64 * WINDOW_SHARE).clamp(LEAST_COST, MOST_COST);
        output >= CHECKPOINT_DISTANCE && cost >= limit
    }
}
