//! Deflating a range of a content.

use std::ops::Range;

use flate2::{Compress, Compression, FlushCompress, Status};

use super::change::WINDOW;
use super::digests::StreamDigests;
use crate::metrics::Counters;
use crate::rope::{Content, EditError, ReadError, to_usize};

/// The default level of zip programs.
const LEVEL: u32 = 6;

/// Bytes read at a time.
const INPUT: u64 = 128 << 10;

/// Why no deflate stream can be made.
#[derive(Debug, thiserror::Error)]
pub enum DeflateError {
    /// The edits cannot be applied.
    #[error(transparent)]
    Edit(#[from] EditError),
    /// The content cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The library reported an error.
    #[error("cannot deflate: {0}")]
    Encoder(#[from] flate2::CompressError),
}

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
    mut sums: Option<&mut StreamDigests>,
    counters: &Counters,
) -> Result<Encoded, DeflateError> {
    let mut encoder = Compress::new(Compression::new(LEVEL), false);
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
            (true, _) => FlushCompress::None,
            (false, false) => FlushCompress::Sync,
            (false, true) => FlushCompress::Finish,
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
fn add(
    encoder: &mut Compress,
    mut input: &[u8],
    flush: FlushCompress,
    output: &mut Vec<u8>,
) -> Result<(), DeflateError> {
    loop {
        output.reserve(64 << 10);
        let before = encoder.total_in();
        let status = encoder.compress_vec(input, output, flush)?;
        let taken = to_usize(encoder.total_in() - before);
        input = input.get(taken..).unwrap_or_default();
        // zlib.h, `deflate`: a flush is complete if there is output space left.
        let complete = match flush {
            FlushCompress::Finish => status == Status::StreamEnd,
            _ => output.len() < output.capacity(),
        };
        if complete && input.is_empty() {
            return Ok(());
        }
    }
}
