//! The budget, pools and caches under many schedules.

use super::{Budget, Pool};
use crate::metrics::MemoryClass;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Arc, check, thread};

/// Runs `work` on this many threads at a time.
fn threads<const N: usize>(work: impl Fn(usize) + Send + Sync + 'static) {
    let work = Arc::new(work);
    let mut number = 0;
    let threads = [(); N].map(|()| {
        number += 1;
        let (work, number) = (Arc::clone(&work), number - 1);
        thread::spawn(move || work(number))
    });
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn reservations_in_order_end_and_leave_nothing() {
    check(|| {
        let budget = Budget::new(10);
        let shared = Arc::clone(&budget);
        threads::<3>(move |number| {
            // One is larger than the whole budget.
            let bundle = shared.reserve(MemoryClass::Bundles, [7, 12, 5][number]);
            let compression = shared.reserve(MemoryClass::Compression, 4);
            let tried = shared.try_reserve_unless(MemoryClass::Compression, 1, || None::<()>);
            drop((bundle, tried));
            drop(compression);
        });
        assert_eq!(budget.gauges().total(), 0);
    });
}

#[test]
fn no_more_is_reserved_than_there_is() {
    check(|| {
        let budget = Budget::new(10);
        let shared = Arc::clone(&budget);
        threads::<3>(move |_| {
            let first = shared.reserve(MemoryClass::Bundles, 6);
            assert!(shared.gauges().total() <= 10);
            drop(first);
        });
        assert_eq!(budget.gauges().total(), 0);
    });
}

/// A thread that stops waiting, as by a panic, does not block those behind it.
#[test]
fn a_thread_that_stops_waiting_lets_others_come_forward() {
    check(|| {
        let budget = Budget::new(10);
        let shared = Arc::clone(&budget);
        threads::<3>(move |number| {
            if number == 0 {
                let panics = || {
                    shared.reserve_unless(MemoryClass::Bundles, 8, || -> Option<()> {
                        std::panic::resume_unwind(Box::new(()))
                    })
                };
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).unwrap_err();
            } else {
                drop(shared.reserve(MemoryClass::Bundles, 8));
            }
        });
        assert_eq!(budget.gauges().total(), 0);
    });
}

#[test]
fn buffers_go_from_one_thread_to_the_next() {
    check(|| {
        let budget = Budget::new(100);
        let pool = Arc::new(Pool::<Vec<u8>>::new(&budget, MemoryClass::Bundles));
        let (shared, lent) = (Arc::clone(&pool), AtomicUsize::new(0));
        threads::<3>(move |number| {
            // There is room for one only. The larger one is not reused for the smaller ones.
            let buffer = shared.buffer([60, 60, 12][number]);
            if number < 2 {
                assert_eq!(lent.fetch_add(1, Ordering::SeqCst), 0, "two of 60 bytes at a time");
                lent.fetch_sub(1, Ordering::SeqCst);
            }
            drop(buffer);
        });
        budget.release_idle();
        assert_eq!(budget.gauges().total(), 0);
    });
}
