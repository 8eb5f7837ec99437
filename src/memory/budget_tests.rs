use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::super::cache::ByteCache;
use super::super::pool::Pool;
use super::*;

const LONG: Duration = Duration::from_secs(300);

impl Budget {
    /// Releases idle buffers and compression contexts, but no decoder that a reader may continue.
    pub(crate) fn release_idle(&self) {
        self.release(|purpose| matches!(purpose, MemoryClass::Bundles | MemoryClass::Compression));
    }
}

fn bytes(size: usize) -> Arc<[u8]> {
    vec![1; size].into()
}

/// Fails instead of hanging if `work` does not end.
fn in_bounded_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, finished) = mpsc::channel();
    thread::spawn(move || done.send(work()));
    finished.recv_timeout(LONG).expect("threads wait for each other")
}

#[test]
fn gauges_are_what_is_held_and_zero_when_it_is_dropped() {
    let budget = Budget::new(1000);
    let mut compression = budget.reserve(MemoryClass::Compression, 200);
    compression.resize(250);
    let cache = ByteCache::new(&budget, MemoryClass::Frames);
    cache.put(1, bytes(300));
    let pool = Pool::<Vec<u8>>::new(&budget, MemoryClass::Bundles);
    let buffer = pool.buffer(400);
    let gauges =
        Gauges { capacity: 1000, bundles: 400, compression: 250, frames: 300, spans: 0, streams: 0, tables: 0 };
    assert_eq!(budget.gauges(), gauges);
    assert_eq!((gauges.total(), gauges.buffers()), (950, 650));
    drop((compression, buffer));
    assert_eq!(budget.gauges().buffers(), 400, "an idle buffer is held");
    budget.release_idle();
    assert_eq!((budget.gauges().buffers(), budget.gauges().total()), (0, 300));
    drop(cache);
    assert_eq!(budget.gauges().total(), 0);
}

#[test]
fn what_one_cache_does_not_use_another_can_and_reservations_come_first() {
    let budget = Budget::new(3200);
    let (frames, spans) = (ByteCache::new(&budget, MemoryClass::Frames), ByteCache::new(&budget, MemoryClass::Spans));
    for number in 0..40 {
        frames.put(number, bytes(100));
    }
    assert_eq!(frames.bytes(), 3100, "all but the other's share");
    assert!(frames.get(&9).is_some(), "used last");
    for number in 0..5 {
        spans.put(number, bytes(100));
    }
    assert_eq!((frames.bytes(), spans.bytes()), (2700, 500));
    assert!(frames.contains(&9) && !frames.contains(&10));
    let reservation = budget.reserve(MemoryClass::Compression, 3000);
    assert_eq!((frames.bytes(), spans.bytes()), (100, 100), "the shares stay");
    frames.put(50, bytes(100));
    assert_eq!(frames.bytes(), 100, "the younger one has taken the place of the older");
    assert!(frames.contains(&50));
    drop(reservation);
    frames.put(51, bytes(100));
    assert_eq!(frames.bytes(), 200);
}

#[test]
fn idle_buffers_are_used_again_and_make_room_for_others() {
    let budget = Budget::new(1000);
    let pool = Pool::<Vec<u8>>::new(&budget, MemoryClass::Bundles);
    let first = pool.buffer(600);
    let address = first.as_ptr();
    assert!(pool.try_buffer(600).is_none());
    drop(first);
    let again = pool.buffer(200);
    assert_eq!((again.as_ptr(), again.capacity()), (address, 600));
    drop(again);
    let small = pool.buffer(100);
    assert_eq!(small.capacity(), 100, "a sixth of it would be wasteful");
    let large = pool.try_buffer(800).unwrap();
    assert_eq!(budget.gauges().bundles, 900, "the idle one is gone");
    drop((small, large));
}

/// A reader at another place takes no value that a reader will continue, and does not evict it.
#[test]
fn leased_values_are_left_to_their_reader() {
    let budget = Budget::new(1000);
    let pool = Pool::<Vec<u8>>::new(&budget, MemoryClass::Streams);
    let mut leased = pool.buffer(400);
    let address = leased.as_ptr();
    leased.lease(u64::MAX, 1);
    drop(leased);
    assert!(pool.idle(|_| true).is_none());
    let other = pool.buffer(200);
    assert_eq!(other.capacity(), 200, "the leased one would do");
    assert!(pool.try_buffer(600).is_none(), "the leased one would have to go");
    let mut resumed = pool.resume(|buffer| Some(buffer.capacity() as u64)).unwrap();
    assert_eq!(resumed.as_ptr(), address);
    resumed.end_lease();
    drop(resumed);
    assert_eq!(pool.idle(|_| true).unwrap().as_ptr(), address);
}

/// A cache of small values without leases.
struct Counting {
    values: AtomicUsize,
    /// How many times all leases were looked through.
    scans: AtomicUsize,
    reservation: Mutex<Reservation>,
}

impl Reclaim for Counting {
    fn oldest(&self) -> Option<u64> {
        (self.values.load(Ordering::SeqCst) > 0).then_some(0)
    }

    fn reclaim(&self) -> bool {
        self.values.fetch_sub(1, Ordering::SeqCst);
        let mut reservation = self.reservation.lock();
        let left = reservation.bytes() - 1;
        reservation.resize(left);
        true
    }

    fn lease_left(&self) -> Option<Duration> {
        self.scans.fetch_add(1, Ordering::SeqCst);
        None
    }
}

#[test]
fn evictions_do_not_look_through_leases() {
    let budget = Budget::new(1000);
    let (values, scans) = (AtomicUsize::new(1000), AtomicUsize::new(0));
    let reservation = Mutex::new(budget.account(MemoryClass::Streams, 1000));
    let counting = Arc::new(Counting { values, scans, reservation });
    let reclaimable: Arc<dyn Reclaim> = Arc::<Counting>::clone(&counting);
    budget.register(MemoryClass::Streams, Arc::downgrade(&reclaimable));
    drop(budget.reserve(MemoryClass::Bundles, 500));
    // The guaranteed minima of two caches are unused.
    let evicted = 1000 - counting.values.load(Ordering::SeqCst);
    assert_eq!((evicted, counting.scans.load(Ordering::SeqCst)), (562, 0));
}

#[test]
fn a_waiting_thread_gets_a_buffer_before_later_ones() {
    let budget = Budget::new(1000);
    let pool = Arc::new(Pool::<Vec<u8>>::new(&budget, MemoryClass::Bundles));
    let held = pool.buffer(600);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| pool.buffer(600).capacity());
        while !budget.is_awaited(MemoryClass::Bundles) {
            thread::yield_now();
        }
        assert!(pool.try_buffer(100).is_none(), "there is room, but somebody waits");
        drop(held);
        assert_eq!(waiting.join().unwrap(), 600);
        assert!(pool.try_buffer(600).is_some());
    });
}

#[test]
fn idle_buffers_are_given_back_after_a_while() {
    let budget = Budget::new(1000);
    let pool = Pool::<Vec<u8>>::new(&budget, MemoryClass::Bundles);
    drop(pool.buffer(600));
    budget.release_when_idle();
    let started = std::time::Instant::now();
    while budget.gauges().bundles > 0 {
        assert!(started.elapsed() < LONG);
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn waiting_threads_get_released_memory_in_order() {
    let budget = Budget::new(1000);
    let first = budget.reserve(MemoryClass::Compression, 800);
    let (sender, order) = mpsc::channel();
    let waiting = |budget: &Budget| budget.state.lock().compression.waiting.len();
    let threads: Vec<_> = [700, 100]
        .into_iter()
        .enumerate()
        .map(|(position, size)| {
            let (other, sender) = (Arc::clone(&budget), sender.clone());
            let thread = thread::spawn(move || {
                let reservation = other.reserve(MemoryClass::Compression, size);
                sender.send(size).unwrap();
                reservation
            });
            // The small one would fit, but does not overtake.
            while waiting(&budget) <= position {
                thread::yield_now();
            }
            thread
        })
        .collect();
    assert!(order.try_recv().is_err());
    drop(first);
    let reservations: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert_eq!(budget.gauges().compression, 800);
    drop(reservations);
    assert_eq!(budget.gauges().total(), 0);
}

#[test]
fn only_one_thing_at_a_time_is_larger_than_everything() {
    in_bounded_time(|| {
        let budget = Budget::new(100);
        let together = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let reservation = budget.reserve(MemoryClass::Bundles, 500);
                    assert_eq!(together.fetch_add(1, Ordering::SeqCst), 0);
                    thread::yield_now();
                    together.fetch_sub(1, Ordering::SeqCst);
                    drop(reservation);
                });
            }
        });
        assert_eq!(budget.gauges().total(), 0);
    });
}

/// Every thread reserves a bundle, then memory for compression, from a budget too small for one of each, while caches
/// fill up. Never more than the budget plus one reservation of each class is in use.
#[test]
fn many_threads_and_a_tiny_budget_do_not_stop_each_other() {
    in_bounded_time(|| {
        let budget = Budget::new(100);
        let pool = Pool::<Vec<u8>>::new(&budget, MemoryClass::Bundles);
        let cache = ByteCache::new(&budget, MemoryClass::Frames);
        thread::scope(|scope| {
            for number in 0..16_u64 {
                let (budget, pool, cache) = (&budget, &pool, &cache);
                scope.spawn(move || {
                    for round in 0..100 {
                        let bundle = pool.buffer(20 + usize::try_from((number * round) % 90).unwrap());
                        let compression = budget.reserve(MemoryClass::Compression, 30 + number);
                        let gauges = budget.gauges();
                        assert!(gauges.total() <= 100 + 110 + 46, "{gauges:?}");
                        cache.put((number, round), bytes(2));
                        drop((compression, bundle));
                    }
                });
            }
        });
        budget.release_idle();
        assert_eq!(budget.gauges().total(), cache.bytes());
        assert!(cache.bytes() > 0);
    });
}

/// A thread that panics while it waits does not block those behind it.
#[test]
fn a_panic_gives_up_the_place_in_the_queue() {
    in_bounded_time(|| {
        let budget = Budget::new(10);
        let panics = || budget.reserve_unless(MemoryClass::Bundles, 5, || -> Option<()> { panic!("on purpose") });
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
        assert!(!budget.is_awaited(MemoryClass::Bundles));
        drop(budget.reserve(MemoryClass::Bundles, 5));
    });
}
