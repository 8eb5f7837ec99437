//! The schedule of bundle jobs: which frame a thread makes next, and which callers wait for it.

use std::collections::{HashMap, HashSet, VecDeque};

use super::frame::{Frame, MadeFrame};
use crate::fatbin::{Compressed, OpenBundle};
use crate::rope::ReadError;
use crate::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The number of a job's bundle; `None` for all code objects outside of compressed bundles.
pub(super) type JobKey = Option<u64>;

#[derive(Default)]
pub(super) struct Schedule {
    jobs: HashMap<JobKey, BundleJob>,
    /// Jobs whose bundle is open.
    open: Vec<JobKey>,
    /// Jobs whose bundle has to be opened because a caller waits.
    queue: VecDeque<JobKey>,
    /// Jobs whose bundle has to be opened, with no caller waiting.
    background: VecDeque<JobKey>,
    /// Number of threads.
    pub(super) threads: usize,
    /// Number of threads that open a bundle or compress.
    pub(super) busy: usize,
    /// Whether there was no memory for another bundle, and no frame has ended since.
    is_short: bool,
    /// Uncompressed bytes of the code objects that were compressed.
    pub(super) compressed: u64,
}

/// The frames to be made of one bundle.
pub(super) struct BundleJob {
    bundle: Option<Arc<Compressed>>,
    /// The bundle while it is open. A stream is taken out while a frame is made from it.
    open: OpenBundle,
    /// In the order of the callers' demands.
    pending: VecDeque<Demand>,
    running: Vec<Demand>,
    /// Numbers of all pending and running frames.
    frames: HashSet<u64>,
}

/// A frame to be made, and the callers that wait for it.
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
    /// Number of frames that are not made yet.
    left: usize,
    /// Uncompressed bytes that were compressed since the caller was last notified.
    bytes: u64,
    last: Option<MadeFrame>,
    error: Option<ReadError>,
}

/// The bundle of a job, and what was open of it.
pub(super) type ClosedBundle = (Option<Arc<Compressed>>, OpenBundle);

/// A thread's next task.
pub(super) enum BundleTask {
    Open(JobKey, Arc<Compressed>),
    Make(JobKey, Arc<Frame>, OpenBundle),
}

pub(super) fn key(frame: &Frame) -> JobKey {
    frame.object.bundle.as_ref().map(|bundle| bundle.id())
}

impl Schedule {
    /// Adds a demand for a frame, or a caller to an existing one. `false` if the frame is made: it is stored before its
    /// demand ends.
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

    /// Publishes an open bundle, whose frames can now be made. Adds demands for `others`.
    pub(super) fn open(&mut self, key: JobKey, open: OpenBundle, others: &[Arc<Frame>]) {
        if let Some(job) = self.jobs.get_mut(&key) {
            job.open = open;
        }
        self.open.push(key);
        for frame in others {
            self.add(frame, None);
        }
    }

    /// Puts a bundle back into its queue, because there was no memory to open it.
    pub(super) fn postpone(&mut self, key: JobKey) {
        self.is_short = true;
        self.list_for(key).push_front(key);
    }

    /// The list of bundles to be opened to which a job belongs.
    fn list_for(&mut self, key: JobKey) -> &mut VecDeque<JobKey> {
        let is_awaited = self.jobs.get(&key).is_some_and(|job| job.pending.iter().any(Demand::is_waiting));
        if is_awaited { &mut self.queue } else { &mut self.background }
    }

    /// Removes a job that is neither open nor queued.
    pub(super) fn remove(&mut self, key: JobKey) -> Option<BundleJob> {
        self.jobs.remove(&key)
    }

    /// The offset in the decompressed bundle up to which the pending frames of a job need it.
    pub(super) fn end_of_pending(&self, key: JobKey) -> u64 {
        let pending = self.jobs.get(&key).into_iter().flat_map(|job| &job.pending);
        pending.map(|demand| demand.frame.end()).max().unwrap_or(0)
    }

    /// Ends a frame that was made or has failed. Returns its demand, and the job's bundle if nothing is left to
    /// do with it. `bundle` is the open bundle that the frame was made from. If frames are pending that need more of the
    /// bundle, it is opened again.
    pub(super) fn end(
        &mut self,
        key: JobKey,
        frame: &Frame,
        bundle: &mut OpenBundle,
    ) -> (Option<Demand>, Option<ClosedBundle>) {
        self.is_short = false;
        self.compressed += frame.size();
        let Some(job) = self.jobs.get_mut(&key) else { return (None, None) };
        let found = job.running.iter().position(|demand| demand.frame.id() == frame.id());
        let demand = found.map(|found| job.running.swap_remove(found));
        job.frames.remove(&frame.id());
        if job.is_stream() {
            job.open = std::mem::take(bundle);
        }
        if !job.running.is_empty() || job.pending.iter().any(|demand| job.reaches(demand)) {
            return (demand, None);
        }
        self.open.retain(|other| *other != key);
        let closed = (job.bundle.clone(), std::mem::take(&mut job.open));
        if job.pending.is_empty() {
            self.jobs.remove(&key);
        } else {
            self.list_for(key).push_back(key);
        }
        (demand, Some(closed))
    }

    /// Number of tasks that threads could start now. Exact if there are few.
    pub(super) fn tasks(&self) -> usize {
        let open = self.open.iter().filter_map(|key| self.jobs.get(key));
        let open: usize = open.map(BundleJob::tasks).sum();
        if self.can_open() { open + self.queue.len() + self.background.len() } else { open }
    }

    /// Whether another bundle may be opened: not after a shortage of memory, as long as running tasks may release some.
    fn can_open(&self) -> bool {
        !self.is_short || self.busy == 0
    }

    /// Whether an open bundle holds memory.
    pub(super) fn is_holding(&self) -> bool {
        self.open.iter().filter_map(|key| self.jobs.get(key)).any(|job| !matches!(job.open, OpenBundle::None))
    }

    /// The next task. Frames that callers wait for come first, from open bundles and then from bundles to be opened.
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
                    OpenBundle::InMemory(held) => OpenBundle::InMemory(Arc::clone(held)),
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
    /// Ends all pending demands with an error: the bundle cannot be read.
    pub(super) fn fail(self, error: &ReadError) {
        for demand in self.pending {
            demand.end(&Err(error.clone()));
        }
    }

    /// Whether its frames are decoded from a stream, which can only go forward.
    fn is_stream(&self) -> bool {
        matches!(self.open, OpenBundle::Stream(_))
    }

    /// Whether enough of its bundle is open for a frame.
    fn reaches(&self, demand: &Demand) -> bool {
        self.open.reaches(demand.frame.end())
    }

    fn tasks(&self) -> usize {
        match self.open {
            OpenBundle::Stream(_) => usize::from(self.running.is_empty()),
            OpenBundle::InMemory(_) => self.pending.iter().filter(|demand| self.reaches(demand)).count(),
            OpenBundle::None => self.pending.len(),
        }
    }

    /// The first frame that a caller waits for, or else the first one. Of a stream, the next one in its order, or else
    /// the first.
    fn next(&self, is_awaited: bool) -> Option<usize> {
        // A caller that needs more of the bundle waits until it is closed, and so for all of its frames.
        let is_blocking = matches!(self.open, OpenBundle::InMemory(_))
            && self.pending.iter().any(|demand| demand.is_waiting() && !self.reaches(demand));
        let is_due = |demand: &Demand| (!is_awaited || is_blocking || demand.is_waiting()) && self.reaches(demand);
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
    /// Ends a demand that is dropped early, because a thread panicked, so that no caller waits for it.
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

    /// Sets the number of frames to wait for.
    pub(super) fn expect(&self, count: usize) {
        self.lock().left = count;
    }

    /// Waits until all frames are made, and returns the last one. `progress` is called with the uncompressed bytes of
    /// code objects that were compressed meanwhile.
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
