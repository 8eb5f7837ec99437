//! The index of a deflate stream, recorded in one pass: where blocks begin, and what is needed to start decoding there.
//!
//! Decoding costs time for each input byte, and about a fiftieth of that for each output byte. A *checkpoint* costs the
//! size of its compressed window. Checkpoints are spaced by decoding cost: the larger their windows, the farther apart.
//! So the index stays below 1 % of the stream, and a random read takes milliseconds.

use std::sync::Arc;

use super::checkpoint::Checkpoint;
use super::damage::DecodeError;
use super::decoder::Decoder;
use super::inflate::DecoderPosition;
use super::stream::Stream;
use crate::rope::{BlockBoundary, Sha256};

/// Block boundaries are recorded at least this many bytes of output apart, so that their list takes at most 0.3 % of
/// the content. Of usual blocks, zlib's blocks of incompressible data are the shortest; they have 16 KiB.
const BOUNDARY_DISTANCE: u64 = 8 << 10;

/// Checkpoints are at least this many bytes of output apart: decoding less takes no longer than a seek.
const CHECKPOINT_DISTANCE: u64 = 1 << 20;

/// Decoding cost of an input byte, in output bytes (measured: 4.9 ns per input byte, 0.1 ns per output byte).
const OUTPUT_PER_INPUT: u64 = 50;

pub(super) const WRONG_CRC32: &str = "the content does not have the CRC-32 that the zip file claims";

/// The decoding cost between two checkpoints, in input bytes: this multiple of the last window's compressed size,
/// clamped to the limits below.
const WINDOW_SHARE: u64 = 160;
const MIN_COST: u64 = 256 << 10;
const MAX_COST: u64 = 9 << 18;

/// The index of a stream, which covers the part that was decoded so far.
#[derive(Debug)]
pub(super) struct BlockIndex {
    /// The content is indexed up to this offset.
    pub(super) indexed_to: u64,
    /// Whether the end of the stream was reached.
    pub(super) complete: bool,
    /// Block boundaries, ascending. The last one of a complete index is the end of the stream.
    pub(super) boundaries: Vec<BlockBoundary>,
    /// Checkpoints, ascending. The first one is the beginning.
    pub(super) checkpoints: Vec<Arc<Checkpoint>>,
    /// CRC-32 of everything before `indexed_to`.
    crc: crc32fast::Hasher,
    /// SHA-256 of the same bytes, if it is wanted.
    sha256: Option<Box<Sha256>>,
    /// Bytes of all windows.
    windows: u64,
}

impl Default for BlockIndex {
    fn default() -> Self {
        Self {
            indexed_to: 0,
            complete: false,
            boundaries: vec![BlockBoundary::default()],
            checkpoints: vec![Arc::default()],
            crc: crc32fast::Hasher::new(),
            sha256: None,
            windows: 0,
        }
    }
}

impl BlockIndex {
    /// A complete index of `size` bytes of content. `checkpoints` begin with the start of the stream.
    pub(super) fn complete(size: u64, boundaries: Vec<BlockBoundary>, checkpoints: Vec<Arc<Checkpoint>>) -> Self {
        let windows = checkpoints.iter().map(|checkpoint| checkpoint.window.len() as u64).sum();
        Self { indexed_to: size, complete: true, boundaries, checkpoints, windows, ..Self::default() }
    }

    /// The last checkpoint at or before `offset`.
    pub(super) fn checkpoint(&self, offset: u64) -> Arc<Checkpoint> {
        let after = self.checkpoints.partition_point(|checkpoint| checkpoint.boundary.output <= offset);
        self.checkpoints.get(after.saturating_sub(1)).map(Arc::clone).unwrap_or_default()
    }

    /// The first block boundary at or after `offset`, or else the end.
    pub(super) fn boundary_from(&self, offset: u64) -> BlockBoundary {
        let found = self.boundaries.partition_point(|boundary| boundary.output < offset);
        self.boundaries.get(found).or(self.boundaries.last()).copied().unwrap_or_default()
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> u64 {
        let checkpoints = self.checkpoints.capacity() * size_of::<Arc<Checkpoint>>();
        // An `Arc` allocates two counters with its value.
        let each = size_of::<Checkpoint>() + 2 * size_of::<usize>();
        let lists =
            self.boundaries.capacity() * size_of::<BlockBoundary>() + checkpoints + self.checkpoints.len() * each;
        self.windows.saturating_add(lists as u64)
    }

    /// The SHA-256 of the whole content, if it was wanted when this index was started.
    pub(super) fn sha256(&self) -> Option<[u8; 32]> {
        self.sha256.as_ref().filter(|_| self.complete).map(|sha256| Sha256::clone(sha256).finish())
    }

    /// A builder that extends the index. If nothing is indexed yet, `hashes` tells whether a SHA-256 is wanted.
    pub(super) fn builder(&self, hashes: bool) -> IndexBuilder {
        let sha256 = if self.indexed_to == 0 { hashes.then(Box::default) } else { self.sha256.clone() };
        IndexBuilder {
            indexed_to: self.indexed_to,
            last: self.boundaries.last().copied().unwrap_or_default(),
            checkpoint: self.checkpoints.last().map(Arc::clone).unwrap_or_default(),
            boundaries: Vec::new(),
            checkpoints: Vec::new(),
            complete: false,
            crc: self.crc.clone(),
            sha256,
        }
    }

    /// Adds what `builder` observed up to `indexed_to`.
    pub(super) fn extend(&mut self, builder: &mut IndexBuilder, indexed_to: u64) {
        self.indexed_to = indexed_to;
        self.complete = builder.complete;
        self.windows += builder.checkpoints.iter().map(|checkpoint| checkpoint.window.len() as u64).sum::<u64>();
        self.boundaries.append(&mut builder.boundaries);
        self.checkpoints.append(&mut builder.checkpoints);
        self.crc = builder.crc.clone();
        self.sha256.clone_from(&builder.sha256);
        if self.complete {
            self.boundaries.shrink_to_fit();
            self.checkpoints.shrink_to_fit();
        }
    }
}

/// Indexes what a decoder produces beyond the indexed part.
///
/// Block boundaries and checkpoints depend on the stream alone, never on the order of reads: the bytes of new wheels
/// depend on them.
#[derive(Debug)]
pub(super) struct IndexBuilder {
    /// `indexed_to` when the builder was created.
    pub(super) indexed_to: u64,
    last: BlockBoundary,
    checkpoint: Arc<Checkpoint>,
    boundaries: Vec<BlockBoundary>,
    checkpoints: Vec<Arc<Checkpoint>>,
    complete: bool,
    crc: crc32fast::Hasher,
    sha256: Option<Box<Sha256>>,
}

impl IndexBuilder {
    /// Observes a piece that was decoded, and the place where it ends. Either all of a piece is indexed already, or
    /// none of it.
    pub(super) fn observe(
        &mut self,
        stream: &Stream,
        decoder: &Decoder,
        piece: &[u8],
        place: DecoderPosition,
    ) -> Result<(), DecodeError> {
        if decoder.output > self.indexed_to {
            self.crc.update(piece);
            if let Some(sha256) = &mut self.sha256 {
                sha256.update(piece);
                stream.resources.counters.bytes_hashed.add(piece.len() as u64);
            }
        }
        // A boundary exactly at the end of the indexed part may have been left to the next decoder.
        if decoder.output < self.indexed_to {
            return Ok(());
        }
        let boundary = |unused| BlockBoundary {
            bit: decoder.bit(unused),
            output: decoder.output,
            crc32: self.crc.clone().finalize(),
        };
        match place {
            DecoderPosition::Boundary(unused) if decoder.output - self.last.output >= BOUNDARY_DISTANCE => {
                self.last = boundary(unused);
                self.boundaries.push(self.last);
                // A checkpoint at the very end would never be used.
                if decoder.output < stream.size && self.is_far(self.last) {
                    let window = decoder.window(stream)?;
                    self.checkpoint = Arc::new(Checkpoint::new(self.last, window, true));
                    self.checkpoints.push(Arc::clone(&self.checkpoint));
                }
            }
            DecoderPosition::End => {
                let end = boundary(0);
                if end.crc32 != stream.crc32 {
                    return Err(DecodeError::whole(stream, WRONG_CRC32));
                }
                self.boundaries.push(end);
                self.complete = true;
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether decoding from the last checkpoint to here costs more than a new checkpoint.
    fn is_far(&self, here: BlockBoundary) -> bool {
        let last = &self.checkpoint;
        let output = here.output - last.boundary.output;
        let cost = (here.bit - last.boundary.bit) / 8 + output / OUTPUT_PER_INPUT;
        let limit = (last.window.len() as u64 * WINDOW_SHARE).clamp(MIN_COST, MAX_COST);
        output >= CHECKPOINT_DISTANCE && cost >= limit
    }
}
