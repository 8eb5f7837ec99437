//! Starting threads where their number may be limited: by `RLIMIT_NPROC` of a user, or by `pids.max` of a control group.

use std::io;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;
use rayon::{ThreadBuilder, ThreadPoolBuilder};

/// The system starts no more threads.
#[derive(Debug, thiserror::Error)]
#[error("cannot start a thread: {0}; raise the limit on processes (ulimit -u, or pids.max of the control group)")]
pub struct ThreadError(pub(crate) io::Error);

/// Starts a thread. `std::thread::spawn` panics where this fails.
pub(crate) fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, ThreadError> {
    thread::Builder::new().name(name.to_owned()).spawn(work).map_err(ThreadError)
}

/// Fails unless the system starts this many threads at a time. They end at once.
pub(crate) fn check(count: usize) -> Result<(), ThreadError> {
    let started: Result<Vec<_>, _> = (0..count).map(|_| WaitingThread::new()).collect();
    started?.into_iter().for_each(WaitingThread::end);
    Ok(())
}

/// Starts the pool of threads for work on the input (rayon's): `jobs` of them, or one for each processor. Where the system
/// starts fewer, the pool has half of those that it starts, since the program needs others. Fails if it starts none. Only
/// the first call of a process has an effect.
pub(crate) fn start_pool(jobs: Option<u16>) -> Result<(), ThreadError> {
    static IS_STARTED: Mutex<bool> = Mutex::new(false);
    let mut is_started = IS_STARTED.lock();
    if *is_started {
        return Ok(());
    }
    let threads = start_some(jobs.map_or_else(processors, usize::from))?;
    let count = threads.len();
    let mut threads = threads.into_iter();
    let run = |worker| threads.next().map_or(Err(io::ErrorKind::WouldBlock.into()), |thread| thread.run(worker));
    // rayon cannot try again with fewer threads, and panics when such a pool is used. So the threads are started before. The
    // only error that is left is that of a pool which was started elsewhere.
    ThreadPoolBuilder::new().num_threads(count).spawn_handler(run).build_global().ok();
    *is_started = true;
    Ok(())
}

/// The number that rayon would choose.
fn processors() -> usize {
    let named = std::env::var("RAYON_NUM_THREADS").ok().and_then(|number| number.parse().ok());
    named.filter(|&number| number > 0).unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from))
}

/// Starts `count` threads, or half of those that can be started.
fn start_some(count: usize) -> Result<Vec<WaitingThread>, ThreadError> {
    let mut threads = Vec::new();
    while threads.len() < count.max(1) {
        match WaitingThread::new() {
            Ok(thread) => threads.push(thread),
            Err(error) if threads.is_empty() => return Err(error),
            Err(_) => {
                threads.split_off(threads.len().div_ceil(2)).into_iter().for_each(WaitingThread::end);
                break;
            }
        }
    }
    Ok(threads)
}

/// A thread that waits for what it is to do.
struct WaitingThread {
    work: Sender<ThreadBuilder>,
    thread: JoinHandle<()>,
}

impl WaitingThread {
    fn new() -> Result<Self, ThreadError> {
        let (work, told) = channel::<ThreadBuilder>();
        let wait = move || {
            if let Ok(worker) = told.recv() {
                worker.run();
            }
        };
        let thread = thread::Builder::new().spawn(wait).map_err(ThreadError)?;
        Ok(Self { work, thread })
    }

    fn run(self, worker: ThreadBuilder) -> io::Result<()> {
        self.work.send(worker).map_err(|_| io::ErrorKind::WouldBlock.into())
    }

    fn end(self) {
        drop(self.work);
        self.thread.join().ok();
    }
}
