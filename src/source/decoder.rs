//! Decoding a member's deflate stream from a checkpoint on, and the buffers and decoders that are used again and again.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::inflate::{Inflater, Place, Refused, WINDOW};
use crate::index::Resources;
use crate::rope::{Content, Identity, ReadError};

/// Bytes decoded at once.
pub(super) const OUTPUT: usize = 256 << 10;

/// Idle decoders that are kept; each has about 0.5 MB of buffers.
const IDLE: usize = 8;

/// A deflate stream and what the zip file says about it.
#[derive(Debug)]
pub(super) struct Stream {
    /// The member, for messages.
    pub(super) entry: Arc<str>,
    /// The compressed bytes.
    pub(super) packed: Arc<dyn Content>,
    /// What they are said to inflate to, in bytes.
    pub(super) size: u64,
    /// What the member is.
    pub(super) identity: Identity,
    /// Decoders to borrow.
    pub(super) tools: Arc<Tools>,
    /// Caches and counters.
    pub(super) resources: Arc<Resources>,
}

impl Stream {
    pub(super) fn damaged(&self, reason: impl Into<Arc<str>>) -> ReadError {
        ReadError::damaged(&self.entry, reason)
    }

    pub(super) fn too_short(&self, have: u64) -> ReadError {
        self.damaged(format!("inflates to {have} bytes, but claims {}", self.size))
    }

    fn refused(&self, refused: &Refused) -> ReadError {
        self.damaged(refused.to_string())
    }

    /// Runs `work` with a decoder that stands at `start`, reads at most `step_in` compressed bytes at once, and
    /// decodes at most `step_out`.
    pub(super) fn decode<T>(
        &self,
        start: &Checkpoint,
        step_in: usize,
        step_out: usize,
        work: impl FnOnce(&mut Decoder<'_>) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        let mut bench = self.tools.take().map_err(|refused| self.refused(&refused))?;
        let grow = |buffer: &mut Vec<u8>, size| buffer.resize(buffer.len().max(size), 0);
        grow(&mut bench.input, step_in);
        grow(&mut bench.output, step_out);
        let window = match &*start.window {
            [] => Vec::new(),
            window => zstd::bulk::decompress(window, WINDOW).map_err(|source| ReadError::io(&self.entry, source))?,
        };
        bench.inflater.enter(start.bits, start.value, &window).map_err(|refused| self.refused(&refused))?;
        let result = work(&mut Decoder {
            output: start.output,
            stream: self,
            bench: &mut bench,
            fetched: start.input,
            input: 0..0,
            step_in,
            step_out,
            last_byte: 0,
            last_produced: 0,
        });
        self.tools.put_back(bench);
        result
    }
}

/// Decoders and their buffers, to be used again and again.
#[derive(Debug, Default)]
pub(super) struct Tools(Mutex<Vec<Bench>>);

#[derive(Debug)]
struct Bench {
    inflater: Inflater,
    input: Vec<u8>,
    output: Vec<u8>,
}

impl Tools {
    fn idle(&self) -> MutexGuard<'_, Vec<Bench>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Result<Bench, Refused> {
        if let Some(bench) = self.idle().pop() {
            return Ok(bench);
        }
        Ok(Bench { inflater: Inflater::new()?, input: Vec::new(), output: Vec::new() })
    }

    fn put_back(&self, bench: Bench) {
        let mut idle = self.idle();
        if idle.len() < IDLE {
            idle.push(bench);
        }
    }
}

/// Where decoding can start.
#[derive(Debug, Default)]
pub(super) struct Checkpoint {
    /// Offset in the output.
    pub(super) output: u64,
    /// Offset of the next whole byte in the compressed data.
    pub(super) input: u64,
    /// Number of bits of the byte before that which belong here.
    pub(super) bits: u8,
    /// These bits.
    pub(super) value: u8,
    /// What was decoded just before, compressed.
    pub(super) window: Box<[u8]>,
}

/// A decoder that stands inside a stream and fetches its own input.
#[derive(Debug)]
pub(super) struct Decoder<'a> {
    /// Offset in the output.
    pub(super) output: u64,
    stream: &'a Stream,
    bench: &'a mut Bench,
    /// Offset in the compressed data of what comes next into `bench.input`.
    fetched: u64,
    /// The part of `bench.input` that is not consumed yet.
    input: Range<usize>,
    /// Most compressed bytes to read at once.
    step_in: usize,
    /// Most bytes to decode at once.
    step_out: usize,
    last_byte: u8,
    last_produced: usize,
}

impl Decoder<'_> {
    /// Decodes a piece; [`Decoder::produced`] has it. Fails when the stream goes on beyond its claimed size.
    pub(super) fn step(&mut self) -> Result<Place, ReadError> {
        let stream = self.stream;
        self.last_produced = 0;
        let left = stream.packed.size().saturating_sub(self.fetched);
        if self.input.is_empty() && left > 0 {
            let count = usize::try_from(left).unwrap_or(usize::MAX).min(self.step_in);
            let target = self.bench.input.get_mut(..count).unwrap_or_default();
            stream.packed.read_at(self.fetched, target)?;
            self.fetched = self.fetched.saturating_add(count as u64);
            self.input = 0..count;
        }
        let input = self.bench.input.get(self.input.clone()).unwrap_or_default();
        // One byte more than is claimed, so that a stream which holds more gives itself away.
        let claimed = usize::try_from(stream.size.saturating_sub(self.output)).unwrap_or(usize::MAX).saturating_add(1);
        let output = self.bench.output.get_mut(..self.step_out.min(claimed)).unwrap_or_default();
        let step = self.bench.inflater.step(input, output).map_err(|refused| stream.refused(&refused))?;
        if let Some(&byte) = input.get(..step.consumed).and_then(<[u8]>::last) {
            self.last_byte = byte;
        }
        self.input.start += step.consumed;
        self.output = self.output.saturating_add(step.produced as u64);
        self.last_produced = step.produced;
        stream.resources.counters.bytes_inflated.add(step.produced as u64);
        if self.output > stream.size {
            return Err(stream.damaged(format!("inflates to more than the {} bytes it claims", stream.size)));
        }
        if step.place == Place::Stuck {
            return Err(stream.damaged("the compressed data ends too early"));
        }
        Ok(step.place)
    }

    /// The bytes that the last step decoded.
    pub(super) fn produced(&self) -> &[u8] {
        self.bench.output.get(..self.last_produced).unwrap_or_default()
    }

    /// Offset in the compressed data, in bits, when so many bits of the last consumed byte are unused.
    pub(super) fn bit(&self, unused: u8) -> u64 {
        let input = self.fetched.saturating_sub(self.input.len() as u64);
        input.saturating_mul(8).saturating_sub(unused.into())
    }

    /// Remembers this place, a block boundary with so many unused bits in the last byte.
    pub(super) fn checkpoint(&self, bits: u8) -> Result<Checkpoint, ReadError> {
        let stream = self.stream;
        let window = self.bench.inflater.window().map_err(|refused| stream.refused(&refused))?;
        let window = zstd::bulk::compress(&window, 1).map_err(|source| ReadError::io(&stream.entry, source))?;
        Ok(Checkpoint {
            output: self.output,
            input: self.fetched.saturating_sub(self.input.len() as u64),
            bits,
            value: if bits == 0 { 0 } else { self.last_byte >> 8_u8.saturating_sub(bits) },
            window: window.into(),
        })
    }
}

/// Copies as many bytes as fit, and returns their number.
pub(super) fn copy(from: &[u8], to: &mut [u8]) -> usize {
    let count = from.len().min(to.len());
    if let (Some(from), Some(to)) = (from.get(..count), to.get_mut(..count)) {
        to.copy_from_slice(from);
    }
    count
}
