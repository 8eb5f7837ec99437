//! The content of a deflated member, divided into chunks that are decoded on demand.
//!
//! A *decode* in flight starts at an idle decoder's position or at a checkpoint, and ends at the end of the requested
//! chunk. Readers of chunks on its way wait for it. Only one decode at a time extends the index, so the index is built
//! in one pass.

use std::sync::OnceLock;

use super::block_index::{BlockIndex, Checkpoint, IndexBuilder};
use super::decoder::{Decoder, INPUT, Stream};
use super::inflate::WINDOW;
use super::stream_index::StreamIndex;
use crate::index::RecordKind;
use crate::metrics::MemoryClass;
use crate::rope::{BlockBoundary, ReadError, to_usize};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

/// Chunks begin at multiples of this many bytes. Small chunks are decoded soon and stay in the processor's cache.
pub(super) const CHUNK: u64 = 256 << 10;

/// A decode that passes other chunks keeps this many of the first and of the last ones. Sections that are read together
/// are close to each other, but not in the order of reading. Keeping more would evict chunks that others are about to
/// read.
const KEPT: u64 = 4;

/// After this many waits a reader decodes by itself. If the cache has no room, chunks of other decodes may be gone
/// before it wakes.
const MOST_WAITS: usize = 64;

/// A stream's chunks and its index.
#[derive(Debug)]
pub(super) struct Chunks {
    pub(super) stream: Stream,
    /// The member's number in the list of loaded indexes.
    number: usize,
    this: Weak<Self>,
    /// Held for look-ups and updates, never while decoding.
    state: Mutex<ChunksState>,
    /// Notified when a decode has progressed or ended.
    progress: Condvar,
    /// Where the last captured bundle header ends.
    header_end: AtomicU64,
    /// Of the whole content, once the pass that builds the index has computed it. It stays when the index is evicted.
    sha256: OnceLock<[u8; 32]>,
}

#[derive(Debug)]
struct ChunksState {
    /// First part of the keys in the caches, and the owner of idle decoders.
    id: usize,
    index: BlockIndex,
    /// Whether `index` comes from another session.
    recalled: Recalled,
    decodes: Vec<Decode>,
    /// Number of decodes that were started.
    begun: u64,
    /// Why the member cannot be read.
    damage: Option<ReadError>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recalled {
    /// Not looked up yet.
    Unknown,
    /// `index` was stored by another session.
    Yes,
    /// `index` was built in this session.
    No,
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

/// Keeps a decode in the list, and removes it on drop.
struct DecodeGuard<'a> {
    chunks: &'a Chunks,
    id: usize,
    number: u64,
    /// Set if the decode extends the index.
    builder: Option<IndexBuilder>,
}

impl Drop for DecodeGuard<'_> {
    fn drop(&mut self) {
        self.chunks.lock().decodes.retain(|decode| decode.number != self.number);
        self.chunks.progress.notify_all();
    }
}

impl Drop for Chunks {
    fn drop(&mut self) {
        self.stream.decoders.indexes.remove(self.number);
    }
}

impl Chunks {
    pub(super) fn new(stream: Stream) -> Arc<Self> {
        let state = ChunksState {
            id: new_id(&stream),
            index: BlockIndex::default(),
            recalled: Recalled::Unknown,
            decodes: Vec::new(),
            begun: 0,
            damage: None,
        };
        Arc::new_cyclic(|this| Self {
            number: state.id,
            this: Weak::clone(this),
            stream,
            state: Mutex::new(state),
            progress: Condvar::new(),
            header_end: AtomicU64::new(0),
            sha256: OnceLock::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, ChunksState> {
        // Each statement leaves the state consistent, so a panic elsewhere does not invalidate it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of chunks.
    pub(super) fn count(&self) -> u64 {
        self.stream.size.div_ceil(CHUNK)
    }

    /// A chunk if it is in the cache.
    pub(super) fn cached(&self, number: u64) -> Option<Arc<[u8]>> {
        let id = self.lock().id;
        self.stream.resources.spans.get(&key(id, number))
    }

    /// A chunk, decoded unless it is in the cache.
    pub(super) fn get(&self, number: u64) -> Result<Arc<[u8]>, ReadError> {
        loop {
            let (guard, start) = match self.task(number)? {
                Task::Nothing(chunk) => return Ok(chunk),
                Task::Decode(guard, start) => (guard, start),
            };
            let id = guard.id;
            match self.decode(guard, start, number) {
                Ok(chunk) => return Ok(chunk),
                Err(error) if self.is_final(&error, id) => return Err(error),
                Err(_) => {}
            }
        }
    }

    /// All block boundaries. Decodes whatever is not indexed yet.
    pub(super) fn block_boundaries(&self) -> Result<Arc<[BlockBoundary]>, ReadError> {
        loop {
            let mut state = self.lock();
            self.restore(&mut state);
            let Some(last) = self.count().checked_sub(1).filter(|_| !state.index.complete) else {
                return Ok(state.index.boundaries.as_slice().into());
            };
            drop(state);
            // The index may be evicted right after this.
            self.get(last)?;
        }
    }

    /// The SHA-256 of the content, if the pass that builds the index computes it. An index of an earlier session has none.
    pub(super) fn sha256(&self) -> Result<Option<[u8; 32]>, ReadError> {
        if self.sha256.get().is_none() && self.stream.resources.hashed.has_members() {
            self.block_boundaries()?;
        }
        Ok(self.sha256.get().copied())
    }

    /// Fails if the member is known to be unreadable.
    pub(super) fn damage(&self) -> Result<(), ReadError> {
        self.lock().damage.clone().map_or(Ok(()), Err)
    }

    /// Fills `buffer` with a captured bundle header at `offset`. `false` if there is none.
    pub(super) fn read_header(&self, offset: u64, buffer: &mut [u8]) -> Result<bool, ReadError> {
        let state = self.lock();
        if let Some(damage) = &state.damage {
            return Err(damage.clone());
        }
        let id = state.id;
        drop(state);
        Ok(self.stream.decoders.headers.read(id, offset, buffer))
    }

    /// Drops the index. `false` if it is in use.
    pub(super) fn evict_index(&self) -> bool {
        let Ok(mut state) = self.state.try_lock() else { return false };
        if !state.decodes.is_empty() {
            return false;
        }
        // A cached chunk implies that the index covers it, so the cached chunks get unreachable keys.
        state.id = new_id(&self.stream);
        state.recalled = Recalled::Unknown;
        let index = std::mem::take(&mut state.index);
        self.stream.decoders.indexes.remove(self.number);
        drop(state);
        drop(index);
        true
    }

    /// Updates the account of the index's memory.
    fn account(&self, state: &ChunksState) {
        self.stream.decoders.indexes.account(self.number, &self.this, state.index.bytes());
    }

    /// Finds out what a reader has to do for a chunk. Waits while another thread decodes it.
    fn task(&self, number: u64) -> Result<Task<'_>, ReadError> {
        let start = number * CHUNK;
        let end = start.saturating_add(CHUNK).min(self.stream.size);
        let mut waits = 0;
        let mut state = self.lock();
        loop {
            if let Some(damage) = &state.damage {
                return Err(damage.clone());
            }
            let id = state.id;
            if let Some(chunk) = self.stream.resources.spans.get(&key(id, number)) {
                return Ok(Task::Nothing(chunk));
            }
            self.restore(&mut state);
            self.stream.decoders.indexes.touch(self.number);
            let indexed_to = state.index.indexed_to;
            let checkpoint = state.index.checkpoint(start.min(indexed_to));
            let near = checkpoint.boundary.output..=start.min(indexed_to);
            let standing = self.stream.decoders.nearest(id, &near);
            // A decode that passes the checkpoint with its next chunk is worth waiting for, too.
            let coming = checkpoint.boundary.output.saturating_sub(CHUNK)..=*near.end();
            let running = state.decodes.iter().map(|decode| decode.at).filter(|at| coming.contains(at)).max();
            let must_wait = end > indexed_to && state.decodes.iter().any(|decode| decode.end > indexed_to);
            if must_wait || (running > standing && waits < MOST_WAITS) {
                waits += 1;
                state = self.progress.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let decoder = standing.and_then(|output| self.stream.decoders.take(id, output));
            let start = decoder.map_or(Start::Seek(checkpoint), Start::Resume);
            let at = match &start {
                Start::Resume(decoder) => decoder.output,
                Start::Seek(checkpoint) => checkpoint.boundary.output,
            };
            state.begun += 1;
            let number = state.begun;
            state.decodes.push(Decode { number, at, end });
            let builder = (end > indexed_to).then(|| state.index.builder(self.stream.resources.hashed.has_members()));
            return Ok(Task::Decode(DecodeGuard { chunks: self, id, number, builder }, start));
        }
    }

    /// Decodes up to the end of the chunk `wanted`, and returns that chunk.
    fn decode(&self, mut guard: DecodeGuard<'_>, start: Start, wanted: u64) -> Result<Arc<[u8]>, ReadError> {
        let stream = &self.stream;
        let _permit = stream.decoders.permit();
        let mut decoder = match start {
            Start::Resume(decoder) => decoder,
            Start::Seek(checkpoint) => self.seek(&checkpoint)?,
        };
        let first = decoder.output / CHUNK;
        let mut number = first;
        loop {
            let begin = number * CHUNK;
            let skip = to_usize(decoder.output - begin);
            let length = to_usize((stream.size - begin).min(CHUNK));
            let mut chunk = stream.decoders.chunk(length);
            let bytes = Arc::get_mut(&mut chunk).and_then(|bytes| bytes.get_mut(skip..)).unwrap_or_default();
            guard.fill(&mut decoder, bytes)?;
            let is_kept = skip == 0 && (number < first + KEPT || number + KEPT >= wanted);
            guard.advance(decoder.output, is_kept.then(|| (number, Arc::clone(&chunk))));
            if number >= wanted {
                let owner = (decoder.output < stream.size).then_some(guard.id);
                stream.decoders.put_back(owner, decoder);
                return Ok(chunk);
            }
            self.reuse(chunk);
            number += 1;
        }
    }

    /// Recycles the memory of an unused chunk. Last chunks of members have various lengths and would take the place
    /// of others.
    fn reuse(&self, chunk: Arc<[u8]>) {
        if chunk.len() as u64 == CHUNK {
            self.stream.decoders.reuse(chunk);
        }
    }

    /// A decoder at a checkpoint. A window from another session is checked first.
    fn seek(&self, checkpoint: &Checkpoint) -> Result<Decoder, ReadError> {
        let mut decoder = self.stream.decoders.seek(&self.stream, checkpoint, INPUT)?;
        if checkpoint.is_proved() {
            return Ok(decoder);
        }
        // 32 KiB later nothing refers to the window any more.
        let until = self.lock().index.joint_from(checkpoint.boundary.output.saturating_add(WINDOW as u64));
        let until = until.unwrap_or_default();
        let mut crc = crc32fast::Hasher::new_with_initial(checkpoint.boundary.crc32);
        let mut buffer = vec![0; WINDOW];
        while decoder.output < until.output {
            let length = usize::try_from(until.output - decoder.output).unwrap_or(WINDOW).min(WINDOW);
            let piece = buffer.get_mut(..length).unwrap_or_default();
            decoder.fill(&self.stream, piece, None)?;
            crc.update(piece);
        }
        if crc.finalize() != until.crc32 {
            return Err(self.stream.damaged("inflates differently than before"));
        }
        checkpoint.prove();
        decoder.seek(&self.stream, checkpoint, INPUT)?;
        Ok(decoder)
    }

    /// Loads the index that another session has stored. Looks for it once.
    fn restore(&self, state: &mut ChunksState) {
        if state.recalled != Recalled::Unknown {
            return;
        }
        let stream = &self.stream;
        let index = (stream.size > CHUNK).then(|| stream.resources.index.get(RecordKind::Stream, &stream.identity));
        let restored = index.flatten().and_then(|index| BlockIndex::restored(&index, stream));
        state.recalled = if restored.is_some() { Recalled::Yes } else { Recalled::No };
        state.index = restored.unwrap_or_default();
        if state.recalled == Recalled::Yes {
            self.account(state);
        }
    }

    /// Whether an error of a decode is final. If an index from another session may be the cause, that index is dropped
    /// together with everything that was decoded with it, and the caller tries again.
    fn is_final(&self, error: &ReadError, id: usize) -> bool {
        if !matches!(error, ReadError::Damaged { .. }) {
            return true;
        }
        let mut state = self.lock();
        if state.id != id {
            return false;
        }
        if state.recalled == Recalled::Yes {
            tracing::warn!("the index of {} is wrong and is built again: {error}", self.stream.entry);
            state.id = new_id(&self.stream);
            state.index = BlockIndex::default();
            state.recalled = Recalled::No;
            return false;
        }
        state.damage = Some(error.clone());
        true
    }
}

#[cfg(test)]
impl Chunks {
    /// The index in its stored form.
    pub(super) fn export(&self) -> Option<StreamIndex> {
        StreamIndex::of(&self.lock().index, &self.stream)
    }

    /// Whether the whole index is in memory.
    pub(super) fn is_complete(&self) -> bool {
        self.lock().index.complete
    }

    /// Makes the index count as this many bytes.
    pub(super) fn account_for(&self, bytes: u64) {
        self.stream.decoders.indexes.account(self.number, &self.this, bytes);
    }

    /// See [`super::loaded_indexes`].
    pub(super) fn number(&self) -> usize {
        self.number
    }

    /// Whether no decode is in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.lock().decodes.is_empty()
    }

    /// Removes all chunks from the cache.
    pub(super) fn forget(&self) {
        let id = self.lock().id;
        (0..self.count()).for_each(|number| self.stream.resources.spans.remove(&key(id, number)));
    }

    /// Offsets of checkpoints.
    pub(super) fn checkpoints(&self) -> Vec<u64> {
        self.lock().index.checkpoints.iter().map(|checkpoint| checkpoint.boundary.output).collect()
    }
}

impl DecodeGuard<'_> {
    /// Decodes the next bytes. Indexes them unless they are indexed already.
    fn fill(&mut self, decoder: &mut Decoder, buffer: &mut [u8]) -> Result<(), ReadError> {
        let start = decoder.output;
        let Chunks { stream, header_end, .. } = self.chunks;
        decoder.fill(stream, buffer, self.builder.as_mut())?;
        // There is one builder at a time.
        if self.builder.as_ref().is_some_and(|builder| !builder.is_indexed(start)) {
            // After an eviction the index is built again from the beginning.
            let before = if start == 0 { 0 } else { header_end.load(Ordering::Relaxed) };
            let end = stream.decoders.headers.observe(self.id, start, buffer, before);
            header_end.store(end, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Publishes progress: everything before `at` is decoded. Puts `made` into the cache and extends the index.
    fn advance(&mut self, at: u64, made: Option<(u64, Arc<[u8]>)>) {
        let stream = &self.chunks.stream;
        let mut state = self.chunks.lock();
        // A cached chunk implies that the index covers it.
        let left = made.and_then(|(number, chunk)| stream.resources.spans.put(key(self.id, number), chunk));
        if let Some(decode) = state.decodes.iter_mut().find(|decode| decode.number == self.number) {
            decode.at = at;
        }
        let mut complete = None;
        let builder = self.builder.as_mut().filter(|_| at > state.index.indexed_to);
        let is_extended = builder.is_some();
        if let Some(builder) = builder {
            state.index.extend(builder, at);
            self.chunks.account(&state);
            complete = StreamIndex::of(&state.index, stream);
            // If it was evicted and built again, the sum is there, and is the same.
            let _ = state.index.sha256().map(|sha256| self.chunks.sha256.set(sha256));
        }
        let bytes = state.index.bytes();
        drop(state);
        self.chunks.progress.notify_all();
        if let Some(chunk) = left {
            self.chunks.reuse(chunk);
        }
        let budget = &stream.resources.budget;
        // Planning will need idle memory again, so it is kept while a stream is being indexed.
        budget.touch();
        if let Some(index) = complete {
            // For the copy, and for the record that is encoded from it.
            let _memory = budget.account(MemoryClass::Streams, 2 * bytes);
            budget.reclaim();
            stream.resources.index.put(RecordKind::Stream, &stream.identity, &index);
        } else if is_extended {
            budget.reclaim();
        }
    }
}

fn new_id(stream: &Stream) -> usize {
    to_usize(stream.resources.next_id())
}

fn key(id: usize, number: u64) -> (usize, usize) {
    (id, to_usize(number))
}
