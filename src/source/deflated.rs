//! Random access inside a raw deflate stream, and readahead for sequential readers.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::checkpoint::Checkpoint;
use super::chunks::Chunks;
use super::damage::{StreamDamage, UnreadableContent};
use super::decoder::INPUT;
use super::decoders::{CHUNK, Decoders};
use super::facts::MemberFacts;
use super::inflate::Stops;
use super::open_members::ListedMember;
use super::stream::Stream;
use crate::rope::{
    BlockBoundary, Content, Identity, Packed, PackedContent, ReadError, check_range, copy_from, to_usize,
};
use crate::sync::atomic::Ordering;
use crate::sync::{Arc, Mutex, rank};

/// Compressed bytes read at a time for the first bytes of a member.
const PEEK_INPUT: usize = 4 << 10;

/// Chunks that are decoded ahead of a reader. They are few enough to stay in the processor's cache until they are read,
/// and enough to even out ranges that take longer to decode.
const AHEAD: u64 = 16;

/// Readahead begins after this many bytes were read sequentially.
const STEADY: u64 = 512 << 10;

/// The kernel's readahead requests can overtake each other by this many bytes.
const OVERTAKING: u64 = 512 << 10;

/// The most sequential readers of one member, such as programs that read it at different places at the same time.
const READERS: usize = 8;

/// The content of a deflated member.
#[derive(Debug)]
pub(super) struct Deflated {
    chunks: Arc<Chunks>,
    /// Sequential readers, in the order of their last reads. A reader is recognized by its offset, since requests do not
    /// say from which open file they come once the content is shared by several names or made files.
    readers: Mutex<Vec<Arc<Reader>>, { rank::READERS }>,
}

type Reader = Mutex<SequentialReader, { rank::READER }>;

/// The state of one sequential reader of a member.
#[derive(Debug, Default)]
struct SequentialReader {
    /// Where the first read of the current sequential run ended (0 if it began near 0), and how far the run has come.
    from: u64,
    to: u64,
    /// The next chunk to decode ahead, and the first chunk not to decode.
    next: u64,
    end: u64,
    /// Whether a readahead task is running.
    is_served: bool,
}

impl Deflated {
    /// The content into which `stream` inflates.
    pub(super) fn new(stream: Stream, decoders: Arc<Decoders>, listed: ListedMember, facts: MemberFacts) -> Self {
        Self { chunks: Chunks::new(stream, decoders, listed, facts), readers: Mutex::default() }
    }

    /// What is known about the content. `None` while readahead is running.
    pub(super) fn idle_facts(&self) -> Option<MemberFacts> {
        if Arc::strong_count(&self.chunks) == 1 { self.chunks.facts() } else { None }
    }

    fn stream(&self) -> &Stream {
        &self.chunks.stream
    }

    /// The reader that has come to this place, or a new one.
    fn reader_at(&self, offset: u64) -> Arc<Reader> {
        let mut readers = self.readers.lock();
        let is_near = |reader: &Arc<Reader>| offset.abs_diff(reader.lock().to) <= OVERTAKING;
        let found = readers.iter().rposition(is_near).or((readers.len() >= READERS).then_some(0));
        let reader = found.map_or_else(Arc::default, |found| readers.remove(found));
        readers.push(Arc::clone(&reader));
        reader
    }

    /// Records a read, and starts readahead if the reader is likely to continue.
    fn on_read(&self, offset: u64, end: u64) {
        let of_place = self.reader_at(offset);
        let mut reader = of_place.lock();
        if offset.abs_diff(reader.to) > OVERTAKING {
            (reader.from, reader.to) = (end, end);
        }
        reader.to = reader.to.max(end);
        let resources = &self.stream().resources;
        let served = &self.chunks.decoders.ahead;
        // Readahead must not evict chunks that were decoded ahead and have not been read yet, for this reader or
        // another.
        let room = resources.spans.capacity() / CHUNK / 4 / (served.load(Ordering::Relaxed) as u64).max(1);
        let ahead = room.min(AHEAD);
        let after = reader.to.div_ceil(CHUNK);
        // The last chunk completes the pass that compares the CRC-32. Only demands do that: if it is wrong, nothing of the
        // member can be read from then on.
        let end = after.saturating_add(ahead).min(self.chunks.count().saturating_sub(1));
        // Waking a thread for a single chunk would cost more than it gains.
        if reader.to - reader.from < STEADY || after >= end || ahead < 2 {
            return;
        }
        if !(after..=after.saturating_add(AHEAD)).contains(&reader.next) {
            reader.next = after;
        }
        // The window moves in large steps, unless the task is running anyway. Then the task is not kept waiting: the
        // next chunks may take longer to decode than to read.
        if reader.is_served || end.saturating_sub(reader.next) >= ahead.div_ceil(4) {
            reader.end = end;
        }
        if !reader.is_served && reader.next < reader.end {
            reader.is_served = true;
            served.fetch_add(1, Ordering::Relaxed);
            let service = ReadaheadTask { chunks: Arc::clone(&self.chunks), reader: Arc::clone(&of_place) };
            drop(reader);
            if !resources.executor.run_in_background(move || service.run()) {
                of_place.lock().is_served = false;
                served.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

/// Decodes the first bytes of a stream, and caches nothing.
pub(super) fn peek(stream: &Stream, decoders: &Decoders, buffer: &mut [u8]) -> Result<(), ReadError> {
    check_range(0, buffer.len(), stream.size)?;
    if buffer.is_empty() {
        return Ok(());
    }
    let _permit = decoders.permit();
    let input = if buffer.len() > PEEK_INPUT { INPUT } else { PEEK_INPUT };
    let mut decoder = decoders.seek(stream, &Checkpoint::default(), input)?;
    decoder.fill(stream, buffer, Stops::Never, None).map_err(|failed| failed.error)?;
    decoders.put_back(None, decoder, None);
    Ok(())
}

/// Decodes chunks ahead of a reader.
struct ReadaheadTask {
    chunks: Arc<Chunks>,
    reader: Arc<Reader>,
}

impl ReadaheadTask {
    fn run(self) {
        loop {
            let mut reader = self.reader.lock();
            // Chunks that the reader has passed already are skipped.
            let number = reader.next.max(reader.to / CHUNK);
            if number >= reader.end {
                // Under the same lock, so that a reader that sees `is_served` is really served.
                reader.is_served = false;
                self.chunks.decoders.ahead.fetch_sub(1, Ordering::Relaxed);
                return;
            }
            reader.next = number + 1;
            drop(reader);
            // The reader will meet the same error or panic.
            let decoded = catch_unwind(AssertUnwindSafe(|| self.chunks.get(number)));
            if !matches!(decoded, Ok(Ok(_))) {
                self.reader.lock().end = 0;
            }
        }
    }
}

impl Content for Deflated {
    fn size(&self) -> u64 {
        self.stream().size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        check_range(offset, buffer.len(), self.size())?;
        self.chunks.check(offset.saturating_add(buffer.len() as u64))?;
        if self.chunks.read_header(offset, buffer) {
            return Ok(());
        }
        let mut at = offset;
        let mut rest = buffer;
        while !rest.is_empty() {
            let chunk = self.chunks.get(at / CHUNK)?;
            let skip = at % CHUNK;
            let here = to_usize(CHUNK - skip).min(rest.len());
            let (piece, after) = rest.split_at_mut(here);
            at += here as u64;
            self.chunks.check(at)?;
            copy_from(&chunk, skip, piece)?;
            rest = after;
        }
        self.on_read(offset, at);
        Ok(())
    }

    fn peek(&self, buffer: &mut [u8]) -> Result<(), ReadError> {
        check_range(0, buffer.len(), self.size())?;
        if buffer.len() as u64 > CHUNK {
            return self.read_at(0, buffer);
        }
        self.chunks.check(buffer.len() as u64)?;
        match self.chunks.cached(0) {
            Some(chunk) => copy_from(&chunk, 0, buffer),
            None => peek(self.stream(), &self.chunks.decoders, buffer),
        }
    }

    fn is_nonblocking(&self, offset: u64, length: usize) -> bool {
        let end = offset.saturating_add(length as u64);
        if self.chunks.check(end).is_err() {
            return true;
        }
        let end = end.div_ceil(CHUNK);
        (offset / CHUNK..end).all(|number| self.chunks.cached(number).is_some())
    }

    fn identity(&self) -> Option<Identity> {
        Some(self.stream().identity)
    }

    fn found(&self, range: &Range<u64>) -> Option<Vec<u64>> {
        self.chunks.found.lock().within(range)
    }

    fn inflated(&self) -> u64 {
        self.chunks.inflated.load(Ordering::Relaxed)
    }

    fn check(&self) -> Result<(), ReadError> {
        self.chunks.check_all()
    }

    fn member(&self) -> Option<&dyn PackedContent> {
        Some(self)
    }
}

impl PackedContent for Deflated {
    fn packed(&self) -> Packed {
        let stream = self.stream();
        let bytes: Arc<dyn Content> = match self.chunks.damage() {
            None => Arc::clone(&stream.packed),
            // Damaged data is not passed on in its compressed form.
            Some(StreamDamage { error, .. }) => Arc::new(UnreadableContent { size: stream.packed.size(), error }),
        };
        Packed { bytes, deflated: true, crc32: stream.crc32 }
    }

    fn sha256(&self) -> Result<Option<[u8; 32]>, ReadError> {
        self.chunks.sha256()
    }

    fn block_boundaries(&self) -> Result<Option<Arc<[BlockBoundary]>>, ReadError> {
        self.chunks.block_boundaries().map(Some)
    }
}

#[cfg(test)]
impl Deflated {
    /// The index in its stored form.
    pub(super) fn export(&self) -> Option<super::stream_index::StreamIndex> {
        self.chunks.export()
    }
}

#[cfg(test)]
#[path = "deflated_tests.rs"]
pub(super) mod tests;
