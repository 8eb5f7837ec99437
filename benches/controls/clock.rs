//! Time that a thread has spent on a processor, which neighbours on a shared machine do not change much.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// CPU time of the calling thread so far.
pub(crate) fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or(0);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), nanoseconds)
}

/// What `work` answers, and the CPU time that it took.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = thread_time();
    let result = work();
    (result, thread_time().saturating_sub(start))
}
