//! Locks, condition variables, atomics and threads of all code in which threads wait for each other: those of std, or with the feature
//! `shuttle` those of [shuttle](https://docs.rs/shuttle), which runs a test under many schedules, one thread at a time.
//!
//! With that feature nothing works outside of such a test. A lock that is held while operations of this module go on has to be
//! of this module, too; others may be those of std.

#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::{Arc, Condvar, Mutex, MutexGuard, Weak, atomic};
#[cfg(feature = "shuttle")]
pub(crate) use shuttle::thread;
#[cfg(not(feature = "shuttle"))]
pub(crate) use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak, atomic};
pub(crate) use std::sync::{PoisonError, TryLockError};
#[cfg(not(feature = "shuttle"))]
pub(crate) use std::thread;

/// Runs a test under random schedules, and under as many with few preemptions at the places that matter (PCT). `KPACKFS_SCHEDULES`
/// says how many. A schedule that fails is printed and can be run again with `shuttle::replay`.
#[cfg(all(test, feature = "shuttle"))]
pub(crate) fn check(test: impl Fn() + Send + Sync + Copy + 'static) {
    use shuttle::scheduler::{PctScheduler, RandomScheduler};
    use shuttle::{Config, Runner};

    /// zstd and zlib want more than shuttle's 32 KiB.
    const STACK: usize = 1 << 20;
    /// Preemptions of a schedule, and one more. Few bugs need more than two (Burckhardt et al., "A Randomized Scheduler with
    /// Probabilistic Guarantees of Finding Bugs").
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
