//! Deflating a range of a content.

use std::ops::Range;

use zlib_rs::{Deflate, DeflateFlush, Status};

use super::block::{DeflateLevel, WINDOW_BITS};
use super::change::WINDOW;
use super::digests::StreamDigests;
use super::error::DeflateError;
use crate::metrics::Counters;
use crate::rope::{Content, to_usize};

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
