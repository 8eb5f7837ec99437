//! Compressions around code: their first bytes, and where they end. What follows the first bytes is not decompressed.

use std::io::{BufReader, Read};
use std::sync::Arc;

use flate2::bufread::{GzDecoder, MultiGzDecoder, ZlibDecoder};

use super::effort::{Effort, SearchedRange};
use super::form::CodeFrame;
use crate::fatbin::{ANY_SIZE, MAX_FRAME_HEADER, WINDOW_LOG, content_size, frame_length, header_at, window_of};
use crate::rope::{Content, Rope, Segment};

/// Bytes that show what is in a frame.
const FIRST: usize = 64;

/// The most bytes that are decompressed of a frame: enough for the table of a bundle with 4,096 entries.
const MOST: usize = 256 << 10;

/// What a decoder makes at once, however little is read of it: a block of zstd, or a window of deflate.
const BLOCK: u64 = 128 << 10;
const WINDOW: u64 = 32 << 10;

/// What it costs to make a decoder, which has tables.
const DECODER: u64 = 16 << 10;

/// Compressed bytes read at a time.
const INPUT: usize = 4096;

/// The first bytes of what a frame holds.
pub(super) struct Beginning {
    bytes: Vec<u8>,
    /// Bytes of all that it holds, if it states them.
    pub(super) stated: Option<u64>,
}

impl Beginning {
    /// That of a frame, if what it holds may be device code. A whole file may have further frames.
    pub(super) fn of(frame: CodeFrame, range: SearchedRange<'_>, may_be_code: impl Fn(&[u8]) -> bool) -> Option<Self> {
        let (effort, is_whole) = (range.effort, range.is_whole());
        effort.spend(DECODER)?;
        match frame {
            CodeFrame::Zstd => {
                let head = header_at(&**range.content, range.start, range.end, MAX_FRAME_HEADER)?;
                window_of(&head).filter(|&window| window <= 1 << WINDOW_LOG)?;
                let stated = content_size(&head);
                let block = stated.unwrap_or(ANY_SIZE).min(BLOCK);
                let beginning = Self::read(&mut zstd(range, is_whole)?, block, effort, may_be_code)?;
                Some(Self { stated, ..beginning })
            }
            CodeFrame::Gzip if is_whole => {
                Self::read(&mut MultiGzDecoder::new(buffered(range)), WINDOW, effort, may_be_code)
            }
            CodeFrame::Gzip => Self::read(&mut GzDecoder::new(buffered(range)), WINDOW, effort, may_be_code),
        }
    }

    /// That of a zstd frame or a zlib stream (RFC 1950).
    pub(super) fn of_any(range: SearchedRange<'_>) -> Option<Self> {
        let is_zstd = header_at(&**range.content, range.start, range.end, 4)?.starts_with(CodeFrame::Zstd.magic());
        if is_zstd {
            return Self::of(CodeFrame::Zstd, range, |_| true);
        }
        Self::read(&mut ZlibDecoder::new(buffered(range)), WINDOW, range.effort, |_| true)
    }

    /// The first bytes that a decoder returns, which makes `block` bytes to return any.
    fn read(reader: &mut impl Read, block: u64, effort: &Effort, may_be_code: impl Fn(&[u8]) -> bool) -> Option<Self> {
        let mut bytes = vec![0; FIRST];
        let length = fill(reader, &mut bytes);
        bytes.truncate(length);
        if !may_be_code(&bytes) {
            effort.spend(if length == 0 { 0 } else { block })?;
            return None;
        }
        bytes.resize(MOST, 0);
        let more = fill(reader, bytes.get_mut(length..)?);
        bytes.truncate(length + more);
        effort.spend(bytes.len() as u64)?;
        Some(Self { bytes, stated: None })
    }

    /// A content that begins with these bytes, and is zero behind them. What the frame says about its size may be wrong.
    pub(super) fn of_size(&self, size: u64) -> Option<Arc<dyn Content>> {
        self.behind(&[], size.max(self.bytes.len() as u64))
    }

    /// The same behind other bytes, with all of them `size` bytes.
    pub(super) fn behind(&self, head: &[u8], size: u64) -> Option<Arc<dyn Content>> {
        let zeros = size.checked_sub(self.bytes.len() as u64)?.checked_sub(head.len() as u64)?;
        let segments = [Segment::literal(head), Segment::literal(&*self.bytes), Segment::zeros(zeros)];
        Some(Arc::new(Rope::new(segments.into_iter().filter(|segment| segment.length() > 0)).ok()?))
    }
}

/// The bytes of a frame that a range begins with. `None` if that costs too much.
pub(super) fn length(frame: CodeFrame, range: SearchedRange<'_>) -> Option<u64> {
    let SearchedRange { content, start, end, effort, .. } = range;
    match frame {
        CodeFrame::Zstd => frame_length(&**content, start, end, || effort.spend(0)),
        CodeFrame::Gzip => {
            let mut decoder = GzDecoder::new(buffered(range));
            let mut buffer = vec![0; 128 << 10];
            while let Ok(count @ 1..) = decoder.read(&mut buffer) {
                effort.spend(count as u64)?;
            }
            let rest = decoder.into_inner();
            Some(rest.get_ref().start.saturating_sub(start).saturating_sub(rest.buffer().len() as u64))
        }
    }
}

fn zstd(range: SearchedRange<'_>, has_further_frames: bool) -> Option<impl Read> {
    let mut decoder = zstd::stream::read::Decoder::with_buffer(buffered(range)).ok()?;
    decoder.window_log_max(WINDOW_LOG).ok()?;
    Some(if has_further_frames { decoder } else { decoder.single_frame() })
}

fn buffered(range: SearchedRange<'_>) -> BufReader<SearchedRange<'_>> {
    BufReader::with_capacity(INPUT, range)
}

/// Reads until the buffer is full, the end, or damage. Returns the number of bytes.
fn fill(reader: &mut impl Read, buffer: &mut [u8]) -> usize {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match reader.read(rest) {
            Ok(count) if count > 0 => filled += count,
            _ => break,
        }
    }
    filled
}
