//! Answers that are being read. What a reader has not come to stays on the way, so that a long answer takes no memory,
//! and comes while the reader is at work.

use std::ops::Range;

use super::client::{MOST_ANSWERS, RangeClient, RangeReader};
use super::error::RemoteProblem;
use super::window::BLOCK;
use crate::rope::to_usize;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, Condvar, Mutex, rank};

/// All answers that are being read.
#[derive(Debug)]
pub(super) struct OpenAnswers {
    /// A block that is to come after this many others is asked for by itself: they would have to be kept.
    ahead: u64,
    /// In the order in which they were read last.
    list: Mutex<Vec<Arc<OpenAnswer>>, { rank::REMOTE }>,
    /// Notified when an answer is no longer read by a thread.
    changed: Condvar,
}

/// An answer that is being read.
#[derive(Debug)]
pub(super) struct OpenAnswer {
    /// The first block that has not come.
    next: AtomicU64,
    /// The blocks that were asked for.
    blocks: Range<u64>,
    ahead: u64,
    /// Held while blocks come.
    reader: Mutex<RangeReader, { rank::ANSWER }>,
}

impl OpenAnswers {
    /// No reader waits for more than `ahead` bytes that others need.
    pub(super) fn new(ahead: u64) -> Self {
        // A request begins and ends inside of blocks.
        Self { ahead: ahead / BLOCK + 2, list: Mutex::default(), changed: Condvar::new() }
    }

    /// What `held` finds of a block, or else has `read` read the answer that the block is to come in. That is one which is
    /// there, or a new one for the blocks that `choose` takes, which receives whether a block is to come. No answer reaches
    /// behind `end`.
    pub(super) fn read<T, E>(
        &self,
        block: u64,
        end: u64,
        held: impl Fn() -> Option<T>,
        choose: impl Fn(&dyn Fn(u64) -> bool) -> Range<u64>,
        read: impl FnOnce(&OpenAnswer) -> Result<(), E>,
    ) -> Result<Option<T>, E> {
        let mut list = self.list.lock();
        let answer = loop {
            if let Some(held) = held() {
                return Ok(Some(held));
            }
            if let Some(found) = list.iter().position(|it| it.is_to_come(block)) {
                let found = list.remove(found);
                list.push(Arc::clone(&found));
                break found;
            }
            // The first one that no thread reads now makes room.
            let idle = list.iter().position(|it| Arc::strong_count(it) == 1).filter(|_| list.len() >= MOST_ANSWERS);
            drop(idle.map(|idle| list.remove(idle)));
            if list.len() < MOST_ANSWERS {
                let blocks = choose(&|block| list.iter().any(|it| it.is_to_come(block)));
                list.push(Arc::new(OpenAnswer::new(blocks, end, self.ahead)));
            } else {
                list = self.changed.wait(list);
            }
        };
        drop(list);
        let result = read(&answer);
        let mut list = self.list.lock();
        if answer.is_read() {
            list.retain(|it| !Arc::ptr_eq(it, &answer));
        }
        // Under the lock, so that no thread begins to wait in between.
        drop(answer);
        self.changed.notify_all();
        drop(list);
        result.map(|()| None)
    }
}

impl OpenAnswer {
    fn new(blocks: Range<u64>, end: u64, ahead: u64) -> Self {
        let range = blocks.start * BLOCK..(blocks.end * BLOCK).min(end);
        Self { next: AtomicU64::new(blocks.start), blocks, ahead, reader: Mutex::new(RangeReader::new(range)) }
    }

    /// Whether a block is one of those that come soon.
    fn is_to_come(&self, block: u64) -> bool {
        let next = self.next.load(Ordering::Acquire);
        (next..self.blocks.end.min(next + self.ahead)).contains(&block)
    }

    fn is_read(&self) -> bool {
        self.next.load(Ordering::Acquire) >= self.blocks.end
    }

    /// Reads to a block, and to the end of the answer if at most `rest` blocks are left then. Passes each block to `take`.
    /// Nothing happens if the block has come.
    pub(super) fn read_to(
        &self,
        client: &RangeClient,
        block: u64,
        rest: u64,
        mut take: impl FnMut(u64, Arc<[u8]>),
    ) -> Result<(), RemoteProblem> {
        let mut reader = self.reader.lock();
        if !self.is_to_come(block) {
            return Ok(());
        }
        let last = if self.blocks.end - block <= rest { self.blocks.end } else { block + 1 };
        for number in self.next.load(Ordering::Acquire)..last {
            let mut bytes = vec![0; to_usize(BLOCK.min(reader.left()))];
            if let Err(problem) = reader.read(client, &mut bytes) {
                // No other thread tries it.
                self.next.store(self.blocks.end, Ordering::Release);
                return Err(problem);
            }
            take(number, bytes.into());
            self.next.store(number + 1, Ordering::Release);
        }
        Ok(())
    }
}
