//! The blocks of a file that are kept: those with the tables of binaries, and those that were used last. A long binary has tables at
//! its beginning and at its end, which are read again. What is between them takes no room from the blocks of other members.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::window::{BLOCK, BlockUse};
use crate::memory::{ByteCache, Reservation};
use crate::metrics::MemoryClass;
use crate::resources::Resources;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct KeptBlocks {
    tables: Mutex<TableBlocks>,
    last: ByteCache<u64, Arc<[u8]>>,
    /// The last ones of binaries that are inflated when `last` is full: readers come back to one at most.
    passing: ByteCache<u64, Arc<[u8]>>,
    resources: Arc<Resources>,
}

#[derive(Debug)]
struct TableBlocks {
    blocks: HashMap<u64, Arc<[u8]>>,
    memory: Reservation,
}

impl KeptBlocks {
    /// In a room of so many bytes, of which tables have at most half.
    pub(super) fn new(room: u64, resources: &Arc<Resources>) -> Self {
        let memory = resources.budget.account(MemoryClass::Spans, 0);
        let tables = Mutex::new(TableBlocks { blocks: HashMap::new(), memory });
        let last = ByteCache::bounded(&resources.budget, MemoryClass::Spans, room);
        let passing = ByteCache::bounded(&resources.budget, MemoryClass::Spans, room / 16);
        Self { tables, last, passing, resources: Arc::clone(resources) }
    }

    /// Bytes of all blocks that can be kept.
    pub(super) fn room(&self) -> u64 {
        self.last.capacity()
    }

    pub(super) fn contains(&self, number: u64) -> bool {
        let others = [&self.last, &self.passing];
        self.tables.lock().blocks.contains_key(&number) || others.iter().any(|blocks| blocks.contains(&number))
    }

    pub(super) fn get(&self, number: u64) -> Option<Arc<[u8]>> {
        let held = self.tables.lock().blocks.get(&number).map(Arc::clone);
        held.or_else(|| self.last.get(&number)).or_else(|| self.passing.get(&number))
    }

    pub(super) fn keep(&self, number: u64, bytes: Arc<[u8]>, block_use: BlockUse) {
        let mut tables = self.tables.lock();
        let after = tables.memory.bytes() + BLOCK;
        if block_use != BlockUse::Tables || after > self.room() / 2 {
            drop(tables);
            let is_full = self.last.bytes() + BLOCK > self.room();
            let others = if is_full && block_use == BlockUse::Passing { &self.passing } else { &self.last };
            others.put(number, bytes);
            return;
        }
        tables.blocks.insert(number, bytes);
        tables.memory.resize(after);
        drop(tables);
        self.resources.budget.reclaim();
    }
}
