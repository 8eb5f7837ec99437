//! Time that a thread has spent on a processor. Other load on a shared machine changes it little.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// CPU time of the calling thread so far.
pub(crate) fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or(0);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), nanoseconds)
}

/// The result of `work`, and the CPU time that it took.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = thread_time();
    let result = work();
    (result, thread_time().saturating_sub(start))
}
