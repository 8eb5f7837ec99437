//! Which frame a thread makes next, and which callers wait for it.

use std::collections::{HashMap, HashSet, VecDeque};

use super::frame::{Frame, MadeFrame};
use crate::fatbin::{Compressed, Decompressed, OpenBundle};
use crate::rope::ReadError;
use crate::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The bundle of a job, by its number; `None` for all code objects that are not in a compressed one.
pub(super) type JobKey = Option<u64>;

#[derive(Default)]
pub(super) struct Schedule {
    jobs: HashMap<JobKey, BundleJob>,
    /// Jobs whose bundle can be read.
    open: Vec<JobKey>,
    /// Jobs whose bundle has to be opened, for a caller that waits.
    queue: VecDeque<JobKey>,
    /// The same if nobody waits.
    background: VecDeque<JobKey>,
    /// Threads that work.
    pub(super) threads: usize,
    /// Of these, those that open a bundle or compress.
    pub(super) busy: usize,
    /// Whether there was no memory for another bundle, and nothing was finished since.
    is_short: bool,
    /// Bytes of code objects that were compressed.
    pub(super) compressed: u64,
}

/// What is to be made of one bundle.
pub(super) struct BundleJob {
    bundle: Option<Arc<Compressed>>,
    /// The bundle while it is open. A stream is not here while a frame is made of it.
    open: OpenBundle,
    /// In the order in which callers want them made.
    pending: VecDeque<Demand>,
    running: Vec<Demand>,
    /// Of all of these.
    frames: HashSet<u64>,
}

/// A frame that is to be made, with those who wait for it.
#[derive(Debug)]
pub(super) struct Demand {
    frame: Arc<Frame>,
    waiting: Vec<Arc<Ticket>>,
}

/// What a caller waits for.
#[derive(Debug, Default)]
pub(super) struct Ticket {
    state: Mutex<JobProgress>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct JobProgress {
    /// Number of frames that are not made.
    left: usize,
    /// Bytes of code objects that were compressed since the caller looked last.
    bytes: u64,
    last: Option<MadeFrame>,
    error: Option<ReadError>,
}

/// What a thread is to do next.
pub(super) enum BundleTask {
    Open(JobKey, Arc<Compressed>),
    Make(JobKey, Arc<Frame>, OpenBundle),
}

pub(super) fn key(frame: &Frame) -> JobKey {
    frame.object.bundle.as_ref().map(|bundle| bundle.id())
}

impl Schedule {
    /// Has a frame made, or has one more caller wait for it. `false` if it is there: it is stored before its demand ends.
    pub(super) fn add(&mut self, frame: &Arc<Frame>, ticket: Option<&Arc<Ticket>>) -> bool {
        if frame.is_done() {
            return false;
        }
        let key = key(frame);
        let is_new = !self.jobs.contains_key(&key);
        let bundle = &frame.object.bundle;
        let job = self.jobs.entry(key).or_insert_with(|| BundleJob {
            bundle: bundle.clone(),
            open: OpenBundle::None,
            pending: VecDeque::new(),
            running: Vec::new(),
            frames: HashSet::new(),
        });
        if job.frames.insert(frame.id()) {
            let waiting = ticket.cloned().into_iter().collect();
            job.pending.push_back(Demand { frame: Arc::clone(frame), waiting });
        } else {
            let mut demands = job.pending.iter_mut().chain(&mut job.running);
            if let Some(demand) = demands.find(|demand| demand.frame.id() == frame.id()) {
                demand.waiting.extend(ticket.cloned());
            }
        }
        if is_new && bundle.is_none() {
            self.open.push(key);
        } else if is_new && ticket.is_none() {
            self.background.push_back(key);
        } else if is_new {
            self.queue.push_back(key);
        } else if ticket.is_some()
            && let Some(found) = self.background.iter().position(|other| *other == key)
        {
            self.background.remove(found);
            self.queue.push_back(key);
        }
        true
    }

    /// Code objects of a bundle can be read from now on. These others of it are made, too.
    pub(super) fn open(&mut self, key: JobKey, open: OpenBundle, others: &[Arc<Frame>]) {
        if let Some(job) = self.jobs.get_mut(&key) {
            job.open = open;
        }
        self.open.push(key);
        for frame in others {
            self.add(frame, None);
        }
    }

    /// There was no memory to open a bundle.
    pub(super) fn postpone(&mut self, key: JobKey) {
        self.is_short = true;
        let is_awaited = self.jobs.get(&key).is_some_and(|job| job.pending.iter().any(Demand::is_waiting));
        if is_awaited { &mut self.queue } else { &mut self.background }.push_front(key);
    }

    /// Gives a job up that is neither open nor queued.
    pub(super) fn remove(&mut self, key: JobKey) -> Option<BundleJob> {
        self.jobs.remove(&key)
    }

    /// A frame was made, or failed: its demand, and its job if that has nothing left to do. `bundle` is what the frame
    /// was made of.
    pub(super) fn end(
        &mut self,
        key: JobKey,
        frame: &Frame,
        bundle: &mut OpenBundle,
    ) -> (Option<Demand>, Option<BundleJob>) {
        self.is_short = false;
        self.compressed += frame.size();
        let Some(job) = self.jobs.get_mut(&key) else { return (None, None) };
        let found = job.running.iter().position(|demand| demand.frame.id() == frame.id());
        let demand = found.map(|found| job.running.swap_remove(found));
        job.frames.remove(&frame.id());
        if job.is_stream() {
            job.open = std::mem::take(bundle);
        }
        if !job.pending.is_empty() || !job.running.is_empty() {
            return (demand, None);
        }
        self.open.retain(|other| *other != key);
        (demand, self.jobs.remove(&key))
    }

    /// How many threads would find something to do, at least if there are few.
    pub(super) fn tasks(&self) -> usize {
        let open = self.open.iter().filter_map(|key| self.jobs.get(key));
        let open: usize = open.map(BundleJob::tasks).sum();
        if self.can_open() { open + self.queue.len() + self.background.len() } else { open }
    }

    /// Whether to open another bundle: not while there is no memory for it and some may be given back here.
    fn can_open(&self) -> bool {
        !self.is_short || self.busy == 0
    }

    /// Whether a bundle takes memory.
    pub(super) fn is_holding(&self) -> bool {
        self.open.iter().filter_map(|key| self.jobs.get(key)).any(|job| !matches!(job.open, OpenBundle::None))
    }

    /// What is next: a frame that a caller waits for, of a bundle that is open or to be opened, and then the others.
    pub(super) fn next(&mut self) -> Option<BundleTask> {
        if let Some(task) = self.next_frame(true) {
            return Some(task);
        }
        if !self.is_short
            && let Some(task) = self.next_bundle(true)
        {
            return Some(task);
        }
        self.next_frame(false).or_else(|| self.next_bundle(true)).or_else(|| self.next_bundle(false))
    }

    fn next_bundle(&mut self, is_awaited: bool) -> Option<BundleTask> {
        if !self.can_open() {
            return None;
        }
        let key = if is_awaited { &mut self.queue } else { &mut self.background }.pop_front()?;
        let bundle = self.jobs.get(&key)?.bundle.clone()?;
        Some(BundleTask::Open(key, bundle))
    }

    fn next_frame(&mut self, is_awaited: bool) -> Option<BundleTask> {
        for key in &self.open {
            let Some(job) = self.jobs.get_mut(key) else { continue };
            if let Some(number) = job.next(is_awaited) {
                let Some(demand) = job.pending.remove(number) else { continue };
                let bundle = match &mut job.open {
                    OpenBundle::Whole(held) => OpenBundle::Whole(Arc::clone(held)),
                    OpenBundle::Stream(stream) => OpenBundle::Stream(stream.take()),
                    OpenBundle::None => OpenBundle::None,
                };
                let task = BundleTask::Make(*key, Arc::clone(&demand.frame), bundle);
                job.running.push(demand);
                return Some(task);
            }
        }
        None
    }
}

impl BundleJob {
    /// Ends all of its demands: its bundle cannot be read.
    pub(super) fn fail(self, error: &ReadError) {
        for demand in self.pending {
            demand.end(&Err(error.clone()));
        }
    }

    /// Its bundle, if that is decompressed as a whole.
    pub(super) fn into_held(self) -> Option<(Arc<Compressed>, Arc<Decompressed>)> {
        match self.open {
            OpenBundle::Whole(held) => Some((self.bundle?, held)),
            OpenBundle::Stream(_) | OpenBundle::None => None,
        }
    }

    /// Whether its frames are decoded from a stream, which only goes forward.
    fn is_stream(&self) -> bool {
        matches!(self.open, OpenBundle::Stream(_))
    }

    fn tasks(&self) -> usize {
        if self.is_stream() { usize::from(self.running.is_empty()) } else { self.pending.len() }
    }

    /// The first frame that a caller waits for, or else the first one. Of a stream the next one, or else the first.
    fn next(&self, is_awaited: bool) -> Option<usize> {
        let is_due = |demand: &Demand| !is_awaited || demand.is_waiting();
        let OpenBundle::Stream(stream) = &self.open else { return self.pending.iter().position(is_due) };
        if !self.running.is_empty() || !self.pending.iter().any(is_due) {
            return None;
        }
        let at = stream.as_ref().map_or(0, |stream| stream.at);
        let order = |demand: &Demand| (demand.frame.object.offset < at, demand.frame.object.offset);
        self.pending.iter().enumerate().min_by_key(|(_, demand)| order(demand)).map(|(number, _)| number)
    }
}

impl Demand {
    fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(super) fn end(mut self, made: &Result<MadeFrame, ReadError>) {
        self.end_waiting(made);
    }

    fn end_waiting(&mut self, made: &Result<MadeFrame, ReadError>) {
        for ticket in std::mem::take(&mut self.waiting) {
            let mut progress = ticket.lock();
            progress.left -= 1;
            progress.bytes += self.frame.size();
            match made {
                Ok(made) => progress.last = Some(made.clone()),
                Err(error) => drop(progress.error.get_or_insert_with(|| error.clone())),
            }
            drop(progress);
            ticket.changed.notify_all();
        }
    }
}

impl Drop for Demand {
    /// A demand that is dropped before its end, because a thread panicked, leaves no caller waiting.
    fn drop(&mut self) {
        if self.is_waiting() {
            self.end_waiting(&Err(ReadError::damaged(&Arc::from("code object"), "kpackfs gave up making its frame")));
        }
    }
}

impl Ticket {
    fn lock(&self) -> MutexGuard<'_, JobProgress> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// So many frames are not made yet.
    pub(super) fn expect(&self, count: usize) {
        self.lock().left = count;
    }

    /// Waits until all frames are made. `progress` is called with the bytes of code objects compressed meanwhile. The
    /// frame made last.
    pub(super) fn wait(&self, mut progress: impl FnMut(u64)) -> Result<Option<MadeFrame>, ReadError> {
        let mut state = self.lock();
        loop {
            progress(std::mem::take(&mut state.bytes));
            if state.left == 0 {
                return state.error.take().map_or_else(|| Ok(state.last.take()), Err);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
