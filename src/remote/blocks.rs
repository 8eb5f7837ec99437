//! The blocks of a file that are kept, each kind in its own cache. A long binary has tables at its beginning and at its end, which are read
//! again. What is between them takes no room from the blocks of other members.

use std::sync::Arc;

use super::window::{BLOCK, BlockUse};
use crate::memory::{Budget, ByteCache};
use crate::metrics::MemoryClass;

type BlockCache = ByteCache<u64, Arc<[u8]>>;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct KeptBlocks {
    tables: BlockCache,
    last: BlockCache,
    /// Those of binaries that are inflated. Readers come back to what was there lately.
    passing: BlockCache,
}

impl KeptBlocks {
    /// In a room of so many bytes, which the blocks in passing may exceed by a quarter.
    pub(super) fn new(room: u64, budget: &Arc<Budget>) -> Self {
        let blocks = |quarters| ByteCache::bounded(budget, MemoryClass::Spans, room / 4 * quarters);
        Self { tables: blocks(1), last: blocks(3), passing: blocks(1) }
    }

    fn all(&self) -> [&BlockCache; 3] {
        [&self.tables, &self.last, &self.passing]
    }

    /// Bytes of all blocks that can be kept, but for those in passing.
    pub(super) fn room(&self) -> u64 {
        self.tables.capacity() + self.last.capacity()
    }

    pub(super) fn contains(&self, number: u64) -> bool {
        self.all().iter().any(|blocks| blocks.contains(&number))
    }

    pub(super) fn get(&self, number: u64) -> Option<Arc<[u8]>> {
        self.all().iter().find_map(|blocks| blocks.get(&number))
    }

    pub(super) fn keep(&self, number: u64, bytes: Arc<[u8]>, block_use: BlockUse) {
        let blocks = match block_use {
            BlockUse::Tables => &self.tables,
            // What is behind the tables at the beginning, as far as others do not need the room.
            BlockUse::Passing if self.tables.bytes() + BLOCK <= self.tables.capacity() / 2 => &self.tables,
            BlockUse::Passing => &self.passing,
            BlockUse::Other => &self.last,
        };
        blocks.put(number, bytes);
    }
}
