//! Deflating whole contents in blocks, on all cores.
//!
//! The calling thread reads the contents in order, each once, and hashes them. Threads of their own deflate the blocks:
//! they wait for nothing but the disk, so a reader that holds a decoder, and waits for the memory of a block, always
//! proceeds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SendError, SyncSender, sync_channel};
use std::thread;

use parking_lot::Mutex;

use super::batch::{BlockBatch, MadeBlock};
use super::block::{BLOCK, BlockEncoder, DeflateLevel};
use super::blocks::{Blocks, MEMORY, Uncompressed};
use super::change::WINDOW;
use super::error::DeflateError;
use super::stream::DeflatedStream;
use crate::index::RecordKind;
use crate::metrics::MemoryClass;
use crate::resources::Resources;
use crate::rope::{Content, Sha256, tail, to_usize};

/// There is at most one thread for this many bytes of the memory budget, as for bundle jobs.
const MEMORY_PER_THREAD: u64 = 8 << 20;

/// A deflated content.
#[derive(Debug)]
pub struct DeflatedContent {
    /// A raw deflate stream. It may be longer than the content. Its blocks are on disk, or in memory, or made again when
    /// they are read.
    pub stream: Arc<dyn Content>,
    /// CRC-32 of the content.
    pub crc32: u32,
    /// SHA-256 of the content, if it was asked for, and the content was read.
    pub sha256: Option<[u8; 32]>,
}

/// What the work on one content finds out.
#[derive(Default)]
struct Made {
    blocks: Vec<(u64, MadeBlock)>,
    sha256: Option<[u8; 32]>,
}

/// Deflates contents, and returns their streams in the same order. Adds the bytes that were deflated to `done`.
///
/// The bytes of a stream depend on the content and the level only: it is divided into blocks of [`BLOCK`] bytes, and each
/// is primed with the 32 KiB before it. If the index has the lengths of a stream, nothing is read or deflated now, unless
/// an output is about to be written.
///
/// Give it all contents of an output at once, so that all cores have work. Do not call it on a thread of rayon: reading a
/// content may wait for that pool. A gzip file is a rope of its header, the stream, the CRC-32 and the size:
///
/// ```text
/// let layer = Uncompressed { entry: "layer".into(), content: Arc::new(tar), is_hashed: true };
/// let [deflated] = &*deflate(vec![layer], DeflateLevel::default(), &resources, &progress.done)? else { … };
/// // deflated.sha256 is the layer's diff_id, unless the index knew the lengths.
/// let segments = [Segment::literal(HEADER), Segment::whole(Arc::clone(&deflated.stream)), Segment::literal(trailer)];
/// ```
pub fn deflate(
    contents: Vec<Uncompressed>,
    level: DeflateLevel,
    resources: &Arc<Resources>,
    done: &AtomicU64,
) -> Result<Vec<DeflatedContent>, DeflateError> {
    let streams: Vec<_> = contents.into_iter().map(|content| Blocks::new(content, level, resources)).collect();
    let known: Vec<_> = streams.iter().map(known).collect();
    let is_missing = |(_, known): &(_, &Option<_>)| known.is_none();
    let missing: Vec<_> = streams.iter().zip(&known).filter(is_missing).map(|(stream, _)| stream).collect();
    let mut made = make(&missing, level, resources, done)?.into_iter();
    drop(missing);
    let mut deflated = Vec::with_capacity(streams.len());
    for (blocks, known) in streams.into_iter().zip(known) {
        let (crc32, lengths, sha256) = match known {
            Some((crc32, lengths)) => (crc32, lengths, None),
            None => made.next().unwrap_or_default().finish(&blocks),
        };
        deflated.push(DeflatedContent { stream: Arc::new(DeflatedStream::new(blocks, &lengths)), crc32, sha256 });
    }
    Ok(deflated)
}

/// CRC-32 of a content, and the lengths of its blocks, if they are in the index. Before an output is written, all blocks
/// have to be there as well.
fn known(blocks: &Blocks) -> Option<(u32, Vec<u32>)> {
    let resources = &blocks.resources;
    let (crc32, lengths): (u32, Vec<u32>) = resources.index.get(RecordKind::Deflated, &blocks.identity?)?;
    let is_complete = lengths.len() as u64 == blocks.count();
    let is_there = || !resources.store.is_spooling() || (0..blocks.count()).all(|number| blocks.is_kept(number));
    (is_complete && is_there()).then_some((crc32, lengths))
}

impl Made {
    /// CRC-32 of the content, lengths of its blocks, and SHA-256. The first two are recorded.
    fn finish(mut self, of: &Blocks) -> (u32, Vec<u32>, Option<[u8; 32]>) {
        self.blocks.sort_unstable_by_key(|(number, _)| *number);
        let mut crc32 = crc32fast::Hasher::new();
        self.blocks.iter().for_each(|(_, block)| crc32.combine(&block.crc32));
        let crc32 = crc32.finalize();
        let lengths: Vec<_> = self.blocks.iter().map(|(_, block)| block.length).collect();
        if let Some(identity) = &of.identity {
            of.resources.index.put(RecordKind::Deflated, identity, &(crc32, &lengths));
        }
        (crc32, lengths, self.sha256)
    }
}

/// Makes all blocks of these streams.
fn make(
    streams: &[&Blocks],
    level: DeflateLevel,
    resources: &Arc<Resources>,
    done: &AtomicU64,
) -> Result<Vec<Made>, DeflateError> {
    let total: u64 = streams.iter().map(|blocks| blocks.of.content.size()).sum();
    let most = rayon::current_num_threads().min(to_usize(resources.budget.capacity() / MEMORY_PER_THREAD)).max(1);
    // One block needs no other thread.
    let threads = if total <= BLOCK { 0 } else { most.min(to_usize(total.div_ceil(BLOCK))) };
    let made = Mutex::new(streams.iter().map(|_| Made::default()).collect::<Vec<_>>());
    let work = DeflateWork { streams, level, made: &made, failed: &Mutex::new(None), done };
    let (sender, receiver) = sync_channel(threads);
    // Only the threads have it: when all of them have ended, sending fails instead of waiting.
    let receiver = Arc::new(Mutex::new(receiver));
    let read = thread::scope(|scope| {
        for _ in 0..threads {
            let receiver = Arc::clone(&receiver);
            let thread = thread::Builder::new().name("kpackfs-deflate".to_owned());
            // With fewer threads it takes longer.
            if thread.spawn_scoped(scope, move || work.receive(&receiver)).is_err() {
                break;
            }
        }
        drop(receiver);
        let mut reading = Reading { work, sender, batch: BlockBatch::default(), resources };
        let read = streams.iter().enumerate().try_for_each(|(number, blocks)| reading.read(number, blocks));
        read.and_then(|()| reading.send())
    });
    read?;
    work.check()?;
    Ok(made.into_inner())
}

/// What all threads share.
#[derive(Clone, Copy)]
struct DeflateWork<'a> {
    streams: &'a [&'a Blocks],
    level: DeflateLevel,
    made: &'a Mutex<Vec<Made>>,
    /// The first error.
    failed: &'a Mutex<Option<DeflateError>>,
    done: &'a AtomicU64,
}

impl DeflateWork<'_> {
    /// Deflates batches until there are no more.
    fn receive(&self, receiver: &Mutex<Receiver<BlockBatch>>) {
        let mut encoder = BlockEncoder::new(self.level);
        loop {
            let next = receiver.lock().recv();
            let Ok(batch) = next else { return };
            self.deflate(batch, &mut encoder);
        }
    }

    fn deflate(&self, batch: BlockBatch, encoder: &mut BlockEncoder) {
        match batch.deflate(self.streams, encoder) {
            Ok(blocks) => {
                let mut made = self.made.lock();
                for (stream, number, block) in blocks {
                    self.done.fetch_add(block.size, Ordering::Relaxed);
                    if let Some(made) = made.get_mut(stream) {
                        made.blocks.push((number, block));
                    }
                }
            }
            Err(error) => drop(self.failed.lock().get_or_insert(error)),
        }
    }

    /// Fails if a thread has failed.
    fn check(&self) -> Result<(), DeflateError> {
        self.failed.lock().take().map_or(Ok(()), Err)
    }
}

/// The thread that reads.
struct Reading<'a> {
    work: DeflateWork<'a>,
    sender: SyncSender<BlockBatch>,
    /// Blocks that were read and not sent yet: one, or several small ones.
    batch: BlockBatch,
    resources: &'a Resources,
}

impl Reading<'_> {
    /// Reads the blocks of a content.
    fn read(&mut self, stream: usize, blocks: &Blocks) -> Result<(), DeflateError> {
        let mut reader = blocks.of.content.reader(0);
        let mut sha256 = blocks.of.is_hashed.then(Sha256::default);
        let mut history = Vec::new();
        for number in 0..blocks.count() {
            let range = blocks.range(number);
            let size = to_usize(range.end - range.start);
            if !self.batch.has_room(history.len() + size) {
                self.send()?;
            }
            let block = self.batch.add(stream, number, &history, size, blocks.is_last(number));
            reader.read(block)?;
            if let Some(sha256) = &mut sha256 {
                sha256.update(block);
            }
            history.clear();
            history.extend_from_slice(tail(block, size.saturating_sub(to_usize(WINDOW))));
        }
        let Some(sha256) = sha256 else { return Ok(()) };
        self.resources.counters.bytes_hashed.add(blocks.of.content.size());
        if let Some(made) = self.work.made.lock().get_mut(stream) {
            made.sha256 = Some(sha256.finish());
        }
        Ok(())
    }

    /// Passes the batch to a thread. Without threads it is deflated here.
    fn send(&mut self) -> Result<(), DeflateError> {
        self.work.check()?;
        let mut batch = std::mem::take(&mut self.batch);
        if batch.is_empty() {
            return Ok(());
        }
        batch.reserved = Some(self.resources.budget.reserve(MemoryClass::Compression, MEMORY));
        if let Err(SendError(batch)) = self.sender.send(batch) {
            self.work.deflate(batch, &mut BlockEncoder::new(self.work.level));
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "whole_tests.rs"]
mod tests;
