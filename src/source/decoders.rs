//! Decoding state that the members of all inputs share: idle decoders, free chunks, captured headers, and the list of open
//! members. All of it counts towards the budget. Some of it stays even if the budget has no room, so it must not exist once
//! for each of hundreds of inputs.

use std::ops::RangeInclusive;

use super::bundle_headers::BundleHeaderCache;
use super::checkpoint::Checkpoint;
use super::decoder::Decoder;
use super::open_members::OpenMembers;
use super::stream::Stream;
use crate::memory::{Budget, Reclaim, Reservation};
use crate::metrics::MemoryClass;
use crate::resources::Resources;
use crate::rope::ReadError;
use crate::sync::atomic::AtomicUsize;
use crate::sync::{Arc, Condvar, Mutex, rank};

/// Bytes of content that are decoded and cached together. Small chunks are decoded soon and stay in the processor's cache.
pub(super) const CHUNK: u64 = 256 << 10;

/// Bytes of a decoder: its state, its window and its input.
const DECODER: u64 = 176 << 10;

/// This many idle decoders whose position is of no use are kept even if the budget has no room.
const MIN_IDLE: usize = 4;

/// The most free chunks that are kept. Fresh memory costs a good part of the time of decoding into it: the kernel
/// allocates it page by page and fills it with zeros.
const FREE_CHUNKS: usize = 8;

/// The fewest and the most parallel decodes. Between these limits, decodes in flight take at most the budget divided by
/// `PART_AT_WORK`.
const MIN_AT_WORK: u64 = 4;
const MAX_AT_WORK: u64 = 64;
const PART_AT_WORK: u64 = 8;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Decoders {
    budget: Arc<Budget>,
    unused: Arc<Unused>,
    /// Number of decodes in flight, and a condition variable that is notified when one ends.
    at_work: (Mutex<u64, { rank::DECODERS }>, Condvar),
    /// Number of readahead tasks.
    pub(super) ahead: AtomicUsize,
    /// Headers of bundles in all members.
    pub(super) headers: BundleHeaderCache,
    /// The members of all inputs with state in memory.
    pub(super) members: Arc<OpenMembers>,
}

/// Idle decoders and free chunks, the oldest first. Decoders that stand in a stream stay if the budget is short: without them,
/// each read of a sequential reader would start at a checkpoint.
#[derive(Debug, Default)]
struct Unused {
    decoders: Mutex<Vec<IdleDecoder>, { rank::DECODERS }>,
    free_chunks: Mutex<Vec<FreeChunk>, { rank::DECODERS }>,
}

#[derive(Debug)]
struct IdleDecoder {
    /// The id of the stream in which it stands; `None` if its position is of no use.
    owner: Option<usize>,
    decoder: Decoder,
    /// The chunk before its position. A reader often goes on inside of it: where a code object ends, the next one begins. If it
    /// has left the cache meanwhile, it would be decoded again from a checkpoint.
    chunk: Option<Arc<[u8]>>,
    since: u64,
    _memory: Reservation,
}

#[derive(Debug)]
struct FreeChunk {
    chunk: Arc<[u8]>,
    since: u64,
    _memory: Reservation,
}

/// The right to run a decode, with its memory.
pub(super) struct Permit<'a> {
    decoders: &'a Decoders,
    _memory: Reservation,
}

impl Decoders {
    /// Those of all inputs that share these resources.
    pub(super) fn of(resources: &Resources) -> Arc<Self> {
        let shared = resources.decoders.get_or_init(|| Self::new(&resources.budget));
        Arc::clone(shared).downcast().unwrap_or_else(|_| Self::new(&resources.budget))
    }

    pub(super) fn new(budget: &Arc<Budget>) -> Arc<Self> {
        let (unused, members) = (Arc::<Unused>::default(), OpenMembers::new(budget));
        for part in [Arc::<Unused>::clone(&unused) as Arc<dyn Reclaim>, Arc::<OpenMembers>::clone(&members)] {
            budget.register(MemoryClass::Streams, Arc::downgrade(&part));
        }
        Arc::new(Self {
            budget: Arc::clone(budget),
            unused,
            at_work: Default::default(),
            ahead: AtomicUsize::new(0),
            headers: BundleHeaderCache::new(budget),
            members,
        })
    }

    /// The most decodes in flight. As many idle decoders are kept, so that readers of as many files at once do not take
    /// each other's.
    fn most_at_work(&self) -> u64 {
        (self.budget.capacity() / PART_AT_WORK / (DECODER + CHUNK)).clamp(MIN_AT_WORK, MAX_AT_WORK)
    }

    fn is_full(&self, idle: &[IdleDecoder]) -> bool {
        idle.len() as u64 >= self.most_at_work()
    }

    /// Waits until there is memory for one more decode. The holder of a permit waits for nothing, so this ends.
    pub(super) fn permit(&self) -> Permit<'_> {
        let (at_work, ended) = &self.at_work;
        let mut count = at_work.lock();
        while *count >= self.most_at_work() {
            count = ended.wait(count);
        }
        *count += 1;
        drop(count);
        Permit { decoders: self, _memory: self.budget.account(MemoryClass::Streams, DECODER + CHUNK) }
    }

    /// The position of the last decoder of `owner` in `range`.
    pub(super) fn nearest(&self, owner: usize, range: &RangeInclusive<u64>) -> Option<u64> {
        let decoders = self.unused.decoders.lock();
        let outputs = decoders.iter().filter(|idle| idle.owner == Some(owner)).map(|idle| idle.decoder.output);
        outputs.filter(|output| range.contains(output)).max()
    }

    /// The decoder of `owner` at `output`, if it is still there.
    pub(super) fn take(&self, owner: usize, output: u64) -> Option<Decoder> {
        let mut decoders = self.unused.decoders.lock();
        let found = decoders.iter().position(|idle| idle.owner == Some(owner) && idle.decoder.output == output)?;
        Some(decoders.remove(found).decoder)
    }

    /// The chunk `number` of `owner`, if a decoder stands at its end.
    pub(super) fn last_chunk(&self, owner: usize, number: u64) -> Option<Arc<[u8]>> {
        let decoders = self.unused.decoders.lock();
        let mut of_owner = decoders.iter().filter(|idle| idle.owner == Some(owner));
        of_owner.find(|idle| idle.decoder.output == (number + 1) * CHUNK)?.chunk.clone()
    }

    /// A decoder that seeks in `stream` to `start`. It reads at most `step_in` compressed bytes at a time.
    pub(super) fn seek(&self, stream: &Stream, start: &Checkpoint, step_in: usize) -> Result<Decoder, ReadError> {
        let mut decoders = self.unused.decoders.lock();
        let used = unowned(&decoders).or(self.is_full(&decoders).then_some(0));
        let used = used.map(|found| decoders.remove(found).decoder);
        drop(decoders);
        let mut decoder = match used {
            Some(decoder) => decoder,
            None => Decoder::new(stream)?,
        };
        decoder.seek(stream, start, step_in)?;
        Ok(decoder)
    }

    /// Keeps a decoder: for `owner` to continue behind `chunk`, or for reuse elsewhere.
    pub(super) fn put_back(&self, owner: Option<usize>, decoder: Decoder, chunk: Option<Arc<[u8]>>) {
        let bytes = DECODER + chunk.as_ref().map_or(0, |chunk| chunk.len() as u64);
        let memory = self.budget.claim(MemoryClass::Streams, bytes);
        let mut decoders = self.unused.decoders.lock();
        let memory = match memory {
            None if owner.is_none() && decoders.len() >= MIN_IDLE => return,
            memory => memory.unwrap_or_else(|| self.budget.account(MemoryClass::Streams, bytes)),
        };
        let oldest = self.is_full(&decoders).then(|| unowned(&decoders).unwrap_or(0));
        let oldest = oldest.map(|found| decoders.remove(found));
        decoders.push(IdleDecoder { owner, decoder, chunk, since: self.budget.now(), _memory: memory });
        drop(decoders);
        drop(oldest);
        self.budget.touch();
    }

    /// Keeps the memory of a chunk for another one. Last chunks of members have various lengths and would take the place
    /// of others.
    pub(super) fn reuse(&self, mut chunk: Arc<[u8]>) {
        if chunk.len() as u64 != CHUNK
            || self.unused.free_chunks.lock().len() >= FREE_CHUNKS
            || Arc::get_mut(&mut chunk).is_none()
        {
            return;
        }
        if let Some(memory) = self.budget.claim(MemoryClass::Streams, chunk.len() as u64) {
            let since = self.budget.now();
            self.unused.free_chunks.lock().push(FreeChunk { chunk, since, _memory: memory });
        }
    }

    /// Memory for a chunk of `length` bytes, to be filled.
    pub(super) fn chunk(&self, length: usize) -> Arc<[u8]> {
        let found = self.unused.free_chunks.lock().pop_if(|free| free.chunk.len() == length);
        found.map_or_else(|| std::iter::repeat_n(0, length).collect(), |free| free.chunk)
    }

    #[cfg(test)]
    pub(super) fn clear(&self) {
        self.unused.decoders.lock().clear();
    }
}

/// The oldest decoder whose position is of no use.
fn unowned(decoders: &[IdleDecoder]) -> Option<usize> {
    decoders.iter().position(|idle| idle.owner.is_none())
}

impl Reclaim for Unused {
    fn oldest(&self) -> Option<u64> {
        let chunk = self.free_chunks.lock().first().map(|free| free.since);
        let decoder = self.decoders.lock().iter().find(|idle| idle.owner.is_none()).map(|idle| idle.since);
        chunk.into_iter().chain(decoder).min()
    }

    /// Decoders are dropped last: a new chunk costs less.
    fn reclaim(&self) -> bool {
        let mut chunks = self.free_chunks.lock();
        let chunk = (!chunks.is_empty()).then(|| chunks.remove(0));
        drop(chunks);
        if chunk.is_some() {
            return true;
        }
        let mut decoders = self.decoders.lock();
        let decoder = unowned(&decoders).map(|found| decoders.remove(found));
        drop(decoders);
        decoder.is_some()
    }

    /// Nobody reads on.
    fn rest(&self) {
        let decoders = std::mem::take(&mut *self.decoders.lock());
        drop(decoders);
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        let (at_work, ended) = &self.decoders.at_work;
        *at_work.lock() -= 1;
        ended.notify_one();
    }
}
