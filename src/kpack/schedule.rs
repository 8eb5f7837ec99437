//! The schedule of bundle jobs: which frame a thread makes next, and which callers wait for it.

mod met;

use std::collections::{HashMap, HashSet, VecDeque};

use super::frame::{Frame, MadeFrame};
use super::ticket::Ticket;
use crate::fatbin::{Compressed, OpenBundle, Pinned};
use crate::rope::ReadError;
use crate::sync::Arc;

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
#[derive(Default)]
pub(super) struct BundleJob {
    bundle: Option<Arc<Compressed>>,
    /// The bundle while it is open. A stream is taken out while a frame is made from it.
    open: OpenBundle,
    /// In the order of the callers' demands.
    pending: VecDeque<Demand>,
    running: Vec<Demand>,
    /// Numbers of all pending and running frames.
    frames: HashSet<u64>,
    /// Whether a thread decompresses more of the bundle. It has taken `open`.
    is_extending: bool,
}

/// A frame to be made, and the callers that wait for it.
#[derive(Debug)]
pub(super) struct Demand {
    frame: Arc<Frame>,
    waiting: Vec<Arc<Ticket>>,
}

/// The bundle of a job, and what was open of it.
pub(super) type ClosedBundle = (Option<Arc<Compressed>>, OpenBundle);

/// What ended in a job.
#[derive(Default)]
pub(super) struct Ended {
    /// Demands that cannot be met, with the reasons.
    pub(super) failed: Vec<(Demand, ReadError)>,
    pub(super) closed: Option<ClosedBundle>,
}

/// A thread's next task.
pub(super) enum BundleTask {
    Open(JobKey, Arc<Compressed>),
    /// Decompress more of an open bundle.
    Extend(JobKey, Arc<Compressed>, Pinned),
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
        let job = self.jobs.entry(key).or_insert_with(|| BundleJob { bundle: bundle.clone(), ..BundleJob::default() });
        if job.frames.insert(frame.id()) {
            let waiting = ticket.cloned().into_iter().collect();
            job.pending.push_back(Demand { frame: Arc::clone(frame), waiting });
        } else if let Some(ticket) = ticket {
            let mut demands = job.pending.iter_mut().chain(&mut job.running);
            if let Some(demand) = demands.find(|demand| demand.frame.id() == frame.id()) {
                demand.waiting.push(Arc::clone(ticket));
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

    /// Has a frame made before others of its bundle: its reader waits for no other one.
    pub(super) fn hurry(&mut self, frame: &Frame) {
        let Some(job) = self.jobs.get_mut(&key(frame)) else { return };
        let found = job.pending.iter().position(|demand| demand.frame.id() == frame.id());
        if let Some(demand) = found.and_then(|found| job.pending.remove(found)) {
            job.pending.push_front(demand);
        }
    }

    /// Publishes a bundle that was opened, or of which more was decompressed. Its frames can now be made. Adds demands for
    /// `others`.
    pub(super) fn open(&mut self, key: JobKey, open: OpenBundle, others: &[Arc<Frame>]) -> Ended {
        if let Some(job) = self.jobs.get_mut(&key) {
            job.open = open;
            job.is_extending = false;
        }
        if !self.open.contains(&key) {
            self.open.push(key);
        }
        for frame in others {
            self.add(frame, None);
        }
        self.settle(key)
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

    /// Removes a job that is not queued, and none of whose frames is being made.
    pub(super) fn remove(&mut self, key: JobKey) -> Option<BundleJob> {
        self.open.retain(|other| *other != key);
        self.jobs.remove(&key)
    }

    /// The offset in the decompressed bundle up to which a job needs it next: for the frames that callers wait for, or
    /// else for all.
    pub(super) fn needed(&self, key: JobKey) -> u64 {
        let pending = || self.jobs.get(&key).into_iter().flat_map(|job| &job.pending);
        let awaited = pending().filter(|demand| demand.is_waiting()).map(|demand| demand.frame.end()).max();
        awaited.or_else(|| pending().map(|demand| demand.frame.end()).max()).unwrap_or(0)
    }

    /// Number of callers that wait for frames.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        let demands = self.jobs.values().flat_map(|job| job.pending.iter().chain(&job.running));
        demands.map(|demand| demand.waiting.len()).sum()
    }

    /// Ends a frame that was made or has failed. Returns its demand, and what ended with it. `bundle` is the open bundle
    /// that the frame was made from.
    pub(super) fn end(&mut self, key: JobKey, frame: &Frame, bundle: &mut OpenBundle) -> (Option<Demand>, Ended) {
        self.is_short = false;
        self.compressed += frame.size();
        let Some(job) = self.jobs.get_mut(&key) else { return (None, Ended::default()) };
        let found = job.running.iter().position(|demand| demand.frame.id() == frame.id());
        let demand = found.map(|found| job.running.swap_remove(found));
        job.frames.remove(&frame.id());
        if job.is_stream() {
            job.open = std::mem::take(bundle);
        }
        (demand, self.settle(key))
    }

    /// Takes out the demands that cannot be met, and the bundle if nothing is left to do with it. If frames are pending
    /// that need more of the bundle than it can be extended to, it is opened again.
    fn settle(&mut self, key: JobKey) -> Ended {
        let Some(job) = self.jobs.get_mut(&key) else { return Ended::default() };
        let failed = job.take_failed();
        if job.is_extending || !job.running.is_empty() || job.has_work() {
            return Ended { failed, closed: None };
        }
        self.is_short = false;
        self.open.retain(|other| *other != key);
        let closed = Some((job.bundle.clone(), std::mem::take(&mut job.open)));
        if job.pending.is_empty() {
            self.jobs.remove(&key);
        } else {
            self.list_for(key).push_back(key);
        }
        Ended { failed, closed }
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
        let holds = |job: &BundleJob| job.is_extending || !matches!(job.open, OpenBundle::None);
        self.open.iter().filter_map(|key| self.jobs.get(key)).any(holds)
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
                    OpenBundle::InMemory(held) => OpenBundle::InMemory(held.share()),
                    OpenBundle::Stream(stream) => OpenBundle::Stream(stream.take()),
                    OpenBundle::None => OpenBundle::None,
                };
                let task = BundleTask::Make(*key, Arc::clone(&demand.frame), bundle);
                job.running.push(demand);
                return Some(task);
            }
            if job.needs_more()
                && (!is_awaited || job.is_blocked())
                && let Some(bundle) = job.bundle.clone()
                && let OpenBundle::InMemory(held) = std::mem::take(&mut job.open)
            {
                job.is_extending = true;
                return Some(BundleTask::Extend(*key, bundle, held));
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
        !self.is_extending && self.open.reaches(demand.frame.end())
    }

    /// Whether a caller needs more of the bundle than is decompressed in memory.
    fn is_blocked(&self) -> bool {
        let is_in_memory = matches!(self.open, OpenBundle::InMemory(_));
        is_in_memory && self.pending.iter().any(|demand| demand.is_waiting() && !self.reaches(demand))
    }

    /// Which frames may be made now. A caller that needs more of the bundle waits for the frames that are being made, and
    /// for no others that nobody waits for.
    fn due(&self) -> impl Fn(&Demand) -> bool {
        let is_blocked = self.is_blocked();
        move |demand| self.reaches(demand) && (demand.is_waiting() || !is_blocked)
    }

    /// Whether more of the bundle has to be decompressed now. Its buffer must not be in use. If it cannot be extended, the
    /// attempt closes it.
    fn needs_more(&self) -> bool {
        let is_in_memory = matches!(self.open, OpenBundle::InMemory(_));
        is_in_memory && self.running.is_empty() && !self.pending.is_empty() && !self.pending.iter().any(self.due())
    }

    /// Whether something can be done while the bundle is open.
    fn has_work(&self) -> bool {
        self.pending.iter().any(self.due()) || (self.open.can_be_extended() && self.needs_more())
    }

    /// Takes out the pending demands that are known to fail.
    fn take_failed(&mut self) -> Vec<(Demand, ReadError)> {
        let mut failed = Vec::new();
        if !self.open.is_failed() && self.bundle.as_ref().is_none_or(|bundle| bundle.check(bundle.size()).is_ok()) {
            return failed;
        }
        for demand in std::mem::take(&mut self.pending) {
            let error = self.open.error_before(demand.frame.end()).map(|error| demand.frame.lost(error));
            match error.or_else(|| demand.frame.check().err()) {
                Some(error) => {
                    self.frames.remove(&demand.frame.id());
                    failed.push((demand, error));
                }
                None => self.pending.push_back(demand),
            }
        }
        failed
    }

    fn tasks(&self) -> usize {
        match self.open {
            OpenBundle::Stream(_) => usize::from(self.running.is_empty()),
            OpenBundle::InMemory(_) if self.needs_more() => 1,
            OpenBundle::InMemory(_) => {
                let is_due = self.due();
                self.pending.iter().filter(|demand| is_due(demand)).count()
            }
            OpenBundle::None if self.is_extending => 0,
            OpenBundle::None => self.pending.len(),
        }
    }

    /// The first frame that a caller waits for, or else the first one. Of a stream, the next of these in its order.
    fn next(&self, is_awaited: bool) -> Option<usize> {
        let may_be_made = self.due();
        let is_due = |demand: &Demand| (!is_awaited || demand.is_waiting()) && may_be_made(demand);
        let OpenBundle::Stream(stream) = &self.open else { return self.pending.iter().position(is_due) };
        if !self.running.is_empty() {
            return None;
        }
        let at = stream.as_ref().map_or(0, |stream| stream.at);
        let order = |demand: &Demand| (demand.frame.object.offset < at, demand.frame.object.offset);
        let due = self.pending.iter().enumerate().filter(|(_, demand)| is_due(demand));
        due.min_by_key(|(_, demand)| order(demand)).map(|(number, _)| number)
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
            ticket.end(self.frame.size(), made);
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
