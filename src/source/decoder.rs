//! Decoding a member's deflate stream from a checkpoint on, and the decoders that stand still in the middle of one until
//! somebody reads on.

use std::ops::{Range, RangeInclusive};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::block_index::{Checkpoint, Growth};
use super::inflate::{Inflater, Place, Refused, Stops, WINDOW};
use crate::index::Resources;
use crate::rope::{Content, Identity, ReadError};

/// Compressed bytes read at once.
pub(super) const INPUT: usize = 128 << 10;

/// Idle decoders that are kept, each with about 170 KB of state and input. There are more than there are threads that
/// serve a mount, so that readers of as many files at once do not take each other's away.
const IDLE: usize = 24;

/// A deflate stream and what the zip file says about it.
#[derive(Debug)]
pub(super) struct Stream {
    /// The member, for messages.
    pub(super) entry: Arc<str>,
    /// The compressed bytes.
    pub(super) packed: Arc<dyn Content>,
    /// What they are said to inflate to, in bytes.
    pub(super) size: u64,
    /// What that is said to have as its CRC-32.
    pub(super) crc32: u32,
    /// What the member is.
    pub(super) identity: Identity,
    /// Where decoders wait.
    pub(super) decoders: Arc<Decoders>,
    /// Caches and counters.
    pub(super) resources: Arc<Resources>,
}

impl Stream {
    pub(super) fn damaged(&self, reason: impl Into<Arc<str>>) -> ReadError {
        ReadError::damaged(&self.entry, reason)
    }

    fn refused(&self, refused: &Refused) -> ReadError {
        self.damaged(refused.to_string())
    }
}

/// Most chunks whose memory is kept. Fresh memory costs a good part of the time of what is decoded into it: it is made of
/// pages one by one, and filled with zeros.
const SPARE: usize = 8;

/// The decoders of all members of a wheel.
#[derive(Debug, Default)]
pub(super) struct Decoders {
    /// Idle ones, the least recently used first.
    idle: Mutex<Vec<Idle>>,
    /// Number of members that are being decoded ahead of their readers.
    pub(super) ahead: AtomicUsize,
    /// Memory of chunks that nobody needs.
    spare: Mutex<Vec<Arc<[u8]>>>,
}

#[derive(Debug)]
struct Idle {
    /// Whose stream it stands in; `None` if nobody needs its place.
    owner: Option<usize>,
    decoder: Decoder,
}

impl Decoders {
    fn idle(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How far the decoder of `owner` has come that is the last one in `range`.
    pub(super) fn nearest(&self, owner: usize, range: &RangeInclusive<u64>) -> Option<u64> {
        let idle = self.idle();
        let outputs = idle.iter().filter(|idle| idle.owner == Some(owner)).map(|idle| idle.decoder.output);
        outputs.filter(|output| range.contains(output)).max()
    }

    /// The decoder of `owner` that stands at `output`, if it is still there.
    pub(super) fn take(&self, owner: usize, output: u64) -> Option<Decoder> {
        let mut idle = self.idle();
        let found = idle.iter().position(|idle| idle.owner == Some(owner) && idle.decoder.output == output)?;
        Some(idle.remove(found).decoder)
    }

    /// A decoder that enters `stream` at `start` and reads at most `step_in` compressed bytes at once.
    pub(super) fn enter(&self, stream: &Stream, start: &Checkpoint, step_in: usize) -> Result<Decoder, ReadError> {
        let mut idle = self.idle();
        let unowned = idle.iter().position(|idle| idle.owner.is_none());
        let used = unowned.or((idle.len() >= IDLE).then_some(0)).map(|found| idle.remove(found).decoder);
        drop(idle);
        let mut decoder = match used {
            Some(decoder) => decoder,
            None => Decoder::new().map_err(|refused| stream.refused(&refused))?,
        };
        decoder.enter(stream, start, step_in)?;
        Ok(decoder)
    }

    /// Keeps a decoder: for `owner` to read on, or for anybody to use again.
    pub(super) fn put_back(&self, owner: Option<usize>, decoder: Decoder) {
        let mut idle = self.idle();
        if idle.len() >= IDLE {
            idle.remove(0);
        }
        idle.push(Idle { owner, decoder });
    }

    fn spare(&self) -> MutexGuard<'_, Vec<Arc<[u8]>>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the memory of a chunk for another one of its length.
    pub(super) fn reuse(&self, mut chunk: Arc<[u8]>) {
        let mut spare = self.spare();
        if spare.len() < SPARE && Arc::get_mut(&mut chunk).is_some() {
            spare.push(chunk);
        }
    }

    /// Memory for a chunk of `length` bytes, to be filled.
    pub(super) fn chunk(&self, length: usize) -> Arc<[u8]> {
        let found = self.spare().pop_if(|chunk| chunk.len() == length);
        found.unwrap_or_else(|| std::iter::repeat_n(0, length).collect())
    }

    #[cfg(test)]
    pub(super) fn clear(&self) {
        self.idle().clear();
    }
}

/// A decoder that stands inside a stream and fetches its own input.
#[derive(Debug)]
pub(super) struct Decoder {
    /// Offset in the content of what comes next.
    pub(super) output: u64,
    inflater: Inflater,
    input: Vec<u8>,
    /// The part of `input` that is not consumed yet.
    rest: Range<usize>,
    /// Offset in the compressed data of what comes next into `input`.
    fetched: u64,
    /// Most compressed bytes to read at once.
    step_in: usize,
}

impl Decoder {
    fn new() -> Result<Self, Refused> {
        let inflater = Inflater::new()?;
        Ok(Self { output: 0, inflater, input: Vec::new(), rest: 0..0, fetched: 0, step_in: INPUT })
    }

    /// Goes to `start`.
    pub(super) fn enter(&mut self, stream: &Stream, start: &Checkpoint, step_in: usize) -> Result<(), ReadError> {
        self.output = start.joint.output;
        // The byte in which the next block begins, perhaps after the end of the block before.
        self.fetched = start.joint.bit / 8;
        self.rest = 0..0;
        self.step_in = step_in;
        let mut window = Vec::new();
        if !start.window.is_empty() {
            window = zstd::bulk::decompress(&start.window, WINDOW)
                .map_err(|error| stream.damaged(format!("a checkpoint of the index is damaged: {error}")))?;
        }
        let used = (start.joint.bit % 8) as u8;
        let mut value = 0;
        if used > 0 {
            self.fetch(stream)?;
            let byte = self.input.get(self.rest.clone()).and_then(<[u8]>::first);
            value = byte.ok_or_else(|| stream.damaged(ENDS_EARLY))? >> used;
            self.rest.start += 1;
        }
        self.inflater.enter((8 - used) % 8, value, &window).map_err(|refused| stream.refused(&refused))
    }

    fn fetch(&mut self, stream: &Stream) -> Result<(), ReadError> {
        let left = stream.packed.size().saturating_sub(self.fetched);
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(self.step_in);
        if self.input.len() < count {
            self.input.resize(count, 0);
        }
        stream.packed.read_at(self.fetched, self.input.get_mut(..count).unwrap_or_default())?;
        self.fetched = self.fetched.saturating_add(count as u64);
        self.rest = 0..count;
        Ok(())
    }

    /// Decodes until `buffer` is full, and when that is the end of the content, up to the end of the stream. What there is
    /// to be learnt goes to `growth`.
    pub(super) fn fill(
        &mut self,
        stream: &Stream,
        buffer: &mut [u8],
        mut growth: Option<&mut Growth>,
    ) -> Result<(), ReadError> {
        let stops = if growth.is_some() { Stops::AtBlocks } else { Stops::Never };
        let mut room = buffer;
        // One byte more than is claimed, so that a stream which holds more gives itself away.
        let mut beyond = [0];
        while !room.is_empty() || self.output >= stream.size {
            if self.rest.is_empty() {
                self.fetch(stream)?;
            }
            let input = self.input.get(self.rest.clone()).unwrap_or_default();
            let target = if room.is_empty() { &mut beyond[..] } else { &mut *room };
            let step = self.inflater.step(input, target, stops).map_err(|refused| stream.refused(&refused))?;
            self.rest.start += step.consumed;
            self.output = self.output.saturating_add(step.produced as u64);
            stream.resources.counters.bytes_inflated.add(step.produced as u64);
            if self.output > stream.size {
                return Err(stream.damaged(format!("inflates to more than the {} bytes it claims", stream.size)));
            }
            let (piece, after) = room.split_at_mut_checked(step.produced).unwrap_or_default();
            if let Some(growth) = &mut growth {
                growth.see(stream, self, piece, step.place)?;
            }
            room = after;
            match step.place {
                Place::Stuck => return Err(stream.damaged(ENDS_EARLY)),
                Place::End if self.output < stream.size => {
                    let (have, claimed) = (self.output, stream.size);
                    return Err(stream.damaged(format!("inflates to {have} bytes, but claims {claimed}")));
                }
                Place::End => return Ok(()),
                Place::Inside | Place::Boundary(_) => {}
            }
        }
        Ok(())
    }

    /// Offset in the compressed data, in bits, when so many bits of the last consumed byte are unused.
    pub(super) fn bit(&self, unused: u8) -> u64 {
        let input = self.fetched.saturating_sub(self.rest.len() as u64);
        input.saturating_mul(8).saturating_sub(unused.into())
    }

    /// What was decoded last, compressed.
    pub(super) fn window(&self, stream: &Stream) -> Result<Box<[u8]>, ReadError> {
        let window = self.inflater.window().map_err(|refused| stream.refused(&refused))?;
        let window = zstd::bulk::compress(&window, WINDOW_LEVEL);
        Ok(window.map_err(|source| ReadError::io(&stream.entry, source))?.into())
    }
}

const ENDS_EARLY: &str = "the compressed data ends too early";

/// The zstd level of windows.
const WINDOW_LEVEL: i32 = 3;
