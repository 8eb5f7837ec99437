//! One byte budget for all memory whose size depends on the input: caches, and buffers of work in progress.
//!
//! Caches take what is not reserved. A reservation first evicts the least recently used values of caches, and then
//! waits until other work releases memory.
//!
//! Deadlock freedom: reservations are taken in the order of [`MemoryClass`], bundles before compression. A thread that
//! holds a reservation waits only for classes later in this order, and never for a second one of the same class. If the
//! caches have nothing left to evict, the first reservation of its class is granted even if it does not fit. So work of
//! the last class always proceeds. When it has released its memory, the class before it proceeds, and so on. A bundle
//! larger than the whole budget can therefore be read, but only one at a time.

use std::time::Duration;

use super::accounts::BudgetState;
use super::idle::Idle;
use super::malloc::trim_malloc;
use crate::metrics::{Gauges, MemoryClass};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, Condvar, Mutex, MutexGuard, Weak, rank};

/// If values are evicted for at least this many bytes, the heap's free pages are also returned to the system.
const TRIM_THRESHOLD: u64 = 4 << 20;

/// Each cache has a guaranteed minimum of the capacity divided by this.
const SHARES: u64 = 32;

/// A cache or pool that can release memory on demand.
pub trait Reclaim: Send + Sync {
    /// When its least recently used value was last used, as a time of [`Budget::now`]. `None` if none can go
    /// for others.
    fn oldest(&self) -> Option<u64>;

    /// Drops its least recently used value. `false` if it dropped none.
    fn reclaim(&self) -> bool;

    /// How long it takes until the first lease ends; `None` if there is none. A leased value cannot go.
    fn lease_left(&self) -> Option<Duration> {
        None
    }

    /// Ends all leases.
    fn end_leases(&self) {}

    /// Shrinks back to its usual size.
    fn rest(&self) {}

    /// Whether all of it is released when nothing happens for a while.
    fn leaves_when_idle(&self) -> bool {
        true
    }
}

type StateGuard<'a> = MutexGuard<'a, BudgetState, { rank::BUDGET }>;

/// The budget of `--memory` bytes. The module documentation says how it is shared.
#[derive(derive_more::Debug)]
#[debug("Budget({:?})", self.gauges())]
pub struct Budget {
    capacity: u64,
    state: Mutex<BudgetState, { rank::BUDGET }>,
    /// Notified when memory was released or has become reclaimable.
    changed: Condvar,
    reclaimables: Mutex<Vec<(MemoryClass, Weak<dyn Reclaim>)>>,
    clock: AtomicU64,
    idle: Arc<Idle>,
}

/// Reserved bytes of the budget, released on drop.
#[derive(derive_more::Debug)]
#[debug("Reservation({purpose:?}, {bytes} bytes)")]
pub struct Reservation {
    budget: Arc<Budget>,
    purpose: MemoryClass,
    bytes: u64,
}

impl Budget {
    /// A budget of `capacity` bytes.
    pub fn new(capacity: u64) -> Arc<Self> {
        let mut state = BudgetState::default();
        // A content that is read in pieces needs some cache from one piece to the next, whatever else is going on.
        let guaranteed = capacity / SHARES;
        state.frames.guaranteed = guaranteed;
        state.spans.guaranteed = guaranteed;
        Arc::new(Self {
            capacity,
            state: Mutex::new(state),
            changed: Condvar::new(),
            reclaimables: Mutex::default(),
            clock: AtomicU64::new(1),
            idle: Arc::default(),
        })
    }

    /// The bytes that may be in use. Single reservations may be larger.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Bytes in use now.
    pub fn gauges(&self) -> Gauges {
        let state = self.state.lock();
        Gauges {
            capacity: self.capacity,
            bundles: state.bundles.bytes,
            compression: state.compression.bytes,
            frames: state.frames.bytes,
            spans: state.spans.bytes,
            streams: state.streams.bytes,
            tables: 0,
        }
    }

    /// Reserves memory for work, and waits if necessary. The module documentation says which work may wait for which.
    pub fn reserve(self: &Arc<Self>, purpose: MemoryClass, bytes: u64) -> Reservation {
        loop {
            if let Ok(reservation) = self.reserve_unless(purpose, bytes, || None::<()>) {
                return reservation;
            }
        }
    }

    /// Like [`Budget::reserve`], but returns what `instead` finds when it is the caller's turn, if it finds something.
    pub(super) fn reserve_unless<T>(
        self: &Arc<Self>,
        purpose: MemoryClass,
        bytes: u64,
        mut instead: impl FnMut() -> Option<T>,
    ) -> Result<Reservation, T> {
        let waiting = Waiting::new(self, purpose);
        loop {
            let mut state = self.state.lock();
            let seen = state.changes;
            let is_first = state.account(purpose).waiting.front() == Some(&waiting.ticket);
            drop(state);
            // Threads that came earlier are served first.
            if is_first && let Some(found) = instead() {
                return Err(found);
            }
            let mut state = self.state.lock();
            if is_first && state.taken(purpose, bytes) <= self.capacity {
                return Ok(self.take(state, purpose, bytes));
            }
            drop(state);
            if is_first && self.reclaim_for(purpose, bytes) {
                continue;
            }
            // Asked before the last attempt: a lease that ends from here on ends the wait as well.
            let lease_left = if is_first { self.lease_left() } else { None };
            if is_first && self.reclaim_for(purpose, bytes) {
                continue;
            }
            let mut state = self.state.lock();
            if is_first && state.account(purpose).bytes == 0 {
                let reservation = self.take(state, purpose, bytes);
                // What caches have freed may still be in the heap.
                (bytes >= TRIM_THRESHOLD).then(trim_malloc);
                return Ok(reservation);
            }
            if state.changes == seen {
                self.wait(state, lease_left);
            }
        }
    }

    /// How long it takes until the first lease ends.
    fn lease_left(&self) -> Option<Duration> {
        self.reclaimables().iter().filter_map(|(_, reclaimable)| reclaimable.lease_left()).min()
    }

    /// Waits until memory is released, or until the timeout.
    fn wait(&self, mut state: StateGuard<'_>, timeout: Option<Duration>) {
        state.sleeping += 1;
        let mut state = match timeout {
            Some(timeout) => self.changed.wait_timeout(state, timeout).0,
            None => self.changed.wait(state),
        };
        state.sleeping -= 1;
    }

    /// Whether a thread waits for memory of this class.
    pub(super) fn is_awaited(&self, purpose: MemoryClass) -> bool {
        !self.state.lock().account(purpose).waiting.is_empty()
    }

    /// A reservation if it fits now, or after caches have evicted values; or what `instead` finds, if it finds something. That
    /// is called again after each eviction.
    pub(super) fn try_reserve_unless<T>(
        self: &Arc<Self>,
        purpose: MemoryClass,
        bytes: u64,
        mut instead: impl FnMut() -> Option<T>,
    ) -> Option<Result<Reservation, T>> {
        loop {
            if self.is_awaited(purpose) {
                return None;
            }
            if let Some(found) = instead() {
                return Some(Err(found));
            }
            let mut state = self.state.lock();
            if state.taken(purpose, bytes) <= self.capacity {
                return Some(Ok(self.take(state, purpose, bytes)));
            }
            drop(state);
            if !self.reclaim_for(purpose, bytes) {
                return None;
            }
        }
    }

    /// Evicts one value of a cache if `bytes` more do not fit. Returns whether there was one. What was released may
    /// serve the caller as well as fresh memory, so callers check before they go on.
    fn reclaim_for(&self, purpose: MemoryClass, bytes: u64) -> bool {
        let has_reclaimed = self.state.lock().taken(purpose, bytes) > self.capacity && self.reclaim_oldest(None);
        if has_reclaimed && bytes >= TRIM_THRESHOLD && self.state.lock().taken(purpose, bytes) <= self.capacity {
            trim_malloc();
        }
        has_reclaimed
    }

    /// Reserves memory for a value of a cache. Never waits; `None` if there is no room.
    pub fn claim(self: &Arc<Self>, purpose: MemoryClass, bytes: u64) -> Option<Reservation> {
        loop {
            let mut state = self.state.lock();
            let fits = state.taken(purpose, bytes) <= self.capacity;
            let account = state.account(purpose);
            // A cache can hold one value even while a single reservation exceeds the budget.
            if fits || account.bytes == 0 || account.bytes + bytes <= account.guaranteed {
                return Some(self.take(state, purpose, bytes));
            }
            drop(state);
            // If no other cache can evict anything, the value replaces the oldest one of its own cache. Caches whose
            // values stay do that themselves.
            if !self.reclaim_oldest(Some(purpose)) {
                return None;
            }
        }
    }

    /// Accounts for memory that is used in any case. It never waits, and may exceed the budget. [`Budget::reclaim`]
    /// makes caches release the excess.
    pub fn account(self: &Arc<Self>, purpose: MemoryClass, bytes: u64) -> Reservation {
        self.state.lock().account(purpose).bytes += bytes;
        Reservation { budget: Arc::clone(self), purpose, bytes }
    }

    /// Evicts values of caches while the budget is exceeded. The caller must not hold a lock that a cache takes.
    pub fn reclaim(&self) {
        while self.reclaim_for(MemoryClass::Streams, 0) {}
    }

    fn take(self: &Arc<Self>, mut state: StateGuard<'_>, purpose: MemoryClass, bytes: u64) -> Reservation {
        state.account(purpose).bytes += bytes;
        Reservation { budget: Arc::clone(self), purpose, bytes }
    }

    /// Makes waiting threads check again.
    pub(super) fn look_again(&self) {
        let mut state = self.state.lock();
        state.changes += 1;
        let is_awaited = state.sleeping > 0;
        drop(state);
        // Notifying is a system call, even if no thread waits.
        if is_awaited {
            self.changed.notify_all();
        }
    }

    /// Registers a cache or pool whose memory, of this class, can be reclaimed.
    pub fn register(&self, purpose: MemoryClass, reclaimable: Weak<dyn Reclaim>) {
        let mut reclaimables = self.reclaimables.lock();
        reclaimables.retain(|(_, reclaimable)| reclaimable.strong_count() > 0);
        reclaimables.push((purpose, reclaimable));
    }

    fn reclaimables(&self) -> Vec<(MemoryClass, Arc<dyn Reclaim>)> {
        let reclaimables = self.reclaimables.lock();
        reclaimables.iter().filter_map(|(purpose, reclaimable)| Some((*purpose, reclaimable.upgrade()?))).collect()
    }

    /// Evicts the least recently used value of all caches that exceed their guaranteed minimum or are of class `own`.
    /// Returns whether there was one. The caller must not hold a lock: values that are dropped release their
    /// reservations.
    fn reclaim_oldest(&self, own: Option<MemoryClass>) -> bool {
        let reclaimables = self.reclaimables();
        let mut oldest: Vec<_> = reclaimables
            .iter()
            .filter(|(purpose, _)| {
                let mut state = self.state.lock();
                let account = state.account(*purpose);
                account.bytes > account.guaranteed || own == Some(*purpose)
            })
            .filter_map(|(_, reclaimable)| Some((reclaimable.oldest()?, reclaimable)))
            .collect();
        oldest.sort_by_key(|(used, _)| *used);
        oldest.iter().any(|(_, reclaimable)| reclaimable.reclaim())
    }

    /// Releases everything that is unused while no request arrives.
    pub fn release_unused(&self) {
        self.reclaimables().iter().for_each(|(_, reclaimable)| reclaimable.rest());
        // Caches stay.
        self.release(|purpose| !matches!(purpose, MemoryClass::Frames | MemoryClass::Spans));
    }

    fn release(&self, is_released: impl Fn(MemoryClass) -> bool) {
        for (purpose, reclaimable) in self.reclaimables() {
            if is_released(purpose) && reclaimable.leaves_when_idle() {
                reclaimable.end_leases();
                while reclaimable.reclaim() {}
            }
        }
    }

    /// Records that something became idle. It is released when nothing happens for a while.
    pub(super) fn mark_idle(self: &Arc<Self>) {
        self.look_again();
        self.touch();
    }

    /// From now on, releases what has been idle for a while. This is for mounts, which rest: a pause of another command, on a busy
    /// machine, must not make its work more.
    pub fn release_when_idle(self: &Arc<Self>) {
        self.idle.turn_on();
        self.touch();
    }

    /// Postpones the release of what is idle.
    pub fn touch(self: &Arc<Self>) {
        self.idle.watch(self, Self::release_unused);
    }

    /// A logical time that grows with each call. It is never 0, which is before every time.
    pub fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed)
    }
}

/// A thread's place in the queue for a class of memory. Dropping it lets the threads behind it advance.
struct Waiting<'a> {
    budget: &'a Budget,
    purpose: MemoryClass,
    ticket: u64,
}

impl<'a> Waiting<'a> {
    fn new(budget: &'a Budget, purpose: MemoryClass) -> Self {
        let mut state = budget.state.lock();
        state.tickets += 1;
        let ticket = state.tickets;
        state.account(purpose).waiting.push_back(ticket);
        Self { budget, purpose, ticket }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.budget.state.lock().account(self.purpose).waiting.retain(|other| *other != self.ticket);
        self.budget.look_again();
    }
}

impl Reservation {
    /// Bytes reserved.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Changes the number of bytes. Never waits: use it for corrections of an estimate.
    pub fn resize(&mut self, bytes: u64) {
        let mut state = self.budget.state.lock();
        let account = state.account(self.purpose);
        account.bytes = account.bytes.saturating_sub(self.bytes).saturating_add(bytes);
        self.bytes = bytes;
        drop(state);
        self.budget.look_again();
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.resize(0);
    }
}

#[cfg(test)]
#[path = "budget_tests.rs"]
mod tests;
