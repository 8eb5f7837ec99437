//! The content of a deflated member, divided into chunks that are decoded on demand.
//!
//! A *decode* in flight starts at an idle decoder's position or at a checkpoint, and ends at the end of the requested
//! chunk. Readers of chunks on its way wait for it. Only one decode at a time extends the index, so the index is built
//! in one pass.

mod guard;
mod pass;

use std::sync::OnceLock;

use self::guard::DecodeGuard;
use super::block_index::{BlockIndex, IndexBuilder};
use super::checkpoint::Checkpoint;
use super::damage::{self, DamageExtent, DecodeError, StreamDamage};
use super::decoder::{Decoder, INPUT};
use super::decoders::{CHUNK, Decoders};
use super::facts::MemberFacts;
use super::found::FoundOffsets;
use super::inflate::{Stops, WINDOW};
use super::open_members::ListedMember;
use super::stream::Stream;
use super::stream_index::StreamIndex;
use crate::index::RecordKind;
use crate::metrics::MemoryClass;
use crate::rope::{BlockBoundary, ReadError, to_usize};
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Arc, Condvar, Mutex, rank};

/// A decode that passes other chunks keeps this many of the first and of the last ones. Sections that are read together
/// are close to each other, but not in the order of reading. Keeping more would evict chunks that others are about to
/// read.
const KEPT: u64 = 4;

/// After this many waits a reader decodes by itself: without room in the cache, chunks may be evicted before it wakes.
const MAX_WAITS: usize = 64;

/// A stream's chunks and its index.
#[derive(Debug)]
pub(super) struct Chunks {
    pub(super) stream: Stream,
    /// Decoders and indexes, which all members share.
    pub(super) decoders: Arc<Decoders>,
    /// The member's place in the list of open members.
    listed: ListedMember,
    /// Held for look-ups and updates, never while decoding.
    state: Mutex<ChunksState, { rank::CHUNKS }>,
    /// Notified when a decode has progressed or ended.
    progress: Condvar,
    /// Where the last captured bundle header ends.
    header_end: AtomicU64,
    /// What the pass that builds the index has found.
    pub(super) found: parking_lot::Mutex<FoundOffsets>,
    /// SHA-256 of the content, once a pass over all of it has computed it.
    sha256: OnceLock<[u8; 32]>,
    /// Whether a pass over the whole stream, in this session or an earlier one, has found sizes and CRC-32 right.
    is_passed: AtomicBool,
    /// Bytes that were inflated, by all decodes.
    pub(super) inflated: AtomicU64,
}

#[derive(Debug)]
struct ChunksState {
    /// First part of the keys in the caches, and the owner of idle decoders.
    id: usize,
    index: BlockIndex,
    /// Whether `index` comes from another session.
    load_state: LoadState,
    decodes: Vec<Decode>,
    /// Number of decodes that were started.
    started: u64,
    /// What is wrong with the stream, if a decode has met it.
    damage: Option<StreamDamage>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LoadState {
    /// Not looked up yet.
    Unknown,
    /// Stored by another session.
    Loaded,
    /// Built in this session.
    Built,
}

/// A decode in flight.
#[derive(Debug)]
struct Decode {
    number: u64,
    /// The offset up to which it has decoded.
    at: u64,
    /// The offset at which it will end.
    end: u64,
}

/// Where a decode begins.
enum Start {
    /// At an idle decoder's position.
    Resume(Decoder),
    Seek(Arc<Checkpoint>),
}

/// What a reader of a chunk has to do.
enum Task<'a> {
    Nothing(Arc<[u8]>),
    Decode(DecodeGuard<'a>, Start),
}

impl Chunks {
    pub(super) fn new(stream: Stream, decoders: Arc<Decoders>, listed: ListedMember, facts: MemberFacts) -> Arc<Self> {
        let state = ChunksState {
            id: new_id(&stream),
            index: BlockIndex::default(),
            load_state: LoadState::Unknown,
            decodes: Vec::new(),
            started: 0,
            damage: facts.damage.map(|damage| *damage),
        };
        Arc::new(Self {
            stream,
            decoders,
            listed,
            state: Mutex::new(state),
            progress: Condvar::new(),
            header_end: AtomicU64::new(0),
            found: parking_lot::Mutex::default(),
            sha256: facts.sha256.map_or_else(OnceLock::new, OnceLock::from),
            is_passed: AtomicBool::new(facts.is_passed),
            inflated: AtomicU64::new(facts.inflated),
        })
    }

    /// Number of chunks.
    pub(super) fn count(&self) -> u64 {
        self.stream.size.div_ceil(CHUNK)
    }

    /// A chunk if it is in the cache.
    pub(super) fn cached(&self, number: u64) -> Option<Arc<[u8]>> {
        let id = self.state.lock().id;
        self.stream.resources.spans.get(&key(id, number))
    }

    /// A chunk, decoded unless it is in the cache. The chunk in which damage begins ends there.
    pub(super) fn get(&self, number: u64) -> Result<Arc<[u8]>, ReadError> {
        loop {
            let (guard, start) = match self.task(number)? {
                Task::Nothing(chunk) => return Ok(chunk),
                Task::Decode(guard, start) => (guard, start),
            };
            let (id, is_damaged) = (guard.id, guard.is_damaged);
            match self.decode(guard, start, number) {
                Ok(chunk) => return Ok(chunk),
                Err(error) => self.record(error, id, is_damaged)?,
            }
        }
    }

    /// All block boundaries. Decodes whatever is not indexed yet.
    pub(super) fn block_boundaries(&self) -> Result<Arc<[BlockBoundary]>, ReadError> {
        self.with_complete_index(|index| index.boundaries.as_slice().into())
    }

    /// Decodes what was not decoded yet, so that sizes and CRC-32 are compared.
    pub(super) fn check_all(&self) -> Result<(), ReadError> {
        let is_passed = self.is_passed.load(Ordering::Relaxed);
        if is_passed || self.pass() { self.check(self.stream.size) } else { self.with_complete_index(|_| ()) }
    }

    fn with_complete_index<T>(&self, take: impl Fn(&BlockIndex) -> T) -> Result<T, ReadError> {
        loop {
            let mut state = self.state.lock();
            self.restore(&mut state);
            if let Some(damage) = &state.damage {
                return Err(damage.error.clone());
            }
            let Some(last) = self.count().checked_sub(1).filter(|_| !state.index.complete) else {
                self.is_passed.store(true, Ordering::Relaxed);
                return Ok(take(&state.index));
            };
            drop(state);
            self.get(last)?;
        }
    }

    /// The SHA-256 of the content, if a pass over all of it computes it. An index of an earlier session has none.
    pub(super) fn sha256(&self) -> Result<Option<[u8; 32]>, ReadError> {
        if self.sha256.get().is_none() && self.stream.is_hashed() && !self.pass() {
            self.with_complete_index(|_| ())?;
        }
        Ok(self.sha256.get().copied())
    }

    /// What is known about the content. Never waits, since the caller may hold the lock of other chunks; `None` if it had
    /// to.
    pub(super) fn facts(&self) -> Option<MemberFacts> {
        let damage = self.state.try_lock()?.damage.clone().map(Box::new);
        let is_passed = self.is_passed.load(Ordering::Relaxed);
        let inflated = self.inflated.load(Ordering::Relaxed);
        Some(MemberFacts { sha256: self.sha256.get().copied(), is_passed, inflated, damage })
    }

    /// What is wrong with the stream, as far as it is known.
    pub(super) fn damage(&self) -> Option<StreamDamage> {
        self.state.lock().damage.clone()
    }

    /// Fails if the content up to `end` is known to be unreadable.
    pub(super) fn check(&self, end: u64) -> Result<(), ReadError> {
        self.state.lock().damage.as_ref().map_or(Ok(()), |damage| damage.check(end))
    }

    /// Fills `buffer` with a captured bundle header at `offset`. `false` if there is none.
    pub(super) fn read_header(&self, offset: u64, buffer: &mut [u8]) -> bool {
        let id = self.state.lock().id;
        self.decoders.headers.read(id, offset, buffer)
    }

    /// Updates the account of the memory of the index and of what was found.
    fn account(&self, state: &ChunksState) {
        self.listed.account(state.index.bytes() + self.found.lock().bytes());
    }

    /// Finds out what a reader has to do for a chunk. Waits while another thread decodes it.
    fn task(&self, number: u64) -> Result<Task<'_>, ReadError> {
        let start = number * CHUNK;
        let mut waits = 0;
        let mut state = self.state.lock();
        loop {
            let readable = state.damage.as_ref().map_or(self.stream.size, |damage| damage.readable);
            let end = start.saturating_add(CHUNK).min(readable);
            if let Some(damage) = state.damage.as_ref().filter(|_| start >= readable) {
                return Err(damage.error.clone());
            }
            let id = state.id;
            let cached = self.stream.resources.spans.get(&key(id, number));
            if let Some(chunk) = cached.or_else(|| self.decoders.last_chunk(id, number)) {
                return Ok(Task::Nothing(chunk));
            }
            self.restore(&mut state);
            self.listed.touch();
            let indexed_to = state.index.indexed_to;
            let checkpoint = state.index.checkpoint(start.min(indexed_to));
            let near = checkpoint.boundary.output..=start.min(indexed_to);
            let idle_at = self.decoders.nearest(id, &near);
            // A decode that passes the checkpoint with its next chunk is worth waiting for, too.
            let in_flight = checkpoint.boundary.output.saturating_sub(CHUNK)..=*near.end();
            let decoding_at = state.decodes.iter().map(|decode| decode.at).filter(|at| in_flight.contains(at)).max();
            let must_wait = end > indexed_to && state.decodes.iter().any(|decode| decode.end > indexed_to);
            if must_wait || (decoding_at > idle_at && waits < MAX_WAITS) {
                waits += 1;
                state = self.progress.wait(state);
                continue;
            }
            let (at, start) = match idle_at.and_then(|output| self.decoders.take(id, output)) {
                Some(decoder) => (decoder.output, Start::Resume(decoder)),
                None => (checkpoint.boundary.output, Start::Seek(checkpoint)),
            };
            state.started += 1;
            let number = state.started;
            state.decodes.push(Decode { number, at, end });
            // The index of a damaged stream is never complete.
            let is_damaged = state.damage.is_some();
            let extends_index = end > indexed_to && !is_damaged;
            let hashes = self.stream.is_hashed();
            let builder = extends_index.then(|| Box::new(state.index.builder(hashes)));
            return Ok(Task::Decode(DecodeGuard { chunks: self, id, number, readable, is_damaged, builder }, start));
        }
    }

    /// Decodes up to the end of the chunk `wanted`, and returns that chunk.
    fn decode(&self, mut guard: DecodeGuard<'_>, start: Start, wanted: u64) -> Result<Arc<[u8]>, DecodeError> {
        let _permit = self.decoders.permit();
        let mut decoder = match start {
            Start::Resume(decoder) => decoder,
            Start::Seek(checkpoint) => self.seek(&checkpoint)?,
        };
        let first = decoder.output / CHUNK;
        let mut number = first;
        loop {
            let begin = number * CHUNK;
            let skip = to_usize(decoder.output - begin);
            let length = to_usize((guard.readable - begin).min(CHUNK));
            let mut chunk = self.decoders.chunk(length);
            let bytes = Arc::get_mut(&mut chunk).and_then(|bytes| bytes.get_mut(skip..)).unwrap_or_default();
            guard.fill(&mut decoder, bytes)?;
            let is_kept = skip == 0 && (number < first + KEPT || number + KEPT >= wanted);
            guard.advance(decoder.output, is_kept.then(|| (number, Arc::clone(&chunk))));
            if number >= wanted {
                let owner = (decoder.output < guard.readable).then_some(guard.id);
                let last = owner.filter(|_| skip == 0).map(|_| Arc::clone(&chunk));
                self.decoders.put_back(owner, decoder, last);
                return Ok(chunk);
            }
            self.decoders.reuse(chunk);
            number += 1;
        }
    }

    /// A decoder at a checkpoint. A window from another session is checked first.
    fn seek(&self, checkpoint: &Checkpoint) -> Result<Decoder, DecodeError> {
        let mut decoder = self.decoders.seek(&self.stream, checkpoint, INPUT)?;
        if checkpoint.is_verified() {
            return Ok(decoder);
        }
        // 32 KiB later nothing refers to the window any more.
        let until = self.state.lock().index.boundary_from(checkpoint.boundary.output.saturating_add(WINDOW as u64));
        let mut crc = crc32fast::Hasher::new_with_initial(checkpoint.boundary.crc32);
        let mut buffer = vec![0; WINDOW];
        while decoder.output < until.output {
            let length = usize::try_from(until.output - decoder.output).unwrap_or(WINDOW).min(WINDOW);
            let piece = buffer.get_mut(..length).unwrap_or_default();
            decoder.fill(&self.stream, piece, Stops::Never, None)?;
            crc.update(piece);
        }
        if crc.finalize() != until.crc32 {
            return Err(DecodeError::whole(&self.stream, "inflates differently than before"));
        }
        checkpoint.set_verified();
        decoder.seek(&self.stream, checkpoint, INPUT)?;
        Ok(decoder)
    }

    /// Loads the index that another session has stored. Looks for it once.
    fn restore(&self, state: &mut ChunksState) {
        if state.load_state != LoadState::Unknown {
            return;
        }
        let stream = &self.stream;
        let index = (stream.size > CHUNK).then(|| stream.resources.index.get(RecordKind::Stream, &stream.identity));
        let loaded = index.flatten().and_then(|index: StreamIndex| index.unpack(stream));
        state.load_state = if loaded.is_some() { LoadState::Loaded } else { LoadState::Built };
        state.index = loaded.unwrap_or_default();
        if state.load_state == LoadState::Loaded {
            self.account(state);
        }
    }

    /// Records why a decode ended early, so that the next try knows. If an index from another session may be the cause,
    /// that index is dropped together with everything that was decoded with it. Fails if another try would end likewise,
    /// because the decode knew that the stream `is_damaged`.
    fn record(&self, failed: DecodeError, id: usize, is_damaged: bool) -> Result<(), ReadError> {
        let DecodeError { error, extent } = failed;
        if !matches!(error, ReadError::Damaged { .. }) {
            return Err(error);
        }
        let mut state = self.state.lock();
        if state.id != id {
            return Ok(());
        }
        let is_loaded = std::mem::replace(&mut state.load_state, LoadState::Built) == LoadState::Loaded;
        let readable = if let DamageExtent::From(output) = extent { output } else { 0 };
        if is_loaded {
            tracing::warn!("the index of {} is wrong and is built again: {error}", self.stream.entry);
            state.index = BlockIndex::default();
        } else if state.damage.as_ref().is_none_or(|damage| readable < damage.readable) {
            state.damage = Some(StreamDamage { readable, error: error.clone() });
        } else {
            // Otherwise another reader has recorded it meanwhile.
            return if is_damaged { Err(error) } else { Ok(()) };
        }
        if is_loaded || readable == 0 {
            state.id = new_id(&self.stream);
            drop(state);
            self.drop_chunks(id);
        }
        if extent == DamageExtent::Whole && !is_loaded {
            damage::remember(&self.stream.resources, &self.stream.identity, &error);
        }
        Ok(())
    }

    /// Removes all chunks with this id from the cache.
    fn drop_chunks(&self, id: usize) {
        (0..self.count()).for_each(|number| self.stream.resources.spans.remove(&key(id, number)));
    }
}

fn new_id(stream: &Stream) -> usize {
    to_usize(stream.resources.next_id())
}

fn key(id: usize, number: u64) -> (usize, usize) {
    (id, to_usize(number))
}

#[cfg(test)]
#[path = "chunks_tests.rs"]
mod tests;
