//! A pool of threads for work that may block. It has two lanes: requests whose answers need work, and background work
//! that no request waits for.
//!
//! Requests come first. Background work occupies at most half of the threads, so that a request finds a free one.
//!
//! They are plain threads, not rayon's: a thread whose job waits inside a rayon pool may be given another job, which
//! waits for the first one.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_setaffinity};

use crate::sync::{Arc, Condvar, Mutex, rank, thread};

/// Threads at most. Most jobs wait for other jobs, so there may be many more threads than processors.
const MAX_THREADS: usize = 64;

/// Idle threads that are kept. Each keeps its buffers for compression, so there should be few.
const KEPT_THREADS: usize = 4;

/// How long these idle threads are kept. Others end at once.
const KEPT_FOR: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce() + Send>;

/// The priority of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lane {
    Request,
    Background,
}

/// Runs the jobs of each lane in the order of their arrival, on threads that are started on demand.
///
/// The queues need no bound: the kernel has at most `max_background` background requests in flight, and one for each
/// waiting process.
#[derive(Debug)]
pub struct Executor(Arc<Queue>);

#[derive(derive_more::Debug)]
#[debug("Queue")]
struct Queue {
    state: Mutex<ExecutorState, { rank::EXECUTOR }>,
    wake: Condvar,
    /// Where threads run that are started from now on.
    processors: OnceLock<CpuSet>,
}

#[derive(Default)]
struct ExecutorState {
    /// Threads at most.
    max: usize,
    requests: VecDeque<Job>,
    background: VecDeque<Job>,
    /// Threads that do background work.
    busy_in_background: usize,
    threads: usize,
    idle: usize,
    closed: bool,
}

impl Default for Executor {
    fn default() -> Self {
        Self::with_threads(MAX_THREADS)
    }
}

impl Executor {
    /// An executor of at most `max` threads.
    fn with_threads(max: usize) -> Self {
        let state = ExecutorState { max, ..ExecutorState::default() };
        Self(Arc::new(Queue { state: Mutex::new(state), wake: Condvar::new(), processors: OnceLock::new() }))
    }

    /// Queues a request. If no existing thread can run it and none can be created, the caller runs it.
    pub fn run(&self, job: impl FnOnce() + Send + 'static) {
        if let Err(job) = self.accept(Lane::Request, Box::new(job)) {
            contained(job);
        }
    }

    /// Queues background work. Returns `false` and drops the job if there is no thread and none can be created.
    pub fn run_in_background(&self, job: impl FnOnce() + Send + 'static) -> bool {
        self.accept(Lane::Background, Box::new(job)).is_ok()
    }

    fn accept(&self, lane: Lane, job: Job) -> Result<(), Job> {
        let mut state = self.0.state.lock();
        if state.needs_thread(lane) {
            let queue = Arc::clone(&self.0);
            let thread = thread::Builder::new().name("kpackfs-worker".to_owned()).spawn(move || queue.work());
            match thread {
                Ok(_) => state.threads += 1,
                // Background work may wait for a request, so it does not count as a thread that serves this one.
                Err(_) if lane == Lane::Request && state.threads == state.busy_in_background => return Err(job),
                Err(_) if state.threads == 0 => return Err(job),
                Err(_) => {}
            }
        }
        match lane {
            Lane::Request => state.requests.push_back(job),
            Lane::Background => state.background.push_back(job),
        }
        drop(state);
        self.0.wake.notify_one();
        Ok(())
    }

    /// Sets the processors of threads that are started from now on. Otherwise they have those of the thread that queues
    /// the job.
    pub fn run_on(&self, processors: CpuSet) {
        self.0.processors.set(processors).ok();
    }

    /// Number of threads now.
    pub fn threads(&self) -> usize {
        self.0.state.lock().threads
    }
}

impl Drop for Executor {
    /// Ends the threads once the queues are empty.
    fn drop(&mut self) {
        self.0.state.lock().closed = true;
        self.0.wake.notify_all();
    }
}

impl ExecutorState {
    /// Background jobs that may start now: background work occupies at most half of the threads.
    fn free_in_background(&self) -> usize {
        (self.max / 2).saturating_sub(self.busy_in_background)
    }

    /// Whether another thread would find work if a job were added to this lane. Idle threads are about to take the jobs
    /// that are queued already.
    fn needs_thread(&self, lane: Lane) -> bool {
        let is_full = lane == Lane::Background && self.background.len() >= self.free_in_background();
        let ready = self.requests.len() + self.background.len().min(self.free_in_background());
        !is_full && ready >= self.idle && self.threads < self.max
    }

    fn next(&mut self) -> Option<(Lane, Job)> {
        if let Some(job) = self.requests.pop_front() {
            return Some((Lane::Request, job));
        }
        if self.free_in_background() == 0 {
            return None;
        }
        let job = self.background.pop_front()?;
        self.busy_in_background += 1;
        Some((Lane::Background, job))
    }
}

impl Queue {
    /// Runs jobs until none has arrived for a while.
    fn work(&self) {
        if let Some(processors) = self.processors.get() {
            sched_setaffinity(None, processors).ok();
        }
        let mut state = self.state.lock();
        let mut waited = false;
        loop {
            if let Some((lane, job)) = state.next() {
                drop(state);
                contained(job);
                state = self.state.lock();
                state.busy_in_background -= usize::from(lane == Lane::Background);
                waited = false;
            } else if state.closed || waited || state.idle >= KEPT_THREADS {
                state.threads -= 1;
                return;
            } else {
                state.idle += 1;
                let (locked, timeout) = self.wake.wait_timeout(state, KEPT_FOR);
                state = locked;
                state.idle -= 1;
                waited = timeout.timed_out();
            }
        }
    }
}

/// Runs a job, and catches a panic so that the thread survives. If the job was a request, dropping its reply answers
/// EIO.
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
        let mut numbers: Vec<i32> =
            (0..100).map(|_| finished.recv_timeout(Duration::from_secs(300)).unwrap()).collect();
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
            told.recv_timeout(Duration::from_secs(300)).unwrap();
        }
        // All threads wait, and there is still one for the next request.
        workers.run(move || tell.send(()).unwrap());
        told.recv_timeout(Duration::from_secs(300)).unwrap();
        assert!((held.len()..=MAX_THREADS).contains(&workers.threads()), "{}", workers.threads());
        drop(held);
        let limit = std::time::Instant::now() + Duration::from_secs(300);
        while workers.threads() > KEPT_THREADS && std::time::Instant::now() < limit {
            thread::yield_now();
        }
        assert!(workers.threads() <= KEPT_THREADS, "{}", workers.threads());
    }

    #[test]
    fn requests_do_not_wait_for_work_in_the_background() {
        let executor = Executor::default();
        let (tell, told) = mpsc::channel();
        let (release, wait) = mpsc::channel::<()>();
        let wait = Arc::new(Mutex::<_>::new(wait));
        for _ in 0..2 * MAX_THREADS {
            let (tell, wait) = (tell.clone(), Arc::clone(&wait));
            assert!(executor.run_in_background(move || {
                tell.send("background").unwrap();
                wait.lock().recv().ok();
            }));
        }
        for _ in 0..MAX_THREADS / 2 {
            assert_eq!(told.recv_timeout(Duration::from_secs(300)), Ok("background"));
        }
        let asked = tell.clone();
        executor.run(move || asked.send("request").unwrap());
        assert_eq!(told.recv_timeout(Duration::from_secs(300)), Ok("request"), "no other has begun");
        drop(release);
        for _ in MAX_THREADS / 2..2 * MAX_THREADS {
            assert_eq!(told.recv_timeout(Duration::from_secs(300)), Ok("background"));
        }
    }
}

#[cfg(all(test, feature = "shuttle"))]
mod schedules {
    use super::*;
    use crate::sync::atomic::{AtomicUsize, Ordering};
    use crate::sync::check;

    /// Waits until all threads have ended.
    fn wait_for_end(executor: Executor) {
        let queue = Arc::clone(&executor.0);
        drop(executor);
        while queue.state.lock().threads > 0 {
            thread::yield_now();
        }
    }

    #[test]
    fn each_job_is_done_once_and_threads_end() {
        check(|| {
            let executor = Arc::new(Executor::with_threads(2));
            let done = [(); 6].map(|()| Arc::new(AtomicUsize::new(0)));
            let callers = [0, 3].map(|first| {
                let (executor, done) = (Arc::clone(&executor), done[first..first + 3].to_vec());
                thread::spawn(move || {
                    for (number, done) in done.into_iter().enumerate() {
                        let job = move || {
                            done.fetch_add(1, Ordering::SeqCst);
                        };
                        if number == 1 {
                            assert!(executor.run_in_background(job));
                        } else {
                            executor.run(job);
                        }
                    }
                })
            });
            callers.into_iter().for_each(|caller| caller.join().unwrap());
            // Before the end, which wakes all threads.
            while done.iter().any(|done| done.load(Ordering::SeqCst) == 0) {
                thread::yield_now();
            }
            wait_for_end(Arc::try_unwrap(executor).unwrap());
            assert!(done.iter().all(|done| done.load(Ordering::SeqCst) == 1));
        });
    }

    /// Background work that waits for a request never takes the thread that the request needs.
    #[test]
    fn a_request_finds_a_thread_while_all_others_wait_for_it() {
        check(|| {
            let executor = Executor::with_threads(2);
            let answered = Arc::new((Mutex::<_>::new(false), Condvar::new()));
            for _ in 0..3 {
                let answered = Arc::clone(&answered);
                executor.run_in_background(move || {
                    let (state, changed) = &*answered;
                    let mut is_answered = state.lock();
                    while !*is_answered {
                        is_answered = changed.wait(is_answered);
                    }
                });
            }
            executor.run(move || {
                *answered.0.lock() = true;
                answered.1.notify_all();
            });
            wait_for_end(executor);
        });
    }

    #[test]
    fn a_job_that_panics_takes_no_thread_along() {
        check(|| {
            let executor = Executor::with_threads(2);
            let done = Arc::new(AtomicUsize::new(0));
            for number in 0..4 {
                let done = Arc::clone(&done);
                let job = move || {
                    done.fetch_add(1, Ordering::SeqCst);
                    // As a panic, but without a report for each schedule.
                    if number % 2 == 0 {
                        std::panic::resume_unwind(Box::new(()));
                    }
                };
                if number < 2 {
                    executor.run(job);
                } else {
                    assert!(executor.run_in_background(job));
                }
            }
            let queue = Arc::clone(&executor.0);
            wait_for_end(executor);
            assert_eq!((done.load(Ordering::SeqCst), queue.state.lock().busy_in_background), (4, 0));
        });
    }
}
