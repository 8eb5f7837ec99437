//! Buffers and contexts that are reused. Fresh memory costs more than most work: the kernel fills it with zeros page by
//! page, which makes decompressing into it 3 to 4 times slower.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use super::budget::{Budget, Reclaim, Reservation};
use super::lease::{self, Lease};
use super::malloc;
use crate::metrics::MemoryClass;
use crate::sync::{Arc, Mutex, rank};

/// A buffer is reused only for sizes of at least its capacity divided by this.
const MAX_OVERSIZE: usize = 4;

/// Reusable values. They count towards the budget while they are idle, too, and are dropped when it needs their memory.
#[derive(derive_more::Debug)]
#[debug("Pool({} idle)", self.0.idle.lock().len())]
pub struct Pool<T>(Arc<PoolState<T>>);

struct PoolState<T> {
    budget: Arc<Budget>,
    purpose: MemoryClass,
    /// Idle values; the last one was used most recently.
    idle: Mutex<Vec<IdleEntry<T>>, { rank::POOL }>,
}

struct IdleEntry<T> {
    value: T,
    reservation: Reservation,
    since: u64,
    lease: Option<Lease>,
}

impl<T> IdleEntry<T> {
    /// Whether it may be evicted, or used by another reader.
    fn may_go(&self) -> bool {
        lease::left(self.lease.as_ref()).is_none()
    }
}

/// A value that returns to its pool when it is dropped.
#[derive(derive_more::Debug)]
#[debug("Pooled({} bytes)", self.accounted())]
pub struct Pooled<T: Default> {
    value: T,
    reservation: Option<Reservation>,
    lease: Option<Lease>,
    pool: Arc<PoolState<T>>,
}

impl<T: Default + Send + 'static> Pool<T> {
    /// An empty pool.
    pub(crate) fn new(budget: &Arc<Budget>, purpose: MemoryClass) -> Self {
        let inner = Arc::new(PoolState { budget: Arc::clone(budget), purpose, idle: Mutex::default() });
        let reclaimable: Arc<dyn Reclaim> = Arc::<PoolState<T>>::clone(&inner);
        budget.register(purpose, Arc::downgrade(&reclaimable));
        Self(inner)
    }

    /// The most recently used idle value without a lease that is fit for use.
    pub(super) fn idle(&self, mut is_fit: impl FnMut(&T) -> bool) -> Option<Pooled<T>> {
        let mut idle = self.0.idle.lock();
        let found = idle.iter().rposition(|entry| entry.may_go() && is_fit(&entry.value))?;
        let IdleEntry { value, reservation, .. } = idle.remove(found);
        drop(idle);
        Some(self.lend(value, reservation))
    }

    /// The idle value with a lease for which `rank` is greatest. The caller needs not wait for those that want its memory:
    /// they wait until the lease ends.
    pub fn resume(&self, rank: impl Fn(&T) -> Option<u64>) -> Option<Pooled<T>> {
        let mut idle = self.0.idle.lock();
        let leased = idle.iter().enumerate().filter(|(_, entry)| !entry.may_go());
        let (_, found) = leased.filter_map(|(number, entry)| Some((rank(&entry.value)?, number))).max()?;
        let IdleEntry { value, reservation, lease, .. } = idle.remove(found);
        drop(idle);
        let mut found = self.lend(value, reservation);
        found.lease = lease;
        Some(found)
    }

    /// Drops the least recently used idle value.
    pub(super) fn discard(&self) {
        self.0.reclaim();
    }

    /// An idle value that is fit for use, or else a reservation of `bytes` for a new one. Waits if necessary; see
    /// [`Budget::reserve`].
    pub fn get(&self, bytes: u64, is_fit: impl Fn(&T) -> bool) -> Result<Pooled<T>, Reservation> {
        match self.0.budget.reserve_unless(self.0.purpose, bytes, || self.idle(&is_fit)) {
            Ok(reservation) => Err(reservation),
            Err(idle) => Ok(idle),
        }
    }

    /// Like [`Pool::get`], but `None` if it would have to wait or another thread waits.
    pub fn try_get(&self, bytes: u64, is_fit: impl Fn(&T) -> bool) -> Option<Result<Pooled<T>, Reservation>> {
        let found = self.0.budget.try_reserve_unless(self.0.purpose, bytes, || self.idle(&is_fit))?;
        Some(found.map_or_else(Ok, Err))
    }

    /// Makes a new value a member of the pool. `reservation` is for its memory.
    pub fn lend(&self, value: T, reservation: Reservation) -> Pooled<T> {
        Pooled { value, reservation: Some(reservation), lease: None, pool: Arc::clone(&self.0) }
    }
}

impl Pool<Vec<u8>> {
    /// A buffer that can hold `size` bytes without growing. Waits until the budget has room for it.
    pub fn buffer(&self, size: usize) -> Pooled<Vec<u8>> {
        let found = self.get(size as u64, |buffer| is_fit_buffer(buffer, size));
        found.unwrap_or_else(|reservation| self.lend(malloc::buffer(size), reservation))
    }

    /// Like [`Pool::buffer`], but `None` if it would have to wait or another thread waits.
    pub fn try_buffer(&self, size: usize) -> Option<Pooled<Vec<u8>>> {
        let found = self.try_get(size as u64, |buffer| is_fit_buffer(buffer, size))?;
        Some(found.unwrap_or_else(|reservation| self.lend(malloc::buffer(size), reservation)))
    }
}

fn is_fit_buffer(buffer: &Vec<u8>, size: usize) -> bool {
    (size..=size.saturating_mul(MAX_OVERSIZE)).contains(&buffer.capacity())
}

impl<T> PoolState<T> {
    /// Takes out the least recently used value without a lease.
    fn pop(&self) -> Option<IdleEntry<T>> {
        let mut idle = self.idle.lock();
        let found = idle.iter().position(IdleEntry::may_go)?;
        Some(idle.remove(found))
    }
}

impl<T: Send> Reclaim for PoolState<T> {
    fn oldest(&self) -> Option<u64> {
        self.idle.lock().iter().find(|entry| entry.may_go()).map(|entry| entry.since)
    }

    fn reclaim(&self) -> bool {
        // The memory is freed before its reservation.
        self.pop().map(|IdleEntry { value, reservation, .. }| (drop(value), drop(reservation))).is_some()
    }

    fn lease_left(&self) -> Option<Duration> {
        self.idle.lock().iter().filter_map(|entry| lease::left(entry.lease.as_ref())).min()
    }

    fn end_leases(&self) {
        self.idle.lock().iter_mut().for_each(|entry| entry.lease = None);
    }
}

impl<T: Default> Pooled<T> {
    /// Changes the number of bytes that are counted for it; see [`Reservation::resize`].
    pub fn account_for(&mut self, bytes: u64) {
        if let Some(reservation) = &mut self.reservation {
            reservation.resize(bytes);
        }
    }

    /// Leases it to a reader that has read some bytes of it and will read more. It is not evicted at once when it is
    /// dropped. Making it again would decompress `cost` bytes.
    pub fn lease(&mut self, cost: u64, bytes: u64) {
        self.lease.get_or_insert_with(|| Lease::new(cost)).count(bytes);
    }

    /// Ends its lease.
    pub fn end_lease(&mut self) {
        self.lease = None;
    }

    /// Bytes that are counted for it.
    pub fn accounted(&self) -> u64 {
        self.reservation.as_ref().map_or(0, Reservation::bytes)
    }
}

impl<T: Default> Deref for Pooled<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: Default> DerefMut for Pooled<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T: Default> Drop for Pooled<T> {
    fn drop(&mut self) {
        if let Some(reservation) = self.reservation.take() {
            let value = std::mem::take(&mut self.value);
            let since = self.pool.budget.now();
            self.pool.idle.lock().push(IdleEntry { value, reservation, since, lease: self.lease });
            self.pool.budget.mark_idle();
        }
    }
}
