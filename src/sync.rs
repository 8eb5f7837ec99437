//! Locks, condition variables, atomics and threads for code in which threads wait for each other. They are those of
//! std. With the feature `shuttle` they are those of [shuttle](https://docs.rs/shuttle), which runs a test under many
//! schedules, one thread at a time. In debug builds and in tests of schedules, locks assert that they are taken in the
//! order of their [ranks](rank).
//!
//! With that feature nothing works outside of such a test. A lock that is held across an operation of this module has
//! to come from this module, too. Other locks may be those of std.

mod lock;
pub(crate) mod rank;

pub(crate) use self::lock::{Condvar, Mutex, MutexGuard};
#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::{Arc, Weak, atomic};
#[cfg(feature = "shuttle")]
pub(crate) use shuttle::thread;
#[cfg(not(feature = "shuttle"))]
pub(crate) use std::sync::{Arc, Weak, atomic};
#[cfg(not(feature = "shuttle"))]
pub(crate) use std::thread;

/// Runs a test under random schedules, and under as many schedules with few preemptions at random points (PCT). The
/// environment variable `KPACKFS_SCHEDULES` sets how many. A schedule that fails is printed and can be run again with
/// `shuttle::replay`.
#[cfg(all(test, feature = "shuttle"))]
pub(crate) fn check(test: impl Fn() + Send + Sync + Copy + 'static) {
    use shuttle::scheduler::{PctScheduler, RandomScheduler};
    use shuttle::{Config, Runner};

    /// Bytes of stack of each thread. zstd and zlib need more than shuttle's default of 32 KiB.
    const STACK: usize = 1 << 20;
    /// PCT's bug depth: the number of preemptions, plus one. Few bugs need more than two (Burckhardt et al., "A
    /// Randomized Scheduler with Probabilistic Guarantees of Finding Bugs").
    const DEPTH: usize = 3;
    let count = std::env::var("KPACKFS_SCHEDULES").map_or(300, |count| count.parse().unwrap());
    let config = || {
        let mut config = Config::new();
        config.stack_size = STACK;
        config
    };
    Runner::new(RandomScheduler::new(count), config()).run(test);
    Runner::new(PctScheduler::new(DEPTH, count), config()).run(test);
}
