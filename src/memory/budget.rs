//! One budget of bytes for all memory whose size depends on the input: caches, and the buffers of work that is going on.
//!
//! Caches take what nobody else needs. A reservation for a buffer first makes caches give up what was not used for the
//! longest time, then waits until other work gives back.
//!
//! Deadlock freedom: reservations are taken in an order, bundles before compression. A thread that holds a reservation
//! waits only for uses that come later in it, and never for a second one of the same use. If the caches have nothing left
//! to give, the first reservation of its use is let through even if it does not fit. So the last use always goes on; when
//! it has given back, the one before does, and so forth. Therefore a bundle larger than the whole budget can be read, too,
//! but only one at a time.

use std::collections::VecDeque;
use std::fmt;

use super::idle::Idle;
use super::malloc::trim_malloc;
use crate::metrics::{Gauges, MemoryClass};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

/// Room for so many bytes is not only made but also taken from the heap's free pages.
const WORTH_TRIMMING: u64 = 4 << 20;

/// The part of the budget that each cache has for itself.
const SHARES: u64 = 32;

/// Something that can give memory back although nobody asked it to.
pub trait Reclaim: Send + Sync {
    /// What it uses memory for.
    fn purpose(&self) -> MemoryClass;

    /// When the thing that it would give up first was last used, by [`Budget::now`]; `None` if there is nothing.
    fn oldest(&self) -> Option<u64>;

    /// Gives this thing up. Whether there was any.
    fn reclaim(&self) -> bool;

    /// Gives back what it holds beyond its usual size.
    fn rest(&self) {}

    /// Whether all of it is given back when nothing happens for a while. Caches stay.
    fn leaves_when_idle(&self) -> bool {
        !matches!(self.purpose(), MemoryClass::Frames | MemoryClass::Spans)
    }
}

/// The bytes that work may take (`--memory`). The module says how they are shared.
pub struct Budget {
    capacity: u64,
    state: Mutex<BudgetState>,
    /// Told whenever something was given back, or can be from now on.
    changed: Condvar,
    reclaimables: Mutex<Vec<Weak<dyn Reclaim>>>,
    clock: AtomicU64,
    idle: Arc<Idle>,
}

#[derive(Default)]
struct BudgetState {
    bundles: Account,
    compression: Account,
    frames: Account,
    spans: Account,
    streams: Account,
    tickets: u64,
    /// Number of times that waiting threads had a reason to look again.
    changes: u64,
}

#[derive(Default)]
struct Account {
    bytes: u64,
    /// Bytes that nobody else gets.
    guaranteed: u64,
    /// Those who wait, in the order of their arrival.
    waiting: VecDeque<u64>,
}

impl BudgetState {
    fn account(&mut self, purpose: MemoryClass) -> &mut Account {
        match purpose {
            MemoryClass::Bundles => &mut self.bundles,
            MemoryClass::Compression => &mut self.compression,
            MemoryClass::Frames => &mut self.frames,
            MemoryClass::Spans => &mut self.spans,
            MemoryClass::Streams => &mut self.streams,
        }
    }

    /// Bytes that are taken, or would be if `more` were for `purpose`.
    fn taken(&mut self, purpose: MemoryClass, more: u64) -> u64 {
        let account = self.account(purpose);
        let here = account.bytes.saturating_add(more).max(account.guaranteed) - account.bytes.max(account.guaranteed);
        let all = [&self.bundles, &self.compression, &self.frames, &self.spans, &self.streams];
        all.iter().map(|account| account.bytes.max(account.guaranteed)).sum::<u64>().saturating_add(here)
    }
}

/// A part of the budget, given back when it is dropped.
pub struct Reservation {
    budget: Arc<Budget>,
    purpose: MemoryClass,
    bytes: u64,
}

impl Budget {
    /// A budget of `capacity` bytes.
    pub fn new(capacity: u64) -> Arc<Self> {
        let mut state = BudgetState::default();
        // Content that is read in pieces must survive from one piece to the next whatever else is going on.
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

    /// The most bytes that are in use, but for single things that are larger.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Bytes that each cache has for itself.
    pub fn guaranteed(&self) -> u64 {
        self.capacity / SHARES
    }

    /// Bytes in use now.
    pub fn gauges(&self) -> Gauges {
        let state = self.lock();
        Gauges {
            capacity: self.capacity,
            bundles: state.bundles.bytes,
            compression: state.compression.bytes,
            frames: state.frames.bytes,
            spans: state.spans.bytes,
            streams: state.streams.bytes,
        }
    }

    /// Reserves memory for work, and waits for it if need be; the module says which work may wait for which.
    pub fn reserve(self: &Arc<Self>, purpose: MemoryClass, bytes: u64) -> Reservation {
        loop {
            if let Ok(reservation) = self.reserve_unless(purpose, bytes, || None::<()>) {
                return reservation;
            }
        }
    }

    /// Like [`Budget::reserve`], unless `instead` has something that does as well when it is the caller's turn.
    pub(super) fn reserve_unless<T>(
        self: &Arc<Self>,
        purpose: MemoryClass,
        bytes: u64,
        mut instead: impl FnMut() -> Option<T>,
    ) -> Result<Reservation, T> {
        let waiting = Waiting::new(self, purpose);
        loop {
            let mut state = self.lock();
            let seen = state.changes;
            let is_first = state.account(purpose).waiting.front() == Some(&waiting.ticket);
            drop(state);
            // Nobody takes anything from under the noses of those who came before.
            if is_first && let Some(found) = instead() {
                return Err(found);
            }
            let mut state = self.lock();
            if is_first && state.taken(purpose, bytes) <= self.capacity {
                return Ok(self.take(state, purpose, bytes));
            }
            drop(state);
            if is_first && self.reclaim_for(purpose, bytes) {
                continue;
            }
            let mut state = self.lock();
            if is_first && state.account(purpose).bytes == 0 {
                return Ok(self.take(state, purpose, bytes));
            }
            if state.changes == seen {
                drop(self.changed.wait(state).unwrap_or_else(PoisonError::into_inner));
            }
        }
    }

    /// Whether a thread waits for memory for this use.
    pub(super) fn is_awaited(&self, purpose: MemoryClass) -> bool {
        !self.lock().account(purpose).waiting.is_empty()
    }

    /// A reservation if it fits now, or does when caches give up something.
    pub fn try_reserve(self: &Arc<Self>, purpose: MemoryClass, bytes: u64) -> Option<Reservation> {
        self.try_reserve_unless(purpose, bytes, || None::<Reservation>).map(|made| made.unwrap_or_else(|other| other))
    }

    /// Like [`Budget::try_reserve`], unless `instead` has something that does as well, also after a cache gave up
    /// something.
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
            let mut state = self.lock();
            if state.taken(purpose, bytes) <= self.capacity {
                return Some(Ok(self.take(state, purpose, bytes)));
            }
            drop(state);
            if !self.reclaim_for(purpose, bytes) {
                return None;
            }
        }
    }

    /// Has a cache give up one thing if something stands in the way of `bytes` more. Whether there was anything: it may
    /// serve as well as fresh memory, so callers look before they go on.
    fn reclaim_for(&self, purpose: MemoryClass, bytes: u64) -> bool {
        let has_reclaimed = self.lock().taken(purpose, bytes) > self.capacity && self.reclaim_oldest(None);
        if has_reclaimed && bytes >= WORTH_TRIMMING && self.lock().taken(purpose, bytes) <= self.capacity {
            trim_malloc();
        }
        has_reclaimed
    }

    /// Reserves memory for a value in a cache. Never waits: `None` if there is no room.
    pub fn claim(self: &Arc<Self>, purpose: MemoryClass, bytes: u64) -> Option<Reservation> {
        if bytes > self.capacity {
            return None;
        }
        loop {
            let mut state = self.lock();
            let fits = state.taken(purpose, bytes) <= self.capacity;
            let account = state.account(purpose);
            // Even while one thing takes more than everything, a cache can hold one value.
            if fits || account.bytes == 0 || account.bytes + bytes <= account.guaranteed {
                return Some(self.take(state, purpose, bytes));
            }
            drop(state);
            // If nobody else gives up anything, the value takes the place of the oldest of its own cache.
            if !self.reclaim_oldest(Some(purpose)) {
                return None;
            }
        }
    }

    /// Accounts for memory that is taken in any case: it never waits, and may exceed the budget. [`Budget::reclaim`] makes
    /// caches give back what is too much.
    pub fn account(self: &Arc<Self>, purpose: MemoryClass, bytes: u64) -> Reservation {
        self.lock().account(purpose).bytes += bytes;
        Reservation { budget: Arc::clone(self), purpose, bytes }
    }

    /// Has caches give back what exceeds the budget. No lock that a cache takes may be held.
    pub fn reclaim(&self) {
        while self.reclaim_for(MemoryClass::Streams, 0) {}
    }

    fn take(self: &Arc<Self>, mut state: MutexGuard<'_, BudgetState>, purpose: MemoryClass, bytes: u64) -> Reservation {
        state.account(purpose).bytes += bytes;
        Reservation { budget: Arc::clone(self), purpose, bytes }
    }

    /// Tells waiting threads that there may be something for them.
    pub(super) fn look_again(&self) {
        self.lock().changes += 1;
        self.changed.notify_all();
    }

    /// From now on `reclaimable` is asked when memory is needed.
    pub fn register(&self, reclaimable: Weak<dyn Reclaim>) {
        let mut reclaimables = self.reclaimables.lock().unwrap_or_else(PoisonError::into_inner);
        reclaimables.retain(|reclaimable| reclaimable.strong_count() > 0);
        reclaimables.push(reclaimable);
    }

    fn reclaimables(&self) -> Vec<Arc<dyn Reclaim>> {
        let reclaimables = self.reclaimables.lock().unwrap_or_else(PoisonError::into_inner);
        reclaimables.iter().filter_map(Weak::upgrade).collect()
    }

    /// Has given up what was not used for the longest time, of those that hold more than their share, or are
    /// `own`. Whether there was any such thing. No lock may be held, because values that are dropped give back what they
    /// reserved.
    fn reclaim_oldest(&self, own: Option<MemoryClass>) -> bool {
        let reclaimables = self.reclaimables();
        let mut oldest: Vec<_> = reclaimables
            .iter()
            .filter(|reclaimable| {
                let mut state = self.lock();
                let account = state.account(reclaimable.purpose());
                account.bytes > account.guaranteed || own == Some(reclaimable.purpose())
            })
            .filter_map(|reclaimable| Some((reclaimable.oldest()?, reclaimable)))
            .collect();
        oldest.sort_by_key(|(used, _)| *used);
        oldest.iter().any(|(_, reclaimable)| reclaimable.reclaim())
    }

    /// Has idle buffers and compressors given up, but nothing that a reader goes on from.
    pub fn release_idle(&self) {
        self.release(|reclaimable| matches!(reclaimable.purpose(), MemoryClass::Bundles | MemoryClass::Compression));
    }

    /// Has everything given up that nobody needs as long as nothing happens.
    pub fn release_unused(&self) {
        self.reclaimables().iter().for_each(|reclaimable| reclaimable.rest());
        self.release(|reclaimable| reclaimable.leaves_when_idle());
    }

    fn release(&self, is_released: impl Fn(&dyn Reclaim) -> bool) {
        for reclaimable in self.reclaimables().iter().filter(|reclaimable| is_released(&***reclaimable)) {
            while reclaimable.reclaim() {}
        }
    }

    /// Tells that something became idle, which is released when nothing happens for a while.
    pub(super) fn mark_idle(self: &Arc<Self>) {
        self.look_again();
        self.touch();
    }

    /// Puts off giving back what is idle.
    pub fn touch(self: &Arc<Self>) {
        self.idle.watch(self);
    }

    /// A time that every call moves on. It is never 0, which is before everything.
    pub fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, BudgetState> {
        // The state is consistent after every statement, so a panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of a thread in the queue for a class of memory. Those behind it come forward when it is dropped.
struct Waiting<'a> {
    budget: &'a Budget,
    purpose: MemoryClass,
    ticket: u64,
}

impl<'a> Waiting<'a> {
    fn new(budget: &'a Budget, purpose: MemoryClass) -> Self {
        let mut state = budget.lock();
        state.tickets += 1;
        let ticket = state.tickets;
        state.account(purpose).waiting.push_back(ticket);
        Self { budget, purpose, ticket }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.budget.lock().account(self.purpose).waiting.retain(|other| *other != self.ticket);
        self.budget.look_again();
    }
}

impl Reservation {
    /// Bytes that are reserved.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Changes how many. Never waits: meant for what turns out to be somewhat larger or smaller than expected.
    pub fn resize(&mut self, bytes: u64) {
        let mut state = self.budget.lock();
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

impl fmt::Debug for Budget {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Budget").field(&self.gauges()).finish()
    }
}

impl fmt::Debug for Reservation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Reservation({:?}, {} bytes)", self.purpose, self.bytes)
    }
}

#[cfg(test)]
#[path = "budget_tests.rs"]
mod tests;
