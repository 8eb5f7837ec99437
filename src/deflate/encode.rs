//! Encodes ranges of the new content, with digests of what is read.

use std::ops::Range;

use zlib_rs::{Deflate, DeflateFlush, Status};

use super::block::{DeflateLevel, WINDOW_BITS};
use super::change::WINDOW;
use super::error::DeflateError;
use crate::metrics::Counters;
use crate::rope::{Content, ReadError, Sha256, read_range, to_usize};

/// Bytes read at a time.
const INPUT: u64 = 128 << 10;

/// Bytes by which the output grows.
const OUTPUT: usize = 64 << 10;

/// A deflated range.
pub(super) struct Encoded {
    /// Whole blocks that begin and end at byte boundaries.
    pub(super) bytes: Vec<u8>,
    /// CRC-32 of the content.
    pub(super) crc: crc32fast::Hasher,
}

/// Deflates `range` of `content`, to be decoded after everything before it. If it `ends` the stream, the last block is
/// marked as final. What is encoded is added to `sums`.
pub(super) fn encode(
    content: &dyn Content,
    range: Range<u64>,
    ends: bool,
    level: DeflateLevel,
    mut sums: Option<&mut StreamDigests>,
    counters: &Counters,
) -> Result<Encoded, DeflateError> {
    let mut encoder = Deflate::new(level.number().into(), false, WINDOW_BITS);
    let mut buffer = Vec::new();
    let history = range.start.min(WINDOW);
    if history > 0 {
        buffer.resize(to_usize(history), 0);
        content.read_at(range.start - history, &mut buffer)?;
        encoder.set_dictionary(&buffer)?;
    }
    let mut result = Encoded { bytes: Vec::new(), crc: crc32fast::Hasher::new() };
    let mut reader = content.reader(range.start);
    let mut at = range.start;
    loop {
        let count = range.end.saturating_sub(at).min(INPUT);
        buffer.resize(to_usize(count), 0);
        reader.read(&mut buffer)?;
        at += count;
        let flush = match (at < range.end, ends) {
            (true, _) => DeflateFlush::NoFlush,
            (false, false) => DeflateFlush::SyncFlush,
            (false, true) => DeflateFlush::Finish,
        };
        add(&mut encoder, &buffer, flush, &mut result.bytes)?;
        result.crc.update(&buffer);
        if let Some(sums) = &mut sums {
            sums.update(&buffer);
        }
        counters.bytes_deflated.add(count);
        if at >= range.end {
            return Ok(result);
        }
    }
}

/// Encodes all of `input`, and then flushes.
fn add(encoder: &mut Deflate, mut input: &[u8], flush: DeflateFlush, output: &mut Vec<u8>) -> Result<(), DeflateError> {
    loop {
        let (start, taken, made) = (output.len(), encoder.total_in(), encoder.total_out());
        output.resize(start + OUTPUT, 0);
        let status = encoder.compress(input, output.split_at_mut(start).1, flush)?;
        let made = to_usize(encoder.total_out() - made);
        output.truncate(start + made);
        input = input.get(to_usize(encoder.total_in() - taken)..).unwrap_or_default();
        // zlib.h, `deflate`: a flush is complete if there is output space left.
        let complete = match flush {
            DeflateFlush::Finish => status == Status::StreamEnd,
            _ => made < OUTPUT,
        };
        if complete && input.is_empty() {
            return Ok(());
        }
    }
}

/// The digests so far.
#[derive(Debug, Default)]
pub struct StreamDigests {
    sha256: Sha256,
    crc32: crc32fast::Hasher,
}

impl StreamDigests {
    /// Adds the next bytes.
    pub(super) fn update(&mut self, piece: &[u8]) {
        self.sha256.update(piece);
        self.crc32.update(piece);
    }

    /// Adds the next bytes, which are a range of a content.
    pub(super) fn read(&mut self, content: &dyn Content, range: Range<u64>) -> Result<(), ReadError> {
        read_range(content, range, |piece| self.update(piece))
    }

    /// The SHA-256. Fails if the CRC-32 differs from the one combined for the stream.
    pub(super) fn finish(self, crc32: u32, counters: &Counters, size: u64) -> Result<[u8; 32], ReadError> {
        counters.bytes_hashed.add(size);
        if self.crc32.finalize() != crc32 {
            return Err(ReadError::damaged(
                &"deflate stream".into(),
                "a part of it has another CRC-32 than it had before",
            ));
        }
        Ok(self.sha256.finish())
    }
}
