//! A decode in flight, as the thread that runs it has it.

use super::{Chunks, DecodeError, Decoder, IndexBuilder, MemoryClass, RecordKind, Stops, StreamIndex, key};
use crate::sync::Arc;
use crate::sync::atomic::Ordering;

/// Keeps a decode in the list, and removes it on drop.
pub(super) struct DecodeGuard<'a> {
    pub(super) chunks: &'a Chunks,
    pub(super) id: usize,
    pub(super) number: u64,
    /// The content up to here can be read.
    pub(super) readable: u64,
    /// Whether the rest is known to be damaged.
    pub(super) is_damaged: bool,
    /// Set if the decode extends the index.
    pub(super) builder: Option<Box<IndexBuilder>>,
}

impl Drop for DecodeGuard<'_> {
    fn drop(&mut self) {
        self.chunks.state.lock().decodes.retain(|decode| decode.number != self.number);
        self.chunks.progress.notify_all();
    }
}

impl DecodeGuard<'_> {
    /// Decodes the next bytes. Indexes them unless they are indexed already.
    pub(super) fn fill(&mut self, decoder: &mut Decoder, buffer: &mut [u8]) -> Result<(), DecodeError> {
        let start = decoder.output;
        let filled = self.decode(decoder, buffer);
        self.chunks.inflated.fetch_add(decoder.output - start, Ordering::Relaxed);
        filled
    }

    fn decode(&mut self, decoder: &mut Decoder, buffer: &mut [u8]) -> Result<(), DecodeError> {
        let start = decoder.output;
        let Chunks { stream, decoders, header_end, .. } = self.chunks;
        let Some(builder) = &mut self.builder else { return decoder.fill(stream, buffer, Stops::Never, None) };
        let mut observe = |decoder: &Decoder, piece: &[u8], place| builder.observe(stream, decoder, piece, place);
        decoder.fill(stream, buffer, Stops::AtBlocks, Some(&mut observe))?;
        // There is one builder at a time.
        if start >= builder.indexed_to {
            let before = header_end.load(Ordering::Relaxed);
            let find = stream.resources.policy.find;
            let found = find.map(|find| self.chunks.found.lock().observe(start, buffer, find)).unwrap_or_default();
            let end = decoders.headers.observe(self.id, start, buffer, before, &found);
            header_end.store(end, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Publishes progress: everything before `at` is decoded. Puts `made` into the cache and extends the index.
    pub(super) fn advance(&mut self, at: u64, made: Option<(u64, Arc<[u8]>)>) {
        let stream = &self.chunks.stream;
        let mut state = self.chunks.state.lock();
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
            self.chunks.is_passed.fetch_or(state.index.complete, Ordering::Relaxed);
            // If the member was closed and is indexed again, the same sum is set already.
            let _ = state.index.sha256().map(|sha256| self.chunks.sha256.set(sha256));
        }
        let bytes = state.index.bytes();
        drop(state);
        self.chunks.progress.notify_all();
        if let Some(chunk) = left {
            self.chunks.decoders.reuse(chunk);
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
