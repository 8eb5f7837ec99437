//! Decoding of a member's deflate stream from a checkpoint.

use std::io;
use std::ops::Range;

use super::checkpoint::Checkpoint;
use super::damage::DecodeError;
use super::inflate::{DecoderPosition, Inflater, Refused, Stops, WINDOW};
use super::stamp::Label;
use super::stream::Stream;
use crate::rope::{ReadError, to_usize};

/// Compressed bytes read at a time.
pub(super) const INPUT: usize = 128 << 10;

/// Observes each piece that is decoded, and where the decoder stands after it.
pub(super) type Observer<'a> = &'a mut dyn FnMut(&Decoder, &[u8], DecoderPosition) -> Result<(), DecodeError>;

/// A decoder at a position of a stream, which reads its own input.
#[derive(Debug)]
pub(super) struct Decoder {
    /// Offset in the content of the next decoded byte.
    pub(super) output: u64,
    inflater: Inflater,
    input: Vec<u8>,
    /// The part of `input` that has not been consumed.
    rest: Range<usize>,
    /// Offset in the compressed data from which `input` is filled next.
    fetched: u64,
    /// Compressed bytes to read at a time.
    step_in: usize,
}

impl Decoder {
    pub(super) fn new(stream: &Stream) -> Result<Self, ReadError> {
        let inflater = Inflater::new().map_err(|code| refused(stream, &code))?;
        Ok(Self { output: 0, inflater, input: Vec::new(), rest: 0..0, fetched: 0, step_in: INPUT })
    }

    /// Seeks to `start`.
    pub(super) fn seek(&mut self, stream: &Stream, start: &Checkpoint, step_in: usize) -> Result<(), ReadError> {
        self.output = start.boundary.output;
        // The byte in which the next block begins. Its lower bits may belong to the block before.
        self.fetched = start.boundary.bit / 8;
        self.rest = 0..0;
        self.step_in = step_in;
        let mut window = Vec::new();
        if !start.window.is_empty() {
            window = zstd::bulk::decompress(&start.window, WINDOW)
                .map_err(|error| stream.damaged(format!("a checkpoint of the index is damaged: {error}")))?;
        }
        let used = (start.boundary.bit % 8) as u8;
        let mut value = 0;
        if used > 0 {
            self.fetch(stream)?;
            let byte = self.input.get(self.rest.clone()).and_then(<[u8]>::first);
            value = byte.ok_or_else(|| stream.damaged(ENDS_EARLY))? >> used;
            self.rest.start += 1;
        }
        self.inflater.enter((8 - used) % 8, value, &window).map_err(|code| refused(stream, &code))
    }

    fn fetch(&mut self, stream: &Stream) -> Result<(), ReadError> {
        let left = stream.packed.size().saturating_sub(self.fetched);
        let count = to_usize(left).min(self.step_in);
        if self.input.len() < count {
            self.input = vec![0; count];
        }
        stream.packed.read_at(self.fetched, self.input.get_mut(..count).unwrap_or_default())?;
        self.fetched = self.fetched.saturating_add(count as u64);
        self.rest = 0..count;
        Ok(())
    }

    /// Decodes until `buffer` is full. `observer` sees what is decoded, up to where the decoder `stops`. At the end of the
    /// content it also sees the end of the stream, where sizes and checksums are compared.
    pub(super) fn fill(
        &mut self,
        stream: &Stream,
        buffer: &mut [u8],
        stops: Stops,
        mut observer: Option<Observer<'_>>,
    ) -> Result<(), DecodeError> {
        let mut room = buffer;
        // One byte more than claimed, to detect a stream that holds more.
        let mut beyond = [0];
        let observes_end = observer.is_some();
        while !room.is_empty() || (observes_end && self.output >= stream.size) {
            if self.rest.is_empty() {
                self.fetch(stream)?;
            }
            let input = self.input.get(self.rest.clone()).unwrap_or_default();
            let target = if room.is_empty() { &mut beyond[..] } else { &mut *room };
            let step = self.inflater.step(input, target, stops).map_err(|code| refused(stream, &code))?;
            self.rest.start += step.consumed;
            self.output = self.output.saturating_add(step.produced as u64);
            stream.resources.counters.bytes_inflated.add(step.produced as u64);
            let (have, claimed) = (self.output, stream.size);
            if have > claimed {
                return Err(DecodeError::whole(stream, format!("inflates to more than the {claimed} bytes it claims")));
            }
            let (piece, after) = room.split_at_mut_checked(step.produced).unwrap_or_default();
            if let Some(observe) = &mut observer {
                observe(self, piece, step.place)?;
            }
            room = after;
            match step.place {
                DecoderPosition::Stuck => return Err(DecodeError::from_here(stream, have, ENDS_EARLY)),
                // The inflater may look at what follows even if there is no room for it.
                DecoderPosition::Invalid if room.is_empty() && !(observes_end && have >= claimed) => return Ok(()),
                DecoderPosition::Invalid => return Err(DecodeError::from_here(stream, have, INVALID)),
                DecoderPosition::End if have < claimed => {
                    return Err(DecodeError::whole(stream, format!("inflates to {have} bytes, but claims {claimed}")));
                }
                DecoderPosition::End => return Ok(()),
                DecoderPosition::Inside | DecoderPosition::Boundary(_) => {}
            }
        }
        Ok(())
    }

    /// Offset in the compressed data, in bits, if `unused` bits of the last consumed byte belong to what follows.
    pub(super) fn bit(&self, unused: u8) -> u64 {
        let input = self.fetched.saturating_sub(self.rest.len() as u64);
        input.saturating_mul(8).saturating_sub(unused.into())
    }

    /// The last 32 KiB that were decoded, as a zstd frame.
    pub(super) fn window(&self, stream: &Stream) -> Result<Box<[u8]>, ReadError> {
        let window = self.inflater.window().map_err(|code| refused(stream, &code))?;
        let window = zstd::bulk::compress(&window, WINDOW_LEVEL);
        Ok(window.map_err(|source| ReadError::io(&stream.entry.label(), source))?.into())
    }
}

/// The error of this process, not of the stream, so another try may succeed.
fn refused(stream: &Stream, code: &Refused) -> ReadError {
    ReadError::io(&stream.entry.label(), io::Error::other(code.to_string()))
}

const ENDS_EARLY: &str = "the compressed data ends too early";
const INVALID: &str = "the compressed data is no valid deflate stream";

/// The zstd level of windows.
const WINDOW_LEVEL: i32 = 3;
