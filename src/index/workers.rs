//! Threads for work that takes long or may as well happen later: requests that have to make what they ask for, and making
//! what is likely to be asked for next.
//!
//! They are plain threads: a job that waits inside a rayon pool can be handed work of the very thing it waits for.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Most jobs wait for others that do the same work, so there may be many more of these threads than processors.
const MAX_THREADS: usize = 16;

type Job = Box<dyn FnOnce() + Send>;

/// Runs jobs in the order of their arrival, on threads that come into being when they are needed.
///
/// The queue has no bound of its own: the kernel has at most `max_background` requests and one per waiting process
/// in flight.
#[derive(Debug, Default)]
pub struct Workers(Arc<Queue>);

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    closed: bool,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").finish_non_exhaustive()
    }
}

impl Workers {
    /// Has a job done soon. Without any thread, because none can be made, the caller does it.
    pub fn run(&self, job: impl FnOnce() + Send + 'static) {
        let mut state = self.0.lock();
        state.jobs.push_back(Box::new(job));
        if state.jobs.len() > state.idle && state.threads < MAX_THREADS {
            let queue = Arc::clone(&self.0);
            let thread = thread::Builder::new().name("kpackfs-worker".to_owned()).spawn(move || queue.work());
            match thread {
                Ok(_) => state.threads += 1,
                Err(_) if state.threads == 0 => {
                    let job = state.jobs.pop_back();
                    drop(state);
                    job.into_iter().for_each(contained);
                    return;
                }
                Err(_) => {}
            }
        }
        drop(state);
        self.0.wake.notify_one();
    }
}

impl Drop for Workers {
    /// Lets the threads end once they have nothing left to do.
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.wake.notify_all();
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                contained(job);
                state = self.lock();
            } else if state.closed {
                state.threads -= 1;
                return;
            } else {
                state.idle += 1;
                state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
            }
        }
    }
}

/// A thread outlives a job that panics. If that was a request, its reply answers EIO when it is dropped.
fn contained(job: Job) {
    if catch_unwind(AssertUnwindSafe(job)).is_err() {
        tracing::error!("a job panicked outside of its own boundary");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn jobs_that_wait_do_not_hold_up_others_and_panics_end_no_thread() {
        let workers = Workers::default();
        let (release, wait) = mpsc::channel::<()>();
        let (done, finished) = mpsc::channel();
        workers.run(move || wait.recv().unwrap());
        for number in 0..100 {
            let done = done.clone();
            workers.run(move || {
                done.send(number).unwrap();
                assert!(number % 10 != 0, "on purpose");
            });
        }
        let mut numbers: Vec<i32> = (0..100).map(|_| finished.recv_timeout(Duration::from_secs(10)).unwrap()).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..100).collect::<Vec<_>>());
        assert!(workers.0.lock().threads <= MAX_THREADS);
        release.send(()).unwrap();
    }
}
