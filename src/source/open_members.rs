//! The open members, in the order of their use. When the budget is short, the least recently used ones are closed: all
//! state of a member that can be made again is dropped. The next read opens it, and loads its block index from the index
//! of the input or builds it.

use std::fmt;

use lru::LruCache;

use crate::memory::{Budget, Reclaim, Reservation};
use crate::metrics::MemoryClass;
use crate::sync::{Arc, Mutex, Weak, rank};

/// Members stay open while all of them together take less than the larger of these: the budget divided by
/// `GUARANTEED_PART`, and `GUARANTEED` bytes. The block indexes of ten libraries of 6 GB take 18 MB. Without a cache directory,
/// an index that leaves is built by inflating its library again.
const GUARANTEED_PART: u64 = 8;
const GUARANTEED: u64 = 1 << 20;

/// Bytes of an open member without its block index: 1,500 that it takes, and the free memory between members that were
/// closed and others.
const OPEN: u64 = 2200;

/// This many members are tried until one is not in use.
const TRIES: usize = 16;

/// A member that can be closed.
pub(super) trait CloseMember: fmt::Debug + Send + Sync {
    /// Drops the member's state. `false` if it is in use.
    fn close(&self) -> bool;
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct OpenMembers {
    pub(super) budget: Arc<Budget>,
    state: Mutex<OpenState, { rank::MEMBERS }>,
}

#[derive(Debug)]
struct OpenState {
    /// By number of the member.
    entries: LruCache<usize, OpenEntry>,
    /// The number of the next member.
    next: usize,
    memory: Reservation,
}

#[derive(Debug)]
struct OpenEntry {
    member: Weak<dyn CloseMember>,
    bytes: u64,
    used: u64,
}

/// A member's place in the list. It leaves the list when this is dropped.
#[derive(Debug)]
pub(super) struct ListedMember {
    list: Arc<OpenMembers>,
    number: usize,
}

impl OpenMembers {
    pub(super) fn new(budget: &Arc<Budget>) -> Arc<Self> {
        let memory = budget.account(MemoryClass::Streams, 0);
        let state = OpenState { entries: LruCache::unbounded(), next: 0, memory };
        Arc::new(Self { budget: Arc::clone(budget), state: Mutex::new(state) })
    }

    /// The least recently used member, which counts as used last from now on: if it stays, it is in use.
    fn oldest_member(&self) -> Option<Arc<dyn CloseMember>> {
        let mut state = self.state.lock();
        let (&number, entry) = state.entries.peek_lru()?;
        let member = entry.member.upgrade();
        state.entries.promote(&number);
        member
    }

    /// Adds a member that is being opened.
    pub(super) fn add(self: &Arc<Self>, member: Weak<dyn CloseMember>) -> ListedMember {
        let used = self.budget.now();
        let mut state = self.state.lock();
        let number = state.next;
        state.next += 1;
        state.entries.put(number, OpenEntry { member, bytes: OPEN, used });
        state.account(0, OPEN);
        ListedMember { list: Arc::clone(self), number }
    }
}

impl OpenState {
    /// A member takes `after` bytes instead of `before`.
    fn account(&mut self, before: u64, after: u64) {
        let bytes = (self.memory.bytes() + after).saturating_sub(before);
        self.memory.resize(bytes);
    }
}

impl ListedMember {
    /// Records a use of the member.
    pub(super) fn touch(&self) {
        if let Some(entry) = self.list.state.lock().entries.get_mut(&self.number) {
            entry.used = self.list.budget.now();
        }
    }

    /// Records that opening the member again costs nothing, so that it is closed before those that have an index.
    pub(super) fn close_first(&self) {
        let mut state = self.list.state.lock();
        state.entries.demote(&self.number);
        if let Some(entry) = state.entries.peek_mut(&self.number) {
            entry.used = 0;
        }
    }

    /// Sets the bytes of the member's block index.
    pub(super) fn account(&self, index_bytes: u64) {
        let used = self.list.budget.now();
        let mut state = self.list.state.lock();
        let Some(entry) = state.entries.get_mut(&self.number) else { return };
        let (before, after) = (entry.bytes, OPEN + index_bytes);
        (entry.bytes, entry.used) = (after, used);
        state.account(before, after);
    }
}

impl Drop for ListedMember {
    fn drop(&mut self) {
        let mut state = self.list.state.lock();
        if let Some(entry) = state.entries.pop(&self.number) {
            state.account(entry.bytes, 0);
        }
    }
}

impl Reclaim for OpenMembers {
    fn oldest(&self) -> Option<u64> {
        let state = self.state.lock();
        let is_reclaimable = state.memory.bytes() > GUARANTEED.max(self.budget.capacity() / GUARANTEED_PART);
        state.entries.peek_lru().filter(|_| is_reclaimable).map(|(_, entry)| entry.used)
    }

    fn reclaim(&self) -> bool {
        (0..TRIES).any(|_| self.oldest_member().is_some_and(|member| member.close()))
    }

    /// Members stay open when idle: building a block index again takes as long as inflating the member.
    fn leaves_when_idle(&self) -> bool {
        false
    }
}

#[cfg(test)]
#[path = "open_members_tests.rs"]
mod tests;
