//! What is remembered: work counters and byte-budgeted caches, shared by everything that reads one input.

mod cache;
mod counters;
mod folder;
mod keeper;
mod memory;
mod records;
mod requests;
mod store;
mod workers;

use std::sync::Arc;

pub use cache::{ByteCache, Weight};
pub use counters::{Counter, Counters};
pub use folder::{Kept, list};
pub use keeper::keep;
pub use memory::{Kind, Memory};
pub use records::RecordsError;
pub use requests::{Answering, Begun, RequestKind, Requests};
pub use store::{Store, clear};
pub use workers::Workers;

/// What all work on one input shares.
#[derive(Debug)]
pub struct Resources {
    /// What the work cost so far.
    pub counters: Counters,
    /// Inflated spans of wheel members, by member number and span number.
    pub spans: ByteCache<(usize, usize), Arc<[u8]>>,
    /// Decompressed offload bundles, by the number given by [`Resources::next_id`].
    pub bundles: ByteCache<u64, Arc<Vec<u8>>>,
    /// Compressed code objects, by the number given by [`Resources::next_id`].
    pub frames: ByteCache<u64, Arc<Vec<u8>>>,
    /// What was learnt about the input in this session and others.
    pub memory: Memory,
    /// Threads for work that nobody should wait for on a thread that others need.
    pub workers: Workers,
    ids: Counter,
}

impl Resources {
    /// Caches that hold about `budget` bytes together, and no memory of other sessions.
    pub fn new(budget: u64) -> Arc<Self> {
        Self::with_memory(budget, Memory::default())
    }

    /// Caches that hold about `budget` bytes together.
    pub fn with_memory(budget: u64, memory: Memory) -> Arc<Self> {
        Arc::new(Self {
            counters: Counters::default(),
            spans: ByteCache::new(budget / 16),
            bundles: ByteCache::new(budget / 16 * 7),
            frames: ByteCache::new(budget / 2),
            memory,
            workers: Workers::default(),
            ids: Counter::default(),
        })
    }

    /// A number that nobody else has, to serve as a cache key.
    pub fn next_id(&self) -> u64 {
        self.ids.add(1)
    }
}
