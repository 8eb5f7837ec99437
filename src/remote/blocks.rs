//! The blocks of a file that are kept: the first ones that come, and those that were used last. A binary has tables at its
//! beginning and at its end, and a long one is read again from its beginning, of which the last ones would have nothing.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::window::BLOCK;
use crate::memory::{ByteCache, Reservation};
use crate::metrics::MemoryClass;
use crate::resources::Resources;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct KeptBlocks {
    first: Mutex<FirstBlocks>,
    last: ByteCache<u64, Arc<[u8]>>,
    resources: Arc<Resources>,
}

#[derive(Debug)]
struct FirstBlocks {
    blocks: HashMap<u64, Arc<[u8]>>,
    memory: Reservation,
}

impl KeptBlocks {
    /// In a room of so many bytes, half of it for each kind.
    pub(super) fn new(room: u64, resources: &Arc<Resources>) -> Self {
        let memory = resources.budget.account(MemoryClass::Spans, 0);
        let first = Mutex::new(FirstBlocks { blocks: HashMap::new(), memory });
        let last = ByteCache::bounded(&resources.budget, MemoryClass::Spans, room / 2);
        Self { first, last, resources: Arc::clone(resources) }
    }

    /// Bytes of all blocks that can be kept.
    pub(super) fn room(&self) -> u64 {
        self.last.capacity() * 2
    }

    pub(super) fn contains(&self, number: u64) -> bool {
        self.first.lock().blocks.contains_key(&number) || self.last.contains(&number)
    }

    pub(super) fn get(&self, number: u64) -> Option<Arc<[u8]>> {
        let first = self.first.lock().blocks.get(&number).map(Arc::clone);
        first.or_else(|| self.last.get(&number))
    }

    pub(super) fn keep(&self, number: u64, bytes: Arc<[u8]>) {
        let mut first = self.first.lock();
        let after = first.memory.bytes() + BLOCK;
        if after > self.last.capacity() {
            drop(first);
            self.last.put(number, bytes);
            return;
        }
        first.blocks.insert(number, bytes);
        first.memory.resize(after);
        drop(first);
        self.resources.budget.reclaim();
    }
}
