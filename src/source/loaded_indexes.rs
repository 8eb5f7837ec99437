//! The block indexes in memory, in the order of their use. When the budget is short, the least recently used ones are
//! evicted. They are later loaded from the index of the input, or built again.

use std::fmt;

use lru::LruCache;

use crate::memory::{Budget, Reclaim, Reservation};
use crate::metrics::MemoryClass;
use crate::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, rank};

/// Indexes are not evicted while all of them together take less than the larger of these: the budget divided by
/// `GUARANTEED_PART`, and `GUARANTEED` bytes.
const GUARANTEED_PART: u64 = 16;
const GUARANTEED: u64 = 1 << 20;

/// Bytes of an entry of the list, including the list's own.
const ENTRY: u64 = 160;

/// A member whose block index can be evicted.
pub(super) trait EvictIndex: fmt::Debug + Send + Sync {
    /// Drops the index, and removes the member from the list. `false` if the index is in use.
    fn evict_index(&self) -> bool;
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct LoadedIndexes {
    budget: Arc<Budget>,
    state: Mutex<LoadedState, { rank::INDEXES }>,
}

#[derive(Debug)]
struct LoadedState {
    /// By number of the member.
    entries: LruCache<usize, LoadedEntry>,
    bytes: u64,
}

#[derive(Debug)]
struct LoadedEntry {
    member: Weak<dyn EvictIndex>,
    memory: Reservation,
    used: u64,
}

impl LoadedIndexes {
    pub(super) fn new(budget: &Arc<Budget>) -> Arc<Self> {
        let state = LoadedState { entries: LruCache::unbounded(), bytes: 0 };
        Arc::new(Self { budget: Arc::clone(budget), state: Mutex::new(state) })
    }

    fn lock(&self) -> MutexGuard<'_, LoadedState, { rank::INDEXES }> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a use of a member's index.
    pub(super) fn touch(&self, number: usize) {
        if let Some(entry) = self.lock().entries.get_mut(&number) {
            entry.used = self.budget.now();
        }
    }

    /// Sets the bytes of a member's index.
    pub(super) fn account(&self, number: usize, member: &Weak<dyn EvictIndex>, bytes: u64) {
        let bytes = bytes + ENTRY;
        let used = self.budget.now();
        let mut state = self.lock();
        let before = if let Some(entry) = state.entries.get_mut(&number) {
            let before = entry.memory.bytes();
            entry.memory.resize(bytes);
            entry.used = used;
            before
        } else {
            let memory = self.budget.account(MemoryClass::Streams, bytes);
            state.entries.put(number, LoadedEntry { member: Weak::clone(member), memory, used });
            0
        };
        state.bytes = state.bytes - before + bytes;
    }

    /// Removes a member, or its index, from the list.
    pub(super) fn remove(&self, number: usize) {
        let mut state = self.lock();
        if let Some(entry) = state.entries.pop(&number) {
            state.bytes -= entry.memory.bytes();
        }
    }
}

impl Reclaim for LoadedIndexes {
    fn purpose(&self) -> MemoryClass {
        MemoryClass::Streams
    }

    fn oldest(&self) -> Option<u64> {
        let state = self.lock();
        let is_reclaimable = state.bytes > GUARANTEED.max(self.budget.capacity() / GUARANTEED_PART);
        state.entries.peek_lru().filter(|_| is_reclaimable).map(|(_, entry)| entry.used)
    }

    fn reclaim(&self) -> bool {
        let mut state = self.lock();
        let oldest = state.entries.peek_lru().map(|(number, entry)| (*number, entry.member.upgrade()));
        let Some((number, member)) = oldest else { return false };
        // A member that is in use now counts as used last.
        state.entries.promote(&number);
        drop(state);
        // The member removes itself from the list.
        member.is_some_and(|member| member.evict_index())
    }

    /// Indexes are kept when idle: building one again takes as long as inflating the member.
    fn leaves_when_idle(&self) -> bool {
        false
    }
}
