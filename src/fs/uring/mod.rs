//! FUSE over `io_uring` (Documentation/filesystems/fuse-io-uring.rst), a second transport of requests: each possible
//! processor has a queue of entries, which are buffers. An entry is registered once. A completion says that the kernel has
//! put a request into it, and the command that commits the reply also asks for the next request.
//!
//! A thread on each processor owns the ring of its queue. It answers what cannot block. Executor threads answer the rest:
//! they write into the buffers, and hand the entry back by a list and an eventfd.
//!
//! From the answer to INIT on, the kernel holds back all requests until every queue has an entry. So rings and buffers
//! are made and tried before the session. FORGET, INTERRUPT and notifications travel through `/dev/fuse`.

mod entry;
mod error;
mod queue;

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

pub(crate) use self::entry::PAYLOAD;
use self::entry::{DEPTH, EntryOwner};
pub use self::error::RingError;
use self::error::{ENABLE, MAX_QUEUES, POSSIBLE, SYSFS};
use self::queue::RingQueue;
use crate::fs::answer::Answers;
use crate::threads;

/// The queues of a mount, each with a thread. Dropping it ends the threads.
pub(crate) struct Rings {
    queues: Vec<QueueThread>,
    /// The number of queues that there are, as far as the queue knows.
    registered: Receiver<Result<u16, RingError>>,
    answers: Arc<Answers>,
    is_ending: Arc<AtomicBool>,
}

struct QueueThread {
    owner: Arc<EntryOwner>,
    start: Sender<RingStart>,
    thread: JoinHandle<()>,
}

/// What the thread of a queue needs to begin.
#[derive(Clone)]
struct RingStart {
    device: Arc<OwnedFd>,
    /// The number of queues that are prepared.
    prepared: u16,
    /// Ends the mount: while the ring of a processor has failed, requests from there wait for ever.
    fail: Arc<dyn Fn(RingError) + Send + Sync>,
}

/// Fails if the kernel does not allow rings, as far as that is known before mounting.
pub(crate) fn check() -> Result<(), RingError> {
    if !Path::new(ENABLE).exists() {
        #[expect(clippy::disallowed_methods, reason = "the device of FUSE, which opens without waiting")]
        // It loads the module.
        File::open("/dev/fuse").ok();
    }
    match read(ENABLE) {
        Ok(value) if value.trim() == "Y" => Ok(()),
        Ok(_) => Err(RingError::Off),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(if Path::new(SYSFS).join("module").exists() { RingError::Missing } else { RingError::NoSysfs })
        }
        // The answer to INIT will tell.
        Err(_) => Ok(()),
    }
}

impl Rings {
    /// Makes and tries the rings, and reserves the buffers. This process must not fork afterwards.
    pub(crate) fn prepare(answers: &Arc<Answers>) -> Result<Self, RingError> {
        check()?;
        let number = possible_processors()?;
        if number > MAX_QUEUES {
            return Err(RingError::TooMany(number));
        }
        let is_ending = Arc::new(AtomicBool::new(false));
        // Threads inherit the processors of the one that starts them, which may be that of a queue.
        if let Ok(processors) = sched_getaffinity(None) {
            answers.fs.resources.executor.run_on(processors);
        }
        let (report, registered) = channel();
        let answers = Arc::clone(answers);
        let mut rings = Self { queues: Vec::new(), registered, answers, is_ending };
        for number in 0..number {
            rings.add(number, report.clone())?;
        }
        Ok(rings)
    }

    fn add(&mut self, number: u16, report: Sender<Result<u16, RingError>>) -> Result<(), RingError> {
        let (tell, made) = channel();
        let (start, wait) = channel::<RingStart>();
        let (answers, is_ending) = (Arc::clone(&self.answers), Arc::clone(&self.is_ending));
        let work = move || {
            pin(number);
            let mut queue = match RingQueue::new(number) {
                Ok(queue) => queue,
                Err(error) => return tell.send(Err(error)).unwrap_or(()),
            };
            tell.send(Ok(Arc::clone(&queue.owner))).ok();
            let Ok(RingStart { device, prepared, fail }) = wait.recv() else { return };
            let result = queue.register(&device).and_then(|()| match number {
                0 => queue.count(&device, prepared),
                _ => Ok(prepared),
            });
            let is_registered = result.is_ok();
            report.send(result).ok();
            if !is_registered {
                return;
            }
            let broken = match catch_unwind(AssertUnwindSafe(|| queue.serve(&device, &answers, &is_ending))) {
                Ok(Ok(())) => return,
                Ok(Err(error)) => error.to_string(),
                Err(_) => "a panic".to_owned(),
            };
            fail(RingError::Broken(number, broken));
        };
        let thread = threads::spawn(&format!("kpackfs-ring{number}"), work)?;
        let gone = |_| RingError::Ring(io::Error::other("its thread is gone"));
        let owner = made.recv().map_err(gone)?.map_err(RingError::Ring)?;
        self.queues.push(QueueThread { owner, start, thread });
        Ok(())
    }

    /// Gives the kernel the entries of all queues, after its INIT. From then on they are answered. `fail` is called if
    /// a ring fails later. The list of processors may name more than the kernel has; it has no queues for those.
    pub(crate) fn start(
        &mut self,
        device: &Arc<OwnedFd>,
        fail: impl Fn(RingError) + Send + Sync + 'static,
    ) -> Result<(), RingError> {
        if !self.answers.is_agreed() {
            return Err(RingError::Missing);
        }
        let prepared = u16::try_from(self.queues.len()).unwrap_or(u16::MAX);
        let start = RingStart { device: Arc::clone(device), prepared, fail: Arc::new(fail) };
        let count = self.start_queues(0..1, &start)?;
        end(self.queues.split_off(count.into()));
        self.start_queues(1..count, &start)?;
        let entries = u64::from(count) * u64::from(DEPTH);
        self.answers.fs.resources.counters.ring_entries.add(entries);
        Ok(())
    }

    /// Starts some of the queues. Returns the number of all that there are.
    fn start_queues(&self, which: Range<u16>, start: &RingStart) -> Result<u16, RingError> {
        let queues = self.queues.get(usize::from(which.start)..usize::from(which.end)).unwrap_or_default();
        for queue in queues {
            queue.start.send(start.clone()).ok();
        }
        let gone = |_| Err(RingError::Broken(which.start, "its thread is gone".to_owned()));
        let results: Vec<_> = queues.iter().map(|_| self.registered.recv().unwrap_or_else(gone)).collect();
        // An error after which the kernel does not fall back counts most.
        let worst = results.iter().position(|result| result.as_ref().is_err_and(|error| !error.falls_back()));
        let first = results.iter().position(Result::is_err).unwrap_or(0);
        results.into_iter().nth(worst.unwrap_or(first)).unwrap_or(Ok(which.end))
    }
}

impl Drop for Rings {
    fn drop(&mut self) {
        self.is_ending.store(true, Ordering::Release);
        end(self.queues.drain(..));
    }
}

/// Waits for the ends of threads of queues, which were not started or are ending.
fn end(queues: impl IntoIterator<Item = QueueThread>) {
    for QueueThread { owner, start, thread } in queues {
        drop(start);
        owner.wake();
        thread.join().ok();
    }
}

/// Keeps this thread on a processor. One that is not online has a queue, too, but no requests.
fn pin(processor: u16) {
    let mut here = CpuSet::new();
    if usize::from(processor) < CpuSet::MAX_CPU {
        here.set(processor.into());
        sched_setaffinity(None, &here).ok();
    }
}

/// The number of possible processors, each of which must have a queue.
fn possible_processors() -> Result<u16, RingError> {
    let text = read(POSSIBLE).map_err(|error| RingError::Processors(error.to_string()))?;
    processors_in(&text).ok_or_else(|| RingError::Processors(format!("{text:?} is no list of processors")))
}

fn read(path: &str) -> io::Result<String> {
    #[expect(clippy::disallowed_methods, reason = "a file of sysfs, which never waits")]
    std::fs::read_to_string(path)
}

/// The number of processors in a list such as `0`, `0-127` or `0-3,8-11`. The kernel has as many queues.
fn processors_in(text: &str) -> Option<u16> {
    text.trim().split(',').try_fold(0_u16, |count, range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let length = last.parse::<u16>().ok()?.checked_sub(first.parse().ok()?)?.checked_add(1)?;
        count.checked_add(length)
    })
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
