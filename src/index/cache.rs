//! A cache that counts bytes, and in which everything is made once however many ask for it at the same time.

use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dashmap::DashMap;
use lru::LruCache;

/// How many bytes a cached value takes.
pub trait Weight {
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

/// Holds values up to a number of bytes; the least recently used ones leave first. A value that is larger than the
/// whole cache is handed out without being kept.
#[derive(Debug)]
pub struct ByteCache<K: Hash + Eq, V> {
    capacity: u64,
    held: Mutex<Held<K, V>>,
    /// One lock per value that is being made, so that others wait for it instead of making it again.
    making: DashMap<K, Arc<Mutex<()>>>,
}

#[derive(Debug)]
struct Held<K: Hash + Eq, V> {
    values: LruCache<K, V>,
    bytes: u64,
}

impl<K: Hash + Eq + Clone, V: Weight + Clone> ByteCache<K, V> {
    /// A cache for `capacity` bytes.
    pub fn new(capacity: u64) -> Self {
        Self { capacity, held: Mutex::new(Held { values: LruCache::unbounded(), bytes: 0 }), making: DashMap::new() }
    }

    /// The most bytes that are held.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Bytes held now.
    pub fn bytes(&self) -> u64 {
        self.lock().bytes
    }

    /// The value if it is held.
    pub fn get(&self, key: &K) -> Option<V> {
        self.lock().values.get(key).cloned()
    }

    /// Keeps a value that was made elsewhere.
    pub fn put(&self, key: K, value: V) {
        let weight = value.weight();
        if weight > self.capacity {
            return;
        }
        let mut held = self.lock();
        if let Some(old) = held.values.put(key, value) {
            held.bytes -= old.weight();
        }
        held.bytes += weight;
        while held.bytes > self.capacity {
            match held.values.pop_lru() {
                Some((_, value)) => held.bytes -= value.weight(),
                None => break,
            }
        }
    }

    /// Drops a value.
    pub fn remove(&self, key: &K) {
        let mut held = self.lock();
        if let Some(value) = held.values.pop(key) {
            held.bytes -= value.weight();
        }
    }

    /// The value, made by `make` if it is not held. Whoever asks for a value that is being made waits for it.
    pub fn get_or_make<E>(&self, key: &K, make: impl FnOnce() -> Result<V, E>) -> Result<V, E> {
        if let Some(value) = self.get(key) {
            return Ok(value);
        }
        let turn = Arc::clone(&self.making.entry(key.clone()).or_default());
        let guard = turn.lock().unwrap_or_else(PoisonError::into_inner);
        let result = match self.get(key) {
            Some(value) => Ok(value),
            None => make().inspect(|value| self.put(key.clone(), value.clone())),
        };
        drop(guard);
        self.making.remove_if(key, |_, other| Arc::ptr_eq(other, &turn));
        result
    }

    fn lock(&self) -> MutexGuard<'_, Held<K, V>> {
        // The state is consistent after every statement, so a panic elsewhere does not spoil it.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {

    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Barrier};

    use super::ByteCache;

    fn value(size: usize) -> Arc<[u8]> {
        vec![0; size].into()
    }

    #[test]
    fn the_least_recently_used_leave_first_and_bytes_are_counted() {
        let cache = ByteCache::new(10);
        cache.put(1, value(4));
        cache.put(2, value(4));
        assert!(cache.get(&1).is_some());
        cache.put(3, value(4));
        assert!(cache.get(&2).is_none());
        assert_eq!(cache.bytes(), 8);
        cache.put(4, value(11));
        assert!(cache.get(&4).is_none());
        assert_eq!(cache.bytes(), 8);
        cache.put(1, value(1));
        assert_eq!(cache.bytes(), 5);
        cache.remove(&1);
        cache.remove(&3);
        assert_eq!(cache.bytes(), 0);
    }

    #[test]
    fn a_value_is_made_once_however_many_ask() {
        let cache = ByteCache::new(100);
        let made = AtomicUsize::new(0);
        let barrier = Barrier::new(8);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    barrier.wait();
                    let result: Result<_, Infallible> = cache.get_or_make(&7, || {
                        made.fetch_add(1, Ordering::SeqCst);
                        std::thread::yield_now();
                        Ok(value(3))
                    });
                    assert_eq!(result.unwrap().len(), 3);
                });
            }
        });
        assert_eq!(made.load(Ordering::SeqCst), 1);
        assert!(cache.making.is_empty());
    }

    #[test]
    fn a_failure_is_not_kept() {
        let cache: ByteCache<u8, Arc<[u8]>> = ByteCache::new(100);
        assert_eq!(cache.get_or_make(&1, || Err("no")).unwrap_err(), "no");
        assert!(cache.get_or_make(&1, || Ok::<_, &str>(value(1))).is_ok());
    }
}
