//! A cache bounded in bytes, whose values are computed once however many threads ask for them at the same time.

use std::hash::Hash;
use std::time::Duration;

use lru::LruCache;

use super::budget::{Budget, Reclaim, Reservation};
use super::lease::{self, Lease};
use super::pool::Pooled;
use crate::metrics::MemoryClass;
use crate::sync::{Arc, Mutex, rank};

/// The memory of a cached value.
pub trait Weight {
    /// Whether the value holds a reservation of its own for as long as it lives.
    const IS_RESERVED: bool = false;

    /// Bytes of memory.
    fn weight(&self) -> u64;
}

impl Weight for Arc<[u8]> {
    fn weight(&self) -> u64 {
        self.len() as u64
    }
}

impl Weight for Arc<Vec<u8>> {
    fn weight(&self) -> u64 {
        self.capacity() as u64
    }
}

impl Weight for Arc<Pooled<Vec<u8>>> {
    const IS_RESERVED: bool = true;

    fn weight(&self) -> u64 {
        self.accounted()
    }
}

/// Holds values as long as nothing else needs their memory; the least recently used ones are evicted first. A value for
/// which there is no room is returned without being kept.
#[derive(Debug)]
pub struct ByteCache<K: Hash + Eq, V> {
    held: Arc<CacheState<K, V>>,
}

#[derive(Debug)]
struct CacheState<K: Hash + Eq, V> {
    budget: Arc<Budget>,
    purpose: MemoryClass,
    /// Bytes that are held at most in normal operation, however much of the budget is free.
    capacity: u64,
    /// Bytes that are held at most while a larger cache avoids computing values again.
    max: u64,
    /// Whether values stay when others than this cache need the memory.
    stays: bool,
    entries: Mutex<CacheEntries<K, V>, { rank::CACHE }>,
}

#[derive(Debug)]
struct CacheEntries<K: Hash + Eq, V> {
    values: LruCache<K, CachedValue<V>>,
    bytes: u64,
    /// Bytes that are held at most now.
    limit: u64,
    /// Keys of evicted values. If such a value is computed again, a larger cache would have held it. These are the
    /// "ghosts" of adaptive replacement (Megiddo and Modha, "ARC", FAST 2003).
    ghosts: LruCache<K, ()>,
}

/// A value that is computed again raises the limit by this multiple of its size.
const GROWTH: u64 = 8;

/// Any other value that is computed lowers the limit by its size divided by this.
const DECAY: u64 = 16;

/// A ghost counts as at least this many bytes, which bounds the number of ghosts of small values.
const MIN_GHOST: u64 = 16 << 10;

/// A value and its bookkeeping. The value is dropped before the reservation.
#[derive(Debug)]
struct CachedValue<V> {
    value: V,
    used: u64,
    lease: Option<Lease>,
    /// None if the value has its own.
    _reservation: Option<Reservation>,
}

impl<K, V> ByteCache<K, V>
where
    K: Hash + Eq + Clone + Send + 'static,
    V: Weight + Clone + Send + 'static,
{
    /// A cache with no limit but the budget's.
    pub fn new(budget: &Arc<Budget>, purpose: MemoryClass) -> Self {
        Self::bounded(budget, purpose, budget.capacity())
    }

    /// A cache of at most `capacity` bytes.
    pub fn bounded(budget: &Arc<Budget>, purpose: MemoryClass, capacity: u64) -> Self {
        Self::adaptive(budget, purpose, capacity, capacity)
    }

    /// A cache of at most `capacity` bytes whose values leave for others of it, and when nothing happens for a while.
    pub fn staying(budget: &Arc<Budget>, purpose: MemoryClass, capacity: u64) -> Self {
        Self::of(budget, purpose, capacity, capacity, true)
    }

    /// A cache of `capacity` bytes that grows up to `max` while values are computed again soon after their eviction.
    /// It returns to `capacity` when nothing happens for a while.
    pub fn adaptive(budget: &Arc<Budget>, purpose: MemoryClass, capacity: u64, max: u64) -> Self {
        Self::of(budget, purpose, capacity, max, false)
    }

    fn of(budget: &Arc<Budget>, purpose: MemoryClass, capacity: u64, max: u64, stays: bool) -> Self {
        let (values, ghosts) = (LruCache::unbounded(), LruCache::unbounded());
        let entries = Mutex::new(CacheEntries { values, bytes: 0, limit: capacity, ghosts });
        let held = Arc::new(CacheState { budget: Arc::clone(budget), purpose, capacity, max, stays, entries });
        let reclaimable: Arc<dyn Reclaim> = Arc::<CacheState<K, V>>::clone(&held);
        budget.register(purpose, Arc::downgrade(&reclaimable));
        Self { held }
    }

    /// Bytes that are held at most in normal operation.
    pub fn capacity(&self) -> u64 {
        self.held.capacity
    }

    /// Bytes held now.
    pub fn bytes(&self) -> u64 {
        self.held.entries.lock().bytes
    }

    /// Whether the value is held. This does not count as a use.
    pub fn contains(&self, key: &K) -> bool {
        self.held.entries.lock().values.contains(key)
    }

    /// The value if it is held.
    pub fn get(&self, key: &K) -> Option<V> {
        let mut held = self.held.entries.lock();
        let entry = held.values.get_mut(key)?;
        entry.used = self.held.budget.now();
        Some(entry.value.clone())
    }

    /// Stores a value that was computed elsewhere, evicting others. Returns a value that was evicted for it, if any.
    pub fn put(&self, key: K, value: V) -> Option<V> {
        let budget = &self.held.budget;
        // The previous value of this key must not take the room of the new one.
        self.remove(&key);
        let weight = value.weight();
        let mut left = None;
        // A value that is larger than the cache is held alone: it may be read in many pieces, and each would make it again.
        let limit = self.held.limit(&key, weight).max(weight);
        while self.bytes() > limit - weight
            && let Some((key, value)) = self.held.pop()
        {
            self.held.note_ghost(key, value.weight());
            left = Some(value);
        }
        let reservation = if V::IS_RESERVED { None } else { self.held.claim(weight) };
        if reservation.is_none() && !V::IS_RESERVED {
            return left;
        }
        let entry = CachedValue { value, used: budget.now(), lease: None, _reservation: reservation };
        let mut held = self.held.entries.lock();
        held.bytes += weight;
        let before = held.values.put(key, entry);
        held.bytes -= before.as_ref().map_or(0, |entry| entry.value.weight());
        drop(held);
        drop(before);
        budget.look_again();
        left
    }

    /// Leases a value to a reader that has read some bytes of it and will read more. See [`Pooled::lease`].
    pub fn lease(&self, key: &K, cost: u64, bytes: u64) {
        let mut held = self.held.entries.lock();
        let Some(entry) = held.values.peek_mut(key) else { return };
        entry.lease.get_or_insert_with(|| Lease::new(cost)).count(bytes);
        let may_go = entry.may_go();
        drop(held);
        if may_go {
            self.held.budget.look_again();
        }
    }

    /// Ends the lease of a value.
    pub fn end_lease(&self, key: &K) {
        if let Some(entry) = self.held.entries.lock().values.peek_mut(key) {
            entry.lease = None;
        }
        self.held.budget.look_again();
    }

    /// Drops a value.
    pub fn remove(&self, key: &K) {
        let mut held = self.held.entries.lock();
        let removed = held.values.pop(key);
        held.bytes -= removed.as_ref().map_or(0, |entry| entry.value.weight());
        drop(held);
    }
}

impl<V> CachedValue<V> {
    /// Whether it may be evicted.
    fn may_go(&self) -> bool {
        lease::left(self.lease.as_ref()).is_none()
    }
}

impl<K: Hash + Eq, V: Weight> CacheState<K, V> {
    /// Takes out the least recently used value.
    fn pop(&self) -> Option<(K, V)> {
        let mut held = self.entries.lock();
        let (key, removed) = held.values.pop_lru()?;
        held.bytes -= removed.value.weight();
        drop(held);
        Some((key, removed.value))
    }

    /// Memory for a value; `None` if there is none. Values that stay leave for those of their own cache only, each for at
    /// most its weight.
    fn claim(&self, weight: u64) -> Option<Reservation> {
        let (mut claimed, mut freed) = (self.budget.claim(self.purpose, weight), 0);
        while self.stays && claimed.is_none() && freed < weight {
            freed += self.pop()?.1.weight();
            claimed = self.budget.claim(self.purpose, weight);
        }
        claimed
    }

    /// Takes out the least recently used value without a lease.
    fn pop_unleased(&self) -> Option<V>
    where
        K: Clone,
    {
        let mut held = self.entries.lock();
        let key = held.values.iter().rev().find_map(|(key, entry)| entry.may_go().then(|| key.clone()))?;
        let removed = held.values.pop(&key)?;
        held.bytes -= removed.value.weight();
        Some(removed.value)
    }

    /// The limit in bytes after a value of at least `weight` bytes was computed.
    fn limit(&self, key: &K, weight: u64) -> u64 {
        let mut held = self.entries.lock();
        held.limit = match held.ghosts.pop(key) {
            Some(()) => held.limit.saturating_add(weight.saturating_mul(GROWTH)).min(self.max),
            None => held.limit.saturating_sub(weight / DECAY).max(self.capacity),
        };
        held.limit
    }

    /// Records an evicted key as a ghost. Ghosts reach back as far as the cache can grow.
    fn note_ghost(&self, key: K, weight: u64) {
        if self.max == self.capacity {
            return;
        }
        let mut held = self.entries.lock();
        held.ghosts.push(key, ());
        while (held.ghosts.len() as u64).saturating_mul(weight.max(MIN_GHOST)) > self.max - self.capacity {
            held.ghosts.pop_lru();
        }
    }
}

impl<K: Hash + Eq + Clone + Send, V: Weight + Send> Reclaim for CacheState<K, V> {
    fn oldest(&self) -> Option<u64> {
        if self.stays {
            return None;
        }
        self.entries.lock().values.iter().rev().find_map(|(_, entry)| entry.may_go().then_some(entry.used))
    }

    fn lease_left(&self) -> Option<Duration> {
        self.entries.lock().values.iter().filter_map(|(_, entry)| lease::left(entry.lease.as_ref())).min()
    }

    fn end_leases(&self) {
        self.entries.lock().values.iter_mut().for_each(|(_, entry)| entry.lease = None);
    }

    fn reclaim(&self) -> bool {
        let Some(value) = self.pop_unleased() else { return false };
        // Other users need the memory.
        let mut held = self.entries.lock();
        held.limit = held.limit.saturating_sub(value.weight()).max(self.capacity);
        true
    }

    fn rest(&self) {
        let mut held = self.entries.lock();
        held.limit = self.capacity;
        held.ghosts.clear();
        while held.bytes > self.capacity {
            drop(held);
            if self.pop().is_none() {
                return;
            }
            held = self.entries.lock();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn value(size: usize) -> Arc<[u8]> {
        vec![0; size].into()
    }

    #[test]
    fn the_least_recently_used_leave_first_and_bytes_are_counted() {
        let cache = ByteCache::new(&Budget::new(10), MemoryClass::Spans);
        cache.put(1, value(4));
        cache.put(2, value(4));
        assert!(cache.get(&1).is_some());
        cache.put(3, value(4));
        assert!(cache.get(&2).is_none());
        assert_eq!(cache.bytes(), 8);
        cache.put(1, value(1));
        assert_eq!(cache.bytes(), 5);
        cache.remove(&1);
        cache.remove(&3);
        assert_eq!(cache.bytes(), 0);
    }

    #[test]
    fn a_value_larger_than_the_cache_or_the_budget_is_held_alone() {
        let budget = Budget::new(10);
        let cache = ByteCache::bounded(&budget, MemoryClass::Spans, 5);
        for size in [6, 11] {
            cache.put(1, value(4));
            cache.put(2, value(size));
            assert!(cache.get(&2).is_some(), "{size}");
            assert_eq!((cache.bytes(), budget.gauges().spans), (size as u64, size as u64));
        }
        cache.put(3, value(4));
        assert!(cache.get(&2).is_none());
        assert_eq!(budget.gauges().spans, 4);
    }

    #[test]
    fn values_that_stay_leave_for_others_of_their_cache() {
        let budget = Budget::new(16);
        let cache = ByteCache::staying(&budget, MemoryClass::Streams, 16);
        let work = budget.reserve(MemoryClass::Bundles, 8);
        (1..=2).for_each(|key| drop(cache.put(key, value(4))));
        let others = ByteCache::new(&budget, MemoryClass::Spans);
        others.put(1, value(4));
        assert_eq!(cache.bytes(), 8, "one value of a class is held whatever is full");
        others.remove(&1);
        cache.put(3, value(4));
        assert!(cache.get(&1).is_none() && cache.get(&2).is_some() && cache.get(&3).is_some(), "{budget:?}");
        let more = budget.account(MemoryClass::Bundles, 16);
        cache.put(4, value(4));
        assert_eq!((cache.bytes(), cache.contains(&3)), (4, true), "one leaves for one for which there is no room");
        drop((work, more));
    }

    /// The reuse distances of a program that is loaded: it goes over more than the cache holds, repeatedly.
    #[test]
    fn a_cache_grows_while_values_are_made_again_and_rests_when_nothing_happens() {
        let budget = Budget::new(16 << 20);
        let cache = ByteCache::adaptive(&budget, MemoryClass::Spans, 256 << 10, 8 << 20);
        let made = AtomicUsize::new(0);
        let read = |key| {
            if cache.get(&key).is_none() {
                made.fetch_add(1, Ordering::SeqCst);
                cache.put(key, value(16 << 10));
            }
        };
        (0..1000).for_each(read);
        assert_eq!(cache.bytes(), 256 << 10, "what is read once needs no room");
        made.store(0, Ordering::SeqCst);
        (0..10).for_each(|_| (2000..2100).for_each(read));
        let made = made.into_inner();
        assert!(made < 250, "{made} of 1000 were made");
        assert!(cache.bytes() >= 1600 << 10);
        (3000..12_000).for_each(|key| drop(cache.put(key, value(16 << 10))));
        assert_eq!(cache.bytes(), 256 << 10, "nothing was made again in a long time");
        (0..10).for_each(|_| (2000..2100).for_each(|key| drop(cache.put(key, value(16 << 10)))));
        budget.release_unused();
        assert_eq!(cache.bytes(), 256 << 10, "nothing happens");
    }
}
