//! The block indexes that are in memory, in the order of their use. When the budget is short, those that nobody has used
//! for the longest time leave. They are recalled from the index of the input, or built again.

use lru::LruCache;

use super::chunks::Chunks;
use crate::memory::{Budget, Reclaim, Reservation};
use crate::metrics::MemoryClass;
use crate::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Indexes do not leave as long as all of them take less than this part of the budget, or so many bytes.
const GUARANTEED_PART: u64 = 16;
const GUARANTEED: u64 = 1 << 20;

/// Bytes of an entry of the list, with those of the list itself.
const ENTRY: u64 = 160;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct LoadedIndexes {
    budget: Arc<Budget>,
    state: Mutex<LoadedState>,
}

#[derive(Debug)]
struct LoadedState {
    /// By the number of the member.
    entries: LruCache<usize, LoadedEntry>,
    bytes: u64,
}

#[derive(Debug)]
struct LoadedEntry {
    member: Weak<Chunks>,
    memory: Reservation,
    used: u64,
}

impl LoadedIndexes {
    pub(super) fn new(budget: &Arc<Budget>) -> Arc<Self> {
        let state = LoadedState { entries: LruCache::unbounded(), bytes: 0 };
        Arc::new(Self { budget: Arc::clone(budget), state: Mutex::new(state) })
    }

    fn lock(&self) -> MutexGuard<'_, LoadedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The index of a member has been used.
    pub(super) fn touch(&self, number: usize) {
        if let Some(entry) = self.lock().entries.get_mut(&number) {
            entry.used = self.budget.now();
        }
    }

    /// The index of a member takes so many bytes from now on.
    pub(super) fn account(&self, number: usize, member: &Weak<Chunks>, bytes: u64) {
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

    /// The member is gone, or its index.
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
        // One that is in use now counts as used last.
        state.entries.promote(&number);
        drop(state);
        // It takes itself off the list.
        member.is_some_and(|member| member.evict_index())
    }

    /// Building an index again takes as long as inflating the member.
    fn leaves_when_idle(&self) -> bool {
        false
    }
}
