//! Decodes a compressed bundle or frame so that all bytes before damage can be read, and no others.
//!
//! Where decoding fails does not depend on how the input is read or how large the buffers are. zstd loses what a call
//! has decoded if the call fails, so each call gets at most one block. zlib stops at the byte.

use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;

use flate2::{Decompress, FlushDecompress, Status};
use zstd::zstd_safe::zstd_sys::ZSTD_ErrorCode;
use zstd::zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer, WriteBuf, get_error_name};

use super::packing::{CompressedHeader, Method, WINDOW_LOG};
use crate::rope::{Content, ReadError, head, head_mut, to_usize};

/// Bytes of a zstd block's header (RFC 8878, 3.1.1.2).
const BLOCK_HEADER: usize = 3;

/// Bytes of the first piece of a zstd frame (`ZSTD_startingInputLength`). Then zstd says how many it needs.
const START: usize = 5;

/// The most bytes of a zstd block (RFC 8878, 3.1.1.2.4).
const MAX_BLOCK: u64 = 128 << 10;

/// Bytes that zlib decodes at a time.
const STEP: usize = 128 << 10;

/// Decodes a compressed bundle from its beginning on.
pub(super) struct BundleDecoder {
    input: BufReader<InputReader>,
    format: Format,
    /// Bytes that its header claims.
    size: u64,
    /// Decoded bytes so far; after an error, of those before the damage, or the claimed size if it has no known place.
    pub(super) at: u64,
    /// Whether the end was decoded and its checksum is right.
    pub(super) is_at_end: bool,
    /// An error that was found after bytes which are passed on first.
    failed: Option<io::Error>,
}

enum Format {
    /// The context, and the number of bytes that it asks for.
    Zstd(DCtx<'static>, usize),
    Zlib(Decompress),
}

/// Bytes of a buffer behind the claimed size: a block's, or at least one. A damaged block may need more room than there is,
/// and its place must not depend on the size of the buffer. Content behind the claimed size shows there, too.
pub(super) fn headroom(packing: &CompressedHeader) -> u64 {
    packing.window.clamp(1, MAX_BLOCK)
}

impl BundleDecoder {
    /// For a bundle in `content`. It reads `piece` compressed bytes at a time. If it decodes `into_memory`, only
    /// [`BundleDecoder::append`] is called, and else only `read`.
    pub(super) fn new(
        content: &Arc<dyn Content>,
        packing: &CompressedHeader,
        piece: usize,
        into_memory: bool,
    ) -> io::Result<Self> {
        let source = InputReader { content: Arc::clone(content), at: packing.start, rest: packing.length };
        let format = match packing.format.method {
            Method::Zstd => {
                let mut decoder = DCtx::try_create().ok_or(io::ErrorKind::OutOfMemory)?;
                decoder.set_parameter(DParameter::WindowLogMax(WINDOW_LOG)).map_err(zstd_error)?;
                // The output is the window.
                decoder.set_parameter(DParameter::StableOutBuffer(into_memory)).map_err(zstd_error)?;
                Format::Zstd(decoder, START)
            }
            Method::Zlib => Format::Zlib(Decompress::new(true)),
        };
        let input = BufReader::with_capacity(piece.min(to_usize(packing.length).max(1)), source);
        Ok(Self { input, format, size: packing.size, at: 0, is_at_end: false, failed: None })
    }

    /// Compressed bytes that were not read.
    pub(super) fn input_left(&self) -> u64 {
        self.input.get_ref().rest
    }

    /// Appends decoded bytes to `bytes`: at most one block, or up to about `end`. It must be the same buffer at each
    /// call, with room for [`headroom`] bytes more than the claimed size.
    pub(super) fn append(&mut self, bytes: &mut Vec<u8>, end: u64) -> io::Result<()> {
        let before = bytes.len();
        let result = match &mut self.format {
            Format::Zstd(context, wanted) => {
                let mut output = OutBuffer::around_pos(bytes, before);
                feed(context, wanted, &mut self.input, &mut output)
            }
            Format::Zlib(inflater) => {
                // At the end, excess data shows in one byte more than there can be.
                let end = if end < self.size { end } else { self.size.saturating_add(1) };
                let room = to_usize(end).saturating_sub(before).min(STEP);
                bytes.resize(before + room, 0);
                let (count, result) = inflate(inflater, &mut self.input, bytes.get_mut(before..).unwrap_or_default());
                bytes.truncate(before + count);
                result
            }
        };
        if bytes.len() as u64 > self.size {
            return Err(self.excess());
        }
        self.at = bytes.len() as u64;
        self.finish(result)
    }

    /// Checks the size at the end.
    fn finish(&mut self, result: io::Result<bool>) -> io::Result<()> {
        self.is_at_end = result?;
        if self.is_at_end && self.at != self.size {
            return Err(io::Error::other(format!("it holds {} bytes and claims to hold {}", self.at, self.size)));
        }
        Ok(())
    }

    fn excess(&mut self) -> io::Error {
        self.at = self.size;
        io::Error::other(format!("it holds more than the {} bytes that it claims to hold", self.size))
    }

    /// Decodes to a buffer that does not reach beyond the claimed size.
    fn decode(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (count, result) = match &mut self.format {
            Format::Zstd(context, wanted) => {
                let mut output = OutBuffer::around(buffer);
                // A call that fails would lose what is left of the last block.
                context.decompress_stream(&mut output, &mut InBuffer::around(&[])).map_err(zstd_error)?;
                let result =
                    if output.pos() > 0 { Ok(false) } else { feed(context, wanted, &mut self.input, &mut output) };
                (output.pos(), result)
            }
            Format::Zlib(inflater) => inflate(inflater, &mut self.input, buffer),
        };
        self.at += count as u64;
        let result = self.finish(result);
        if count > 0 {
            self.failed = result.err();
            return Ok(count);
        }
        result.map(|()| 0)
    }

    /// Fails if there is content behind the claimed size.
    fn check_end(&mut self) -> io::Result<()> {
        while !self.is_at_end {
            if self.decode(&mut [0])? > 0 {
                return Err(self.excess());
            }
        }
        Ok(())
    }
}

impl Read for BundleDecoder {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let left = to_usize(self.size.saturating_sub(self.at));
        if left == 0 && !buffer.is_empty() {
            return self.check_end().map(|()| 0);
        }
        let buffer = head_mut(buffer, left.min(buffer.len()));
        while !buffer.is_empty() && !self.is_at_end {
            let count = self.decode(buffer)?;
            if count > 0 {
                return Ok(count);
            }
        }
        Ok(0)
    }
}

/// Passes the next piece of input to zstd. It ends where a block or a block's header ends, so that a call decodes one
/// block. Returns whether the frame has ended.
fn feed<C: WriteBuf + ?Sized>(
    context: &mut DCtx<'static>,
    wanted: &mut usize,
    input: &mut impl BufRead,
    output: &mut OutBuffer<'_, C>,
) -> io::Result<bool> {
    let available = input.fill_buf()?;
    if available.is_empty() {
        return Err(too_short());
    }
    // zstd asks for a block together with the header of the next one.
    let length = wanted.checked_sub(BLOCK_HEADER).filter(|&length| length > 0).unwrap_or(*wanted);
    let mut piece = InBuffer::around(head(available, length.clamp(1, available.len())));
    let hint = context.decompress_stream(output, &mut piece).map_err(zstd_error)?;
    let consumed = piece.pos();
    input.consume(consumed);
    *wanted = hint;
    Ok(hint == 0)
}

/// Fills `buffer` as far as the buffered input goes. Returns how many bytes were decoded, and whether the stream has
/// ended.
fn inflate(inflater: &mut Decompress, input: &mut impl BufRead, buffer: &mut [u8]) -> (usize, io::Result<bool>) {
    let mut count = 0;
    let result = loop {
        let available = match input.fill_buf() {
            Ok(available) => available,
            Err(error) => break Err(error),
        };
        let (before, before_in) = (inflater.total_out(), inflater.total_in());
        let room = buffer.get_mut(count..).unwrap_or_default();
        let status = inflater.decompress(available, room, FlushDecompress::None);
        count += to_usize(inflater.total_out() - before);
        let is_empty = available.is_empty();
        input.consume(to_usize(inflater.total_in() - before_in));
        match status {
            Err(error) => {
                break Err(io::Error::other(error.message().unwrap_or("its zlib stream is corrupt").to_owned()));
            }
            Ok(Status::StreamEnd) => break Ok(true),
            Ok(_) if count == buffer.len() => break Ok(false),
            Ok(_) if is_empty => break Err(too_short()),
            Ok(_) => {}
        }
    };
    (count, result)
}

fn too_short() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "its compressed data ends too early")
}

fn zstd_error(code: usize) -> io::Error {
    let is_out_of_memory = code == (ZSTD_ErrorCode::ZSTD_error_memory_allocation as usize).wrapping_neg();
    let kind = if is_out_of_memory { io::ErrorKind::OutOfMemory } else { io::ErrorKind::Other };
    io::Error::new(kind, get_error_name(code))
}

/// Reads a part of a content sequentially.
struct InputReader {
    content: Arc<dyn Content>,
    at: u64,
    rest: u64,
}

impl Read for InputReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut here = buffer.len().min(to_usize(self.rest));
        loop {
            match self.content.read_at(self.at, buffer.get_mut(..here).unwrap_or_default()) {
                Ok(()) => break,
                // What precedes damage of the input is decoded.
                Err(ReadError::Damaged { .. }) if here > 1 => here /= 2,
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        self.at += here as u64;
        self.rest -= here as u64;
        Ok(here)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::fatbin::packing::{CompressedFormat, Method};
    use crate::rope::{Rope, Segment};

    /// Bytes of which each piece is more difficult to compress than the last one, so that there are all types of blocks.
    fn original() -> Vec<u8> {
        let mut state = 1_u32;
        let mut next = |mask: u8| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()[0] & mask
        };
        [0, 3, 63, 255].into_iter().flat_map(|mask| (0..200_000).map(|_| next(mask)).collect::<Vec<_>>()).collect()
    }

    fn zstd(original: &[u8]) -> Vec<u8> {
        let mut encoder = zstd::stream::Encoder::new(Vec::new(), 1).unwrap();
        encoder.include_checksum(true).unwrap();
        encoder.set_pledged_src_size(Some(original.len() as u64)).unwrap();
        encoder.write_all(original).unwrap();
        encoder.finish().unwrap()
    }

    fn zlib(original: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(original).unwrap();
        encoder.finish().unwrap()
    }

    fn decoder(bytes: &[u8], method: Method, size: usize, piece: usize, into_memory: bool) -> BundleDecoder {
        let content: Arc<dyn Content> = Arc::new(Rope::new([Segment::literal(bytes)]).unwrap());
        let (length, size) = (bytes.len() as u64, size as u64);
        let packing = CompressedHeader { start: 0, length, format: CompressedFormat::of(method), size, window: size };
        BundleDecoder::new(&content, &packing, piece, into_memory).unwrap()
    }

    /// What can be decoded in memory, and the position of the error.
    fn in_memory(mut decoder: BundleDecoder, size: usize, step: u64) -> (Vec<u8>, Option<u64>) {
        let mut bytes = Vec::with_capacity(size + to_usize(MAX_BLOCK));
        while !decoder.is_at_end {
            let end = bytes.len() as u64 + step;
            if decoder.append(&mut bytes, end).is_err() {
                return (bytes, Some(decoder.at));
            }
        }
        (bytes, None)
    }

    /// The same of a stream that is read in pieces.
    fn streamed(mut decoder: BundleDecoder, step: usize) -> (Vec<u8>, Option<u64>) {
        let (mut bytes, mut buffer) = (Vec::new(), vec![0; step]);
        loop {
            match decoder.read(&mut buffer) {
                Ok(0) => return (bytes, None),
                Ok(count) => bytes.extend(&buffer[..count]),
                Err(_) => {
                    assert!(decoder.at == bytes.len() as u64);
                    return (bytes, Some(decoder.at));
                }
            }
        }
    }

    #[test]
    fn the_place_of_damage_depends_neither_on_the_input_nor_on_the_buffers() {
        let original = original();
        let size = original.len();
        for (method, sound) in [(Method::Zstd, zstd(&original)), (Method::Zlib, zlib(&original))] {
            let checksum = [&sound[..sound.len() - 1], &[!sound[sound.len() - 1]]].concat();
            let mut cases = vec![sound.clone(), checksum, sound[..sound.len() - 1].to_vec()];
            let places: Vec<_> = (1..12).map(|part| sound.len() * part / 12).collect();
            cases.extend(places.iter().map(|&at| sound[..at].to_vec()));
            // What follows the damage may be decoded, to anything.
            cases.extend(places.iter().map(|&at| [&sound[..at], &vec![0xff; sound.len() - at]].concat()));
            // The last block has no more room than it needs.
            let last = sound.len() - 2000;
            cases.extend((0..200).step_by(20).map(|part| {
                let mut case = sound.clone();
                case[last + part * 9..][..8].fill(0xff);
                case
            }));
            for (number, case) in cases.iter().enumerate() {
                let expected = in_memory(decoder(case, method, size, 1 << 20, true), size, size as u64);
                let at = expected.1.map(to_usize);
                match number {
                    0 => assert_eq!(at, None, "{method:?}"),
                    1 | 2 => assert_eq!(at, Some(size), "{method:?}"),
                    3..14 => {
                        assert!(at.is_some_and(|at| at < size && expected.0 == original[..at]), "{method:?} {number}");
                    }
                    _ => assert!(at.is_some(), "{method:?} {number}"),
                }
                let check = |found: (Vec<u8>, Option<u64>), what: &str| {
                    assert_eq!(found.1, expected.1, "{method:?} {number} {what}");
                    let sound = at.filter(|at| *at < size).unwrap_or(0);
                    assert!(found.0[..sound] == expected.0[..sound], "{method:?} {number} {what}");
                };
                for piece in [7, 1000, 4096] {
                    check(in_memory(decoder(case, method, size, piece, true), size, 5000), "in memory");
                    for step in [999, 300_000] {
                        check(streamed(decoder(case, method, size, piece, false), step), "streamed");
                    }
                }
            }
        }
    }
}
