//! Deflating one block. Its bytes depend on the block, on the 32 KiB before it and on the level only.

use zlib_rs::{Deflate, DeflateFlush, Status};

use super::error::DeflateError;
use crate::rope::{head, to_usize};

/// Bytes of a block. A part of the format: another size gives other bytes. Beginning one costs as much as deflating some
/// 10 KiB.
pub const BLOCK: u64 = 1 << 20;

/// The encoder. A part of the format: another version gives other bytes, so `Cargo.toml` names exactly this one.
pub(super) const ENCODER: &str = "zlib-rs 0.6.8";

/// The largest window (RFC 1951, section 2), as a power of two.
pub(super) const WINDOW_BITS: u8 = 15;

/// Bytes of headers in addition to 9 bits for each byte, the longest fixed code (RFC 1951, section 3.2.6). zlib stores
/// what its codes would enlarge.
const HEADERS: usize = 1024;

/// A level of deflate, 1 to 9.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeflateLevel(u8);

/// The default of zip programs.
impl Default for DeflateLevel {
    fn default() -> Self {
        Self(6)
    }
}

impl DeflateLevel {
    /// A level; `None` unless it is 1 to 9. Level 0 of zlib does not deflate.
    pub fn new(level: u8) -> Option<Self> {
        (1..=9).contains(&level).then_some(Self(level))
    }

    /// Its number.
    pub(super) fn number(self) -> u8 {
        self.0
    }
}

/// Identifies the encoder and its level: others make other bytes of a content.
pub fn describe(level: DeflateLevel) -> Vec<u8> {
    format!("{ENCODER} {}", level.0).into_bytes()
}

/// Deflates blocks. Each has a new state of zlib: after a reset, the window of the one before is still there, and the
/// bytes depend on it.
pub(super) struct BlockEncoder {
    level: DeflateLevel,
    output: Vec<u8>,
}

impl BlockEncoder {
    /// An encoder of a level. It has some 300 KiB, and twice a block while it works.
    pub(super) fn new(level: DeflateLevel) -> Self {
        Self { level, output: Vec::new() }
    }

    /// Deflates `block`, which follows `history` in the content: the 32 KiB before it, or all there is. The result begins
    /// and ends at a byte. The block that `ends` the stream is marked as final.
    pub(super) fn encode(&mut self, history: &[u8], block: &[u8], ends: bool) -> Result<&[u8], DeflateError> {
        let mut zlib = Deflate::new(self.level.0.into(), false, WINDOW_BITS);
        if !history.is_empty() {
            zlib.set_dictionary(history)?;
        }
        let room = block.len() + block.len() / 8 + HEADERS;
        if self.output.len() < room {
            self.output.resize(room, 0);
        }
        let flush = if ends { DeflateFlush::Finish } else { DeflateFlush::SyncFlush };
        let status = zlib.compress(block, &mut self.output, flush)?;
        // zlib.h, `deflate`: a flush is complete if there is room left.
        let length = to_usize(zlib.total_out());
        let is_complete = if ends { status == Status::StreamEnd } else { length < self.output.len() };
        if !is_complete || zlib.total_in() != block.len() as u64 {
            return Err(DeflateError::Incomplete);
        }
        Ok(head(&self.output, length))
    }
}
