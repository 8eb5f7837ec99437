//! Bundle jobs: what makes the frames of archives.
//!
//! Decompressing a bundle costs about as much as compressing one architecture of it. So the unit of work is the bundle:
//! it is decompressed once for all of its code objects that are wanted then, also by callers that come while it is. One
//! that is decompressed for the second time is emptied: behind the frames that callers wait for, all others of it are
//! made, too. So whoever reads one architecture pays for one, and for all of them each bundle is decompressed twice.
//!
//! `-j` and the memory budget bound the number of threads. They take what callers wait for first. A bundle is opened
//! while there is memory for it; without that, the open ones are emptied before.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;

use super::frame::{Frame, Made};
use crate::fatbin::{Compressed, OpenBundle};
use crate::index::Resources;
use crate::rope::ReadError;

/// Memory for each thread, in bytes: less would have threads that only wait for each other's. A zstd context of level 3
/// takes 1 to 5 MiB, and a code object less than 3, mostly.
const MEMORY_OF_THREAD: u64 = 8 << 20;

/// Frames are thought to take this part of their code objects; more than they usually do.
const RATIO: u64 = 4;

/// The bundle of a job, by its number; `None` for all code objects that are not in a compressed one.
type Key = Option<u64>;

/// Makes frames, each once for all callers that wait for it.
pub struct BundleJobs {
    resources: Arc<Resources>,
    threads: usize,
    /// All frames of the archives by their bundle.
    frames: Mutex<HashMap<u64, Vec<Weak<Frame>>>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    jobs: HashMap<Key, BundleJob>,
    /// Jobs whose bundle can be read.
    open: Vec<Key>,
    /// Jobs whose bundle has to be opened, for a caller that waits.
    queue: VecDeque<Key>,
    /// The same if nobody waits.
    background: VecDeque<Key>,
    /// Threads that work.
    threads: usize,
    /// Of these, those that open a bundle or compress.
    busy: usize,
    /// Whether there was no memory for another bundle, and nothing was finished since.
    is_short: bool,
    /// Bytes of code objects that were compressed.
    compressed: u64,
}

/// What is to be made of one bundle.
struct BundleJob {
    bundle: Option<Arc<Compressed>>,
    /// The bundle while it is open. A stream is not here while a frame is made of it.
    open: OpenBundle,
    pending: Vec<Demand>,
    running: Vec<Demand>,
}

/// A frame that is to be made, with those who wait for it.
#[derive(Debug)]
struct Demand {
    frame: Arc<Frame>,
    waiting: Vec<Arc<Ticket>>,
}

/// What a caller waits for.
#[derive(Debug, Default)]
pub(super) struct Ticket {
    state: Mutex<Progress>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Progress {
    /// Number of frames that are not made.
    left: usize,
    /// Bytes of code objects that were compressed since the caller looked last.
    bytes: u64,
    last: Option<Made>,
    error: Option<ReadError>,
}

/// What a thread is to do next.
enum Task {
    Open(Key, Arc<Compressed>),
    Make(Key, Arc<Frame>, OpenBundle),
}

impl BundleJobs {
    /// Jobs for the archives of one plan.
    pub fn new(resources: &Arc<Resources>) -> Arc<Self> {
        let most = usize::try_from(resources.budget.capacity() / MEMORY_OF_THREAD).unwrap_or(usize::MAX);
        Arc::new(Self {
            resources: Arc::clone(resources),
            threads: rayon::current_num_threads().clamp(1, most.max(1)),
            frames: Mutex::default(),
            state: Mutex::default(),
        })
    }

    /// What all of this shares memory with.
    pub fn resources(&self) -> &Arc<Resources> {
        &self.resources
    }

    /// Has a frame made together with the others of its bundle when that is emptied.
    pub(super) fn register(&self, frame: &Arc<Frame>) {
        let Some(bundle) = &frame.object.bundle else { return };
        let mut frames = self.frames.lock().unwrap_or_else(PoisonError::into_inner);
        frames.entry(bundle.id()).or_default().push(Arc::downgrade(frame));
    }

    /// A frame, made now if need be.
    pub(super) fn get(self: &Arc<Self>, frame: &Arc<Frame>) -> Result<Made, ReadError> {
        loop {
            if let Some(made) = frame.made() {
                return Ok(made);
            }
            let before = self.lock().compressed;
            let made = self.demand(std::slice::from_ref(frame)).wait(|_| ())?;
            self.resources.counters.read_wait_bytes_max.raise(self.lock().compressed - before);
            // Without one, another thread had made it before it was demanded.
            if let Some(made) = made {
                return Ok(made);
            }
        }
    }

    /// Has frames made that nobody waits for yet.
    pub(super) fn prefetch(self: &Arc<Self>, frames: &[Arc<Frame>]) {
        let missing: Vec<_> = frames.iter().filter(|frame| frame.made().is_none()).collect();
        let mut state = self.lock();
        for frame in missing {
            state.add(frame, None);
        }
        drop(state);
        self.start_threads();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has those frames made that are not there.
    pub(super) fn demand(self: &Arc<Self>, frames: &[Arc<Frame>]) -> Arc<Ticket> {
        let ticket = Arc::new(Ticket::default());
        let mut seen = HashSet::new();
        let mut missing: Vec<_> =
            frames.iter().filter(|frame| seen.insert(frame.id()) && frame.made().is_none()).collect();
        let mut costs = HashMap::<_, u64>::new();
        for frame in &missing {
            let bundle = frame.object.bundle.as_ref();
            *costs.entry(key(frame)).or_insert(bundle.map_or(0, |bundle| bundle.size() / 4)) += frame.size();
        }
        // Bundles that are in the cache first, before they are evicted. Then the costliest, so that none is left at the end
        // that keeps one thread busy alone.
        let is_resident = |frame: &Frame| frame.object.bundle.as_ref().is_some_and(|bundle| bundle.is_resident());
        missing.sort_by_cached_key(|frame| Reverse((is_resident(frame), costs.get(&key(frame)).copied())));
        let mut state = self.lock();
        let added = missing.into_iter().filter(|frame| state.add(frame, Some(&ticket))).count();
        // What ends meanwhile waits for the lock.
        ticket.lock().left = added;
        drop(state);
        self.start_threads();
        ticket
    }

    /// Starts as many threads as find something to do.
    fn start_threads(self: &Arc<Self>) {
        let mut state = self.lock();
        while state.threads < self.threads.min(state.busy + state.tasks()) {
            let jobs = Arc::clone(self);
            state.threads += 1;
            if thread::Builder::new().name("kpackfs-bundle".to_owned()).spawn(move || jobs.work()).is_err() {
                state.threads -= 1;
                if state.threads == 0 {
                    state.threads = 1;
                    drop(state);
                    self.work();
                }
                return;
            }
        }
    }

    fn work(self: &Arc<Self>) {
        let mut state = self.lock();
        while let Some(task) = state.next() {
            state.busy += 1;
            // Memory that an open bundle takes is given back by these threads only.
            let may_wait = state.busy == 1 && !state.is_holding();
            drop(state);
            match task {
                Task::Open(key, bundle) => self.open(key, &bundle, may_wait),
                Task::Make(key, frame, mut bundle) => {
                    let made = contained(|| frame.make(&mut bundle));
                    self.made(key, &frame, bundle, &made);
                }
            }
            self.lock().busy -= 1;
            self.start_threads();
            state = self.lock();
        }
        state.threads -= 1;
    }

    /// Decompresses the bundle of a job, or leaves it for later if there is no memory and it may not be waited for.
    fn open(&self, key: Key, bundle: &Arc<Compressed>, may_wait: bool) {
        let open = || match (bundle.is_held_whole(), may_wait) {
            (false, true) => Ok(Some(OpenBundle::Stream(Some(bundle.stream())))),
            (false, false) => Ok(bundle.try_stream().map(|stream| OpenBundle::Stream(Some(stream)))),
            (true, true) => bundle.hold().map(|held| Some(OpenBundle::Whole(held))),
            (true, false) => bundle.try_hold().map(|held| held.map(OpenBundle::Whole)),
        };
        let opened = contained(open);
        let others = matches!(opened, Ok(Some(_))).then(|| self.others(bundle));
        let mut state = self.lock();
        match opened {
            Ok(Some(bundle)) => {
                if let Some(job) = state.jobs.get_mut(&key) {
                    job.open = bundle;
                }
                state.open.push(key);
                for frame in others.unwrap_or_default() {
                    state.add(&frame, None);
                }
            }
            Ok(None) => {
                state.is_short = true;
                let is_waiting = state.jobs.get(&key).is_some_and(|job| job.pending.iter().any(Demand::is_waiting));
                if is_waiting { &mut state.queue } else { &mut state.background }.push_front(key);
            }
            Err(error) => {
                let job = state.jobs.remove(&key);
                drop(state);
                for demand in job.into_iter().flat_map(|job| job.pending) {
                    demand.end(&Err(error.clone()));
                }
            }
        }
    }

    /// The other frames of a bundle that are to be made while it is open: none if it is decompressed for the first time
    /// and can be again, and as many as there is room for.
    fn others(&self, bundle: &Compressed) -> Vec<Arc<Frame>> {
        let (store, held) = (&self.resources.store, &self.resources.frames);
        // A stream is decoded only after this.
        let decodings = bundle.decodings() + u32::from(!bundle.is_held_whole());
        if store.has_room() && decodings < 2 {
            return Vec::new();
        }
        let frames = self.frames.lock().unwrap_or_else(PoisonError::into_inner);
        let frames: Vec<_> = frames.get(&bundle.id()).into_iter().flatten().filter_map(Weak::upgrade).collect();
        let mut room = if store.has_room() { u64::MAX } else { held.capacity().saturating_sub(held.bytes()) };
        let lacking = frames.into_iter().filter(|frame| frame.made().is_none());
        let fits = |frame: &Arc<Frame>| {
            let rest = room.checked_sub(frame.known_length().unwrap_or(frame.size() / RATIO));
            room = rest.unwrap_or(0);
            rest.is_some()
        };
        lacking.take_while(fits).collect()
    }

    /// Takes note of the end of a frame, and closes its bundle if it was the last one.
    fn made(&self, key: Key, frame: &Arc<Frame>, mut bundle: OpenBundle, made: &Result<Made, ReadError>) {
        let mut state = self.lock();
        state.is_short = false;
        state.compressed += frame.size();
        let Some(job) = state.jobs.get_mut(&key) else { return };
        let found = job.running.iter().position(|demand| demand.frame.id() == frame.id());
        let demand = found.map(|found| job.running.swap_remove(found));
        let is_last = job.pending.is_empty() && job.running.is_empty();
        if job.is_stream() {
            job.open = std::mem::take(&mut bundle);
        }
        let closed = if is_last { state.jobs.remove(&key) } else { None };
        if is_last {
            state.open.retain(|other| *other != key);
        }
        drop(state);
        // A caller finds the memory given back.
        drop(bundle);
        if let Some(BundleJob { bundle: Some(bundle), open: OpenBundle::Whole(held), .. }) = closed
            && !self.is_emptied(&bundle)
        {
            bundle.keep(&held);
        }
        if let Some(demand) = demand {
            demand.end(made);
        }
    }

    fn is_emptied(&self, bundle: &Compressed) -> bool {
        let frames = self.frames.lock().unwrap_or_else(PoisonError::into_inner);
        frames.get(&bundle.id()).into_iter().flatten().filter_map(Weak::upgrade).all(|frame| frame.made().is_some())
    }
}

impl fmt::Debug for BundleJobs {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("BundleJobs").field("threads", &self.threads).finish_non_exhaustive()
    }
}

fn key(frame: &Frame) -> Key {
    frame.object.bundle.as_ref().map(|bundle| bundle.id())
}

/// A defect that panics is an error of what was being made.
fn contained<T>(work: impl FnOnce() -> Result<T, ReadError>) -> Result<T, ReadError> {
    let panicked = |_| Err(ReadError::damaged(&Arc::from("code object"), "kpackfs panicked when it compressed it"));
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(panicked)
}

impl State {
    /// Has a frame made, or has one more caller wait for it. `false` if it is there: it is stored before its demand ends.
    fn add(&mut self, frame: &Arc<Frame>, ticket: Option<&Arc<Ticket>>) -> bool {
        if frame.made().is_some() {
            return false;
        }
        let key = key(frame);
        let is_new = !self.jobs.contains_key(&key);
        let bundle = &frame.object.bundle;
        let job = self.jobs.entry(key).or_insert_with(|| BundleJob {
            bundle: bundle.clone(),
            open: OpenBundle::None,
            pending: Vec::new(),
            running: Vec::new(),
        });
        let mut demands = job.pending.iter_mut().chain(&mut job.running);
        if let Some(demand) = demands.find(|demand| demand.frame.id() == frame.id()) {
            demand.waiting.extend(ticket.cloned());
        } else {
            let waiting = ticket.cloned().into_iter().collect();
            job.pending.push(Demand { frame: Arc::clone(frame), waiting });
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

    /// How many threads would find something to do, at least if there are few.
    fn tasks(&self) -> usize {
        let open = self.open.iter().filter_map(|key| self.jobs.get(key));
        let open: usize = open.map(BundleJob::tasks).sum();
        if self.can_open() { open + self.queue.len() + self.background.len() } else { open }
    }

    /// Whether to open another bundle: not while there is no memory for it and some may be given back here.
    fn can_open(&self) -> bool {
        !self.is_short || self.busy == 0
    }

    /// Whether a bundle takes memory.
    fn is_holding(&self) -> bool {
        self.open.iter().filter_map(|key| self.jobs.get(key)).any(|job| !matches!(job.open, OpenBundle::None))
    }

    /// What is next: a frame that a caller waits for, of a bundle that is open or to be opened, and then the others.
    fn next(&mut self) -> Option<Task> {
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

    fn next_bundle(&mut self, is_awaited: bool) -> Option<Task> {
        if !self.can_open() {
            return None;
        }
        let key = if is_awaited { &mut self.queue } else { &mut self.background }.pop_front()?;
        let bundle = self.jobs.get(&key)?.bundle.clone()?;
        Some(Task::Open(key, bundle))
    }

    fn next_frame(&mut self, is_awaited: bool) -> Option<Task> {
        for key in &self.open {
            let Some(job) = self.jobs.get_mut(key) else { continue };
            if let Some(number) = job.next(is_awaited) {
                let demand = job.pending.swap_remove(number);
                let bundle = match &mut job.open {
                    OpenBundle::Whole(held) => OpenBundle::Whole(Arc::clone(held)),
                    OpenBundle::Stream(stream) => OpenBundle::Stream(stream.take()),
                    OpenBundle::None => OpenBundle::None,
                };
                let task = Task::Make(*key, Arc::clone(&demand.frame), bundle);
                job.running.push(demand);
                return Some(task);
            }
        }
        None
    }
}

impl BundleJob {
    /// Whether its frames are decoded from a stream, which only goes forward.
    fn is_stream(&self) -> bool {
        matches!(self.open, OpenBundle::Stream(_))
    }

    fn tasks(&self) -> usize {
        if self.is_stream() { usize::from(self.running.is_empty()) } else { self.pending.len() }
    }

    /// The largest frame that somebody waits for, or else the largest one; of a stream the first one.
    fn next(&self, is_awaited: bool) -> Option<usize> {
        let pending = self.pending.iter().enumerate();
        if self.is_stream() {
            let is_due = self.running.is_empty() && (!is_awaited || self.pending.iter().any(Demand::is_waiting));
            let first = pending.min_by_key(|(_, demand)| demand.frame.object.offset);
            return first.filter(|_| is_due).map(|(number, _)| number);
        }
        let pending = pending.filter(|(_, demand)| !is_awaited || demand.is_waiting());
        pending.max_by_key(|(_, demand)| demand.frame.size()).map(|(number, _)| number)
    }
}

impl Demand {
    fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn end(self, made: &Result<Made, ReadError>) {
        for ticket in self.waiting {
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

impl Ticket {
    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until all frames are made. `progress` is called with the bytes of code objects compressed meanwhile. The
    /// frame made last.
    pub(super) fn wait(&self, mut progress: impl FnMut(u64)) -> Result<Option<Made>, ReadError> {
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
