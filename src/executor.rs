//! Threads for work that takes long or may as well happen later: requests that have to make what they ask for, and making
//! what is likely to be asked for next.
//!
//! They are plain threads: a job that waits inside a rayon pool can be handed work of the very thing it waits for.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Most jobs wait for others that do the same work, so there may be many more of these threads than processors.
const MAX_THREADS: usize = 64;

/// Threads that stay although there is nothing to do. Threads keep what compressing needs, so there should be few.
const KEPT_THREADS: usize = 4;

/// For how long they stay.
const KEPT_FOR: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce() + Send>;

/// Runs jobs in the order of their arrival, on threads that come into being when they are needed.
///
/// The queue has no bound of its own: the kernel has at most `max_background` requests and one per waiting process
/// in flight.
#[derive(Debug, Default)]
pub struct Executor(Arc<Queue>);

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

impl Executor {
    /// Has a job done soon. Without any thread, because none can be made, the caller does it.
    pub fn run(&self, job: impl FnOnce() + Send + 'static) {
        if let Err(job) = self.accept(Box::new(job)) {
            contained(job);
        }
    }

    /// Has a job done that nobody needs: without any thread it is left. Whether it will be done.
    pub fn offer(&self, job: impl FnOnce() + Send + 'static) -> bool {
        self.accept(Box::new(job)).is_ok()
    }

    fn accept(&self, job: Job) -> Result<(), Job> {
        let mut state = self.0.lock();
        if state.jobs.len() >= state.idle && state.threads < MAX_THREADS {
            let queue = Arc::clone(&self.0);
            let thread = thread::Builder::new().name("kpackfs-worker".to_owned()).spawn(move || queue.work());
            match thread {
                Ok(_) => state.threads += 1,
                Err(_) if state.threads == 0 => return Err(job),
                Err(_) => {}
            }
        }
        state.jobs.push_back(job);
        drop(state);
        self.0.wake.notify_one();
        Ok(())
    }

    /// Threads there are now.
    pub fn threads(&self) -> usize {
        self.0.lock().threads
    }
}

impl Drop for Executor {
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

    /// Does jobs until there have been none for a while.
    fn work(&self) {
        let mut state = self.lock();
        let mut waited = false;
        loop {
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                contained(job);
                state = self.lock();
                waited = false;
            } else if state.closed || waited || state.idle >= KEPT_THREADS {
                state.threads -= 1;
                return;
            } else {
                state.idle += 1;
                let (locked, timeout) = self.wake.wait_timeout(state, KEPT_FOR).unwrap_or_else(PoisonError::into_inner);
                state = locked;
                state.idle -= 1;
                waited = timeout.timed_out();
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
        let workers = Executor::default();
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
        assert!(workers.threads() <= MAX_THREADS);
        release.send(()).unwrap();
    }

    #[test]
    fn there_are_as_many_threads_as_jobs_that_wait_and_few_when_they_are_done() {
        let workers = Executor::default();
        let (tell, told) = mpsc::channel();
        let held: Vec<_> = (1..MAX_THREADS)
            .map(|_| {
                let (release, wait) = mpsc::channel::<()>();
                let tell = tell.clone();
                workers.run(move || {
                    tell.send(()).unwrap();
                    wait.recv().ok();
                });
                release
            })
            .collect();
        for _ in &held {
            told.recv_timeout(Duration::from_secs(10)).unwrap();
        }
        // All of them wait, and still there is a thread for whoever comes.
        workers.run(move || tell.send(()).unwrap());
        told.recv_timeout(Duration::from_secs(10)).unwrap();
        assert!((held.len()..=MAX_THREADS).contains(&workers.threads()), "{}", workers.threads());
        drop(held);
        let limit = std::time::Instant::now() + Duration::from_secs(10);
        while workers.threads() > KEPT_THREADS && std::time::Instant::now() < limit {
            thread::yield_now();
        }
        assert!(workers.threads() <= KEPT_THREADS, "{}", workers.threads());
    }
}
