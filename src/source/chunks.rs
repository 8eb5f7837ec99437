//! The content of a deflated member, cut into chunks that are decoded when somebody asks for them.
//!
//! A *run* is a decoder at work: from where an idle one stands, or from a checkpoint, up to the end of the chunk that is
//! wanted. Whoever needs what a run is about to make waits for it. Only one run at a time goes on beyond what is known,
//! so that everything is learnt in one pass.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::block_index::{BlockIndex, Checkpoint, Growth};
use super::decoder::{Decoder, INPUT, Stream};
use super::inflate::WINDOW;
use super::landmarks::Landmarks;
use super::stream_index::StreamIndex;
use crate::index::Kind;
use crate::rope::{Joint, ReadError};

/// Chunks begin at multiples of this. Small ones are made soon and stay in the processor's cache.
pub(super) const CHUNK: u64 = 256 << 10;

/// So many of the first and of the last chunks that are decoded on the way to another are kept: sections that are looked at
/// together lie together, though not in that order. More would drive out what others are about to read.
const KEPT: u64 = 4;

/// Who has waited for others so often does the work itself: with no room in the cache, others' work may be of no use.
const MOST_WAITS: usize = 64;

/// A stream's chunks and what is known about it.
#[derive(Debug)]
pub(super) struct Chunks {
    pub(super) stream: Stream,
    pub(super) landmarks: Landmarks,
    /// Held for look-ups and updates, never while decoding.
    state: Mutex<State>,
    /// Tells that a run has come further, or has ended.
    progress: Condvar,
}

#[derive(Debug)]
struct State {
    /// First half of the keys in the cache, and the owner of the decoders.
    id: usize,
    index: BlockIndex,
    /// Whether `index` came, or could have come, from another session.
    recalled: Recalled,
    runs: Vec<Run>,
    /// Number of runs that have begun.
    begun: u64,
    /// Why nothing can be read.
    damage: Option<ReadError>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recalled {
    /// Nobody has looked.
    Unknown,
    /// `index` is of another session.
    Yes,
    /// `index` is of this session.
    No,
}

/// A decoder at work.
#[derive(Debug)]
struct Run {
    number: u64,
    /// It has come this far.
    at: u64,
    /// It will come this far.
    end: u64,
}

/// Where a run begins.
enum Start {
    Standing(Decoder),
    Entering(Arc<Checkpoint>),
}

/// What there is to do for a chunk.
enum Task<'a> {
    Nothing(Arc<[u8]>),
    Decode(Work<'a>, Start),
}

/// The run's entry in the list, for as long as it lasts.
struct Work<'a> {
    chunks: &'a Chunks,
    id: usize,
    number: u64,
    /// For a run that goes beyond what is known.
    growth: Option<Growth>,
}

impl Drop for Work<'_> {
    fn drop(&mut self) {
        self.chunks.lock().runs.retain(|run| run.number != self.number);
        self.chunks.progress.notify_all();
    }
}

impl Chunks {
    pub(super) fn new(stream: Stream) -> Self {
        let state = State {
            id: new_id(&stream),
            index: BlockIndex::default(),
            recalled: Recalled::Unknown,
            runs: Vec::new(),
            begun: 0,
            damage: None,
        };
        Self { stream, landmarks: Landmarks::default(), state: Mutex::new(state), progress: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is consistent after every statement, so a panic elsewhere does not spoil it.
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

    /// A chunk; it is decoded if it is not in the cache.
    pub(super) fn get(&self, number: u64) -> Result<Arc<[u8]>, ReadError> {
        loop {
            let (work, start) = match self.task(number)? {
                Task::Nothing(chunk) => return Ok(chunk),
                Task::Decode(work, start) => (work, start),
            };
            let id = work.id;
            match self.decode(work, start, number) {
                Ok(chunk) => return Ok(chunk),
                Err(error) if self.is_final(&error, id) => return Err(error),
                Err(_) => {}
            }
        }
    }

    /// All joints. What nobody has read yet is decoded.
    pub(super) fn joints(&self) -> Result<Arc<[Joint]>, ReadError> {
        let mut state = self.lock();
        self.recall(&mut state);
        if let Some(last) = self.count().checked_sub(1).filter(|_| !state.index.complete) {
            drop(state);
            self.get(last)?;
            state = self.lock();
        }
        Ok(state.index.joints.as_slice().into())
    }

    /// Why nothing can be read, if that is known.
    pub(super) fn damage(&self) -> Result<(), ReadError> {
        self.lock().damage.clone().map_or(Ok(()), Err)
    }

    /// Finds out who makes a chunk, and waits if it is somebody else.
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
            self.recall(&mut state);
            let known = state.index.known;
            let checkpoint = state.index.checkpoint(start.min(known));
            let near = checkpoint.joint.output..=start.min(known);
            let standing = self.stream.decoders.nearest(id, &near);
            // One that passes the checkpoint with its next chunk is worth waiting for, too.
            let coming = checkpoint.joint.output.saturating_sub(CHUNK)..=*near.end();
            let running = state.runs.iter().map(|run| run.at).filter(|at| coming.contains(at)).max();
            let must_wait = end > known && state.runs.iter().any(|run| run.end > known);
            if must_wait || (running > standing && waits < MOST_WAITS) {
                waits += 1;
                state = self.progress.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let decoder = standing.and_then(|output| self.stream.decoders.take(id, output));
            let start = decoder.map_or(Start::Entering(checkpoint), Start::Standing);
            let at = match &start {
                Start::Standing(decoder) => decoder.output,
                Start::Entering(checkpoint) => checkpoint.joint.output,
            };
            state.begun += 1;
            let number = state.begun;
            state.runs.push(Run { number, at, end });
            let growth = (end > known).then(|| state.index.growth());
            return Ok(Task::Decode(Work { chunks: self, id, number, growth }, start));
        }
    }

    /// Decodes up to the end of a chunk and returns that.
    fn decode(&self, mut work: Work<'_>, start: Start, wanted: u64) -> Result<Arc<[u8]>, ReadError> {
        let stream = &self.stream;
        let mut decoder = match start {
            Start::Standing(decoder) => decoder,
            Start::Entering(checkpoint) => self.enter(&checkpoint)?,
        };
        let first = decoder.output / CHUNK;
        let mut number = first;
        loop {
            let begin = number * CHUNK;
            let skip = usize::try_from(decoder.output - begin).unwrap_or(usize::MAX);
            let length = usize::try_from((stream.size - begin).min(CHUNK)).unwrap_or(usize::MAX);
            let mut chunk = stream.decoders.chunk(length);
            let bytes = Arc::get_mut(&mut chunk).and_then(|bytes| bytes.get_mut(skip..)).unwrap_or_default();
            work.fill(&mut decoder, bytes)?;
            let is_kept = skip == 0 && (number < first + KEPT || number + KEPT >= wanted);
            work.advance(decoder.output, is_kept.then(|| (number, Arc::clone(&chunk))));
            if number >= wanted {
                let owner = (decoder.output < stream.size).then_some(work.id);
                stream.decoders.put_back(owner, decoder);
                return Ok(chunk);
            }
            self.reuse(chunk);
            number += 1;
        }
    }

    /// Does without a chunk. Those at the end of a member are of all lengths, and would stand in the way of others.
    fn reuse(&self, chunk: Arc<[u8]>) {
        if chunk.len() as u64 == CHUNK {
            self.stream.decoders.reuse(chunk);
        }
    }

    /// A decoder at a checkpoint. If the window is of another session, it is tried out first.
    fn enter(&self, checkpoint: &Checkpoint) -> Result<Decoder, ReadError> {
        let mut decoder = self.stream.decoders.enter(&self.stream, checkpoint, INPUT)?;
        if checkpoint.is_proved() {
            return Ok(decoder);
        }
        // After 32 KiB nothing refers to the window any more.
        let until = self.lock().index.joint_from(checkpoint.joint.output.saturating_add(WINDOW as u64));
        let until = until.unwrap_or_default();
        let mut crc = crc32fast::Hasher::new_with_initial(checkpoint.joint.crc32);
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
        decoder.enter(&self.stream, checkpoint, INPUT)?;
        Ok(decoder)
    }

    /// Looks, once, whether another session has left an index.
    fn recall(&self, state: &mut State) {
        if state.recalled != Recalled::Unknown {
            return;
        }
        let stream = &self.stream;
        let index = (stream.size > CHUNK).then(|| stream.resources.memory.recall(Kind::Stream, &stream.identity));
        let restored = index.flatten().and_then(|index| BlockIndex::restored(&index, stream));
        state.recalled = if restored.is_some() { Recalled::Yes } else { Recalled::No };
        state.index = restored.unwrap_or_default();
    }

    /// Whether there is nothing to be done about a failure of a run. If it may be because of another session's index, that
    /// is forgotten, with all that was made with it.
    fn is_final(&self, error: &ReadError, id: usize) -> bool {
        if !matches!(error, ReadError::Damaged { .. }) {
            return true;
        }
        let mut state = self.lock();
        if state.id != id {
            return false;
        }
        if state.recalled == Recalled::Yes {
            tracing::warn!("what the index says about {} is wrong and made anew: {error}", self.stream.entry);
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
    /// What another session can make use of.
    pub(super) fn export(&self) -> Option<StreamIndex> {
        StreamIndex::of(&self.lock().index, &self.stream)
    }

    /// Whether no run is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.lock().runs.is_empty()
    }

    /// Takes all chunks out of the cache.
    pub(super) fn forget(&self) {
        let id = self.lock().id;
        (0..self.count()).for_each(|number| self.stream.resources.spans.remove(&key(id, number)));
    }

    /// Where decoding can start.
    pub(super) fn checkpoints(&self) -> Vec<u64> {
        self.lock().index.checkpoints.iter().map(|checkpoint| checkpoint.joint.output).collect()
    }
}

impl Work<'_> {
    /// Decodes the next bytes, and learns what they are like unless that is known.
    fn fill(&mut self, decoder: &mut Decoder, buffer: &mut [u8]) -> Result<(), ReadError> {
        let start = decoder.output;
        decoder.fill(&self.chunks.stream, buffer, self.growth.as_mut())?;
        if self.growth.is_some() {
            self.chunks.landmarks.look(start, buffer);
        }
        Ok(())
    }

    /// Tells that everything before `at` is decoded, and puts the chunk that ends there into the cache.
    fn advance(&mut self, at: u64, made: Option<(u64, Arc<[u8]>)>) {
        let stream = &self.chunks.stream;
        let mut state = self.chunks.lock();
        // Who finds the chunk may take it for granted that what was learnt on the way to it is known.
        let left = made.and_then(|(number, chunk)| stream.resources.spans.put(key(self.id, number), chunk));
        if let Some(run) = state.runs.iter_mut().find(|run| run.number == self.number) {
            run.at = at;
        }
        let mut learnt = None;
        if let Some(growth) = self.growth.as_mut().filter(|_| at > state.index.known) {
            state.index.grow(growth, at);
            learnt = StreamIndex::of(&state.index, stream);
        }
        drop(state);
        self.chunks.progress.notify_all();
        if let Some(chunk) = left {
            self.chunks.reuse(chunk);
        }
        if let Some(index) = learnt {
            stream.resources.memory.learn(Kind::Stream, &stream.identity, &index);
        }
    }
}

fn new_id(stream: &Stream) -> usize {
    usize::try_from(stream.resources.next_id()).unwrap_or(usize::MAX)
}

fn key(id: usize, number: u64) -> (usize, usize) {
    (id, usize::try_from(number).unwrap_or(usize::MAX))
}
