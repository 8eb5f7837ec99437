//! Bundle jobs: they make the frames of archives.
//!
//! Decompressing a bundle costs about as much as compressing one architecture of it. So the unit of work is the bundle:
//! it is decompressed once for all of its frames that are demanded at the time, up to the end of the last of them.
//! Then these are made. For demands that arrive meanwhile and need more of it, its decoder goes on. When a bundle is
//! decompressed for the second time, all of its other frames are made, too: the decoder goes on for them when nobody
//! waits. So reading one architecture costs one architecture, and reading all of them decompresses each bundle at most
//! twice. (A bundle that is decoded as a stream is decoded a third time if other frames are before those that callers
//! wait for.) If it is damaged, only frames that end behind the damage fail.
//!
//! `-j` and the memory budget bound the number of threads. Frames that callers wait for come first. A bundle is opened
//! when there is memory for it. Without memory, the open bundles are finished first.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::equal_bundles::EqualBundles;
use super::frame::{Frame, MadeFrame};
use super::schedule::{BundleTask, Ended, JobKey, Schedule, key};
use super::ticket::Ticket;
use crate::fatbin::{CodeObject, Compressed, Decompressed, OpenBundle, Pinned};
use crate::gpu::TargetId;
use crate::resources::Resources;
use crate::rope::{ReadError, check_range, to_usize};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, Mutex, Weak, rank, thread};

/// Memory for each thread, in bytes. With less, threads would only wait for each other's memory. A zstd context of
/// level 3 takes 1 to 5 MiB, and most code objects less than 3 MiB.
const MEMORY_OF_THREAD: u64 = 8 << 20;

/// A frame of unknown length is estimated as its code object's size divided by this. Most frames are smaller.
const RATIO: u64 = 4;

/// Makes frames, each once for all callers that wait for it.
#[derive(derive_more::Debug)]
#[debug("BundleJobs({threads} threads)")]
pub struct BundleJobs {
    resources: Arc<Resources>,
    threads: usize,
    /// Frames of the archives, by bundle. Outside of compressed bundles, of files that are inflated.
    frames: Mutex<HashMap<JobKey, Vec<Weak<Frame>>>, { rank::FRAMES }>,
    /// Frames by the address of the content that they are made of, its target, and the level.
    shared: Mutex<HashMap<(usize, TargetId, i32), Weak<Frame>>>,
    pub(super) equal: EqualBundles,
    state: Mutex<Schedule, { rank::SCHEDULE }>,
    /// Held while a large frame grows in memory.
    growing: Mutex<(), { rank::GROWING }>,
    /// Bytes that were inflated for archives one by one.
    inflated: AtomicU64,
}

impl BundleJobs {
    /// Jobs for all archives that share these resources. Archives with other jobs compete with them for threads.
    pub fn new(resources: &Arc<Resources>) -> Arc<Self> {
        let max = to_usize(resources.budget.capacity() / MEMORY_OF_THREAD);
        Self::with_threads(resources, rayon::current_num_threads().clamp(1, max.max(1)))
    }

    /// Jobs with at most `threads` threads.
    pub(super) fn with_threads(resources: &Arc<Resources>, threads: usize) -> Arc<Self> {
        Arc::new(Self {
            resources: Arc::clone(resources),
            threads,
            frames: Mutex::default(),
            shared: Mutex::default(),
            equal: EqualBundles::default(),
            state: Mutex::default(),
            growing: Mutex::default(),
            inflated: AtomicU64::new(0),
        })
    }

    /// Whether no job is running.
    #[cfg(all(test, feature = "shuttle"))]
    pub(super) fn is_idle(&self) -> bool {
        self.state.lock().threads == 0
    }

    /// The resources that all jobs share.
    pub fn resources(&self) -> &Arc<Resources> {
        &self.resources
    }

    /// The frame of a code object. Code objects for one target that share a content share the frame.
    pub(crate) fn shared_frame(self: &Arc<Self>, object: CodeObject, level: i32) -> Arc<Frame> {
        let key = (std::sync::Arc::as_ptr(&object.content).addr(), object.target.clone(), level);
        let mut shared = self.shared.lock();
        // A frame keeps its content, so no other content has its address as long as the frame exists.
        if let Some(frame) = shared.get(&key).and_then(Weak::upgrade) {
            return frame;
        }
        let frame = Arc::new(Frame::new(object, level, &self.resources));
        shared.insert(key, Arc::downgrade(&frame));
        frame
    }

    /// Registers a frame, so that it is made when all frames of its bundle are, or all that are inflated.
    pub(super) fn register(&self, frame: &Arc<Frame>) {
        let mut frames = self.frames.lock();
        let of_bundle = frames.entry(key(frame)).or_default();
        if let Some(bundle) = frame.object.bundle.as_ref().filter(|_| of_bundle.is_empty()) {
            self.equal.add(bundle);
        }
        of_bundle.push(Arc::downgrade(frame));
    }

    /// Makes the frames of one archive, whose size is asked for. In a deflated file its code lies between that of others, so that
    /// much of the file is inflated for it. When as much was inflated for single archives as the code of all takes, all frames
    /// are made at once: at most about twice as much is inflated as necessary, whatever is asked for. `cost` is what was inflated
    /// so far of its files, for whatever reader.
    pub(super) fn make_one(self: &Arc<Self>, frames: &[Arc<Frame>], cost: impl Fn() -> u64) -> Result<(), ReadError> {
        let mut all = self.frames_of(None);
        let size: u64 = all.iter().map(|frame| frame.size()).sum();
        if size > 0 && self.inflated.load(Ordering::Relaxed) >= size && self.resources.store.has_room() {
            self.inflated.store(0, Ordering::Relaxed);
            all.retain(|frame| !frame.is_prepared());
            // In the order of the files. A frame that fails is the error of its reader, and tried again after as much work.
            all.sort_unstable_by_key(|frame| frame.id());
            self.demand(&all).wait(|_| ()).ok();
        }
        let before = cost();
        let made = self.demand(frames).wait(|_| ());
        self.inflated.fetch_add(cost().saturating_sub(before), Ordering::Relaxed);
        made.map(drop)
    }

    /// A frame. Makes it if necessary.
    pub(super) fn get(self: &Arc<Self>, frame: &Arc<Frame>) -> Result<MadeFrame, ReadError> {
        loop {
            if let Some(made) = frame.made() {
                return Ok(made);
            }
            let before = self.state.lock().compressed;
            let ticket = self.demand(std::slice::from_ref(frame));
            self.state.lock().hurry(frame);
            let made = ticket.wait(|_| ())?;
            self.resources.counters.read_wait_bytes_max.raise(self.state.lock().compressed - before);
            // No last frame means that another thread made it before it was demanded.
            if let Some(made) = made {
                return Ok(made);
            }
        }
    }

    /// Makes a frame before it belongs to an archive, on this thread. Its code object is in no compressed bundle.
    pub(crate) fn make_early(&self, frame: &Frame) -> Result<(), ReadError> {
        contained(|| frame.make(&mut OpenBundle::None, &self.growing)).map(drop)
    }

    /// Fills `buffer` with bytes of a frame, which has `length` bytes.
    pub(super) fn read_at(
        self: &Arc<Self>,
        frame: &Arc<Frame>,
        length: u64,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<(), ReadError> {
        check_range(offset, buffer.len(), length)?;
        let made = self.get(frame)?;
        let result = frame.read_made(&made, length, offset, buffer);
        let (Err(error @ ReadError::Io { .. }), MadeFrame::Stored(location)) = (&result, &made) else { return result };
        // A frame that is damaged on disk is made again, once.
        tracing::info!("a compressed {} is made again: {error}", frame.name());
        frame.forget_stored(location);
        frame.read_made(&self.get(frame)?, length, offset, buffer)
    }

    /// Starts making frames for which no caller waits yet.
    pub(super) fn prefetch(self: &Arc<Self>, frames: &[Arc<Frame>]) {
        // The first question reads the frame store's segments, which is not done under the lock.
        let frames: Vec<_> = frames.iter().filter(|frame| !frame.is_done() && frame.check().is_ok()).collect();
        let mut state = self.state.lock();
        for frame in frames {
            state.add(frame, None);
        }
        drop(state);
        self.start_threads();
    }

    /// Number of callers that wait for frames.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.state.lock().waiting()
    }

    /// Starts making those of the frames that are not available.
    pub(super) fn demand(self: &Arc<Self>, frames: &[Arc<Frame>]) -> Arc<Ticket> {
        let ticket = Arc::new(Ticket::default());
        let mut seen = HashSet::new();
        let mut missing: Vec<_> = frames.iter().filter(|frame| seen.insert(frame.id()) && !frame.is_done()).collect();
        missing.retain(|frame| frame.check().map_err(|error| ticket.fail(error)).is_ok());
        let mut costs = HashMap::<_, u64>::new();
        for frame in &missing {
            let bundle = frame.object.bundle.as_ref();
            *costs.entry(key(frame)).or_insert(bundle.map_or(0, |bundle| bundle.size() / 4)) += frame.size();
        }
        // Bundles that are in the cache come first, before they are evicted. Then the most expensive ones, so that no
        // long job is left for a single thread at the end.
        let is_resident = |frame: &Frame| frame.object.bundle.as_ref().is_some_and(|bundle| bundle.is_resident());
        // Frames of one bundle, and those without a bundle, keep the order of the file, because inflating goes forward.
        missing.sort_by_cached_key(|frame| Reverse((is_resident(frame), costs.get(&key(frame)).copied())));
        let mut state = self.state.lock();
        let added = missing.into_iter().filter(|frame| state.add(frame, Some(&ticket))).count();
        // A frame that is made meanwhile waits for the lock.
        ticket.expect(added);
        drop(state);
        self.start_threads();
        ticket
    }

    /// Starts as many threads as there are tasks.
    fn start_threads(self: &Arc<Self>) {
        let mut state = self.state.lock();
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
        let mut state = self.state.lock();
        while let Some(task) = state.next() {
            state.busy += 1;
            // Only these threads release the memory of open bundles, so the last one must not wait while it holds one.
            let may_wait = state.busy == 1 && !state.is_holding();
            drop(state);
            // The thread survives a panic.
            contained(|| {
                self.run(task, may_wait);
                Ok(())
            })
            .ok();
            self.state.lock().busy -= 1;
            self.start_threads();
            state = self.state.lock();
        }
        state.threads -= 1;
    }

    fn run(&self, task: BundleTask, may_wait: bool) {
        match task {
            BundleTask::Open(key, bundle) => {
                if self.take_over(key) {
                    self.open(key, &bundle, may_wait);
                }
            }
            BundleTask::Extend(key, bundle, held) => self.extend(key, &bundle, held),
            BundleTask::Make(key, frame, mut bundle) => {
                let made = contained(|| frame.make(&mut bundle, &self.growing));
                self.made(key, &frame, bundle, &made);
            }
        }
    }

    /// Takes over frames of equal bundles for those of a job. Whether any are left to be made.
    fn take_over(&self, key: JobKey) -> bool {
        let pending = self.state.lock().pending(key);
        for frame in pending.iter().filter(|frame| frame.check().is_ok()) {
            if let Some(made) = self.equal.made(frame, |bundle| self.frames_of(Some(bundle.id()))) {
                frame.take_over(made);
            }
        }
        let (met, is_left) = self.state.lock().take_met(key);
        for (demand, made) in met {
            demand.end(&Ok(made));
        }
        is_left
    }

    /// Opens the bundle of a job. Postpones the job if there is no memory and it may not wait.
    fn open(&self, key: JobKey, bundle: &Arc<Compressed>, may_wait: bool) {
        let open = || {
            let needed = self.state.lock().needed(key);
            let resident = bundle.is_decompressed_in_memory().then(|| bundle.resident(needed)).flatten();
            let mut others = self.others(bundle, resident.is_none());
            if let Some(held) = &resident {
                others.retain(|frame| frame.end() <= held.len() as u64);
            }
            let end = || self.end(key, bundle);
            let open = match (resident, bundle.is_decompressed_in_memory(), may_wait) {
                (Some(resident), _, _) => Some(OpenBundle::InMemory(resident.into())),
                (None, false, true) => Some(OpenBundle::Stream(Some(bundle.stream()))),
                (None, false, false) => bundle.try_stream().map(|stream| OpenBundle::Stream(Some(stream))),
                (None, true, true) => Some(OpenBundle::InMemory(bundle.pin(&end))),
                (None, true, false) => bundle.try_pin(&end).map(OpenBundle::InMemory),
            };
            Ok(open.map(|open| (open, others)))
        };
        match contained(open) {
            Ok(Some((open, others))) => self.publish(key, bundle, open, &others),
            Ok(None) => self.state.lock().postpone(key),
            Err(error) => self.fail(key, &error),
        }
    }

    /// Decompresses more of the bundle of a job.
    fn extend(&self, key: JobKey, bundle: &Arc<Compressed>, held: Pinned) {
        match contained(|| Ok(bundle.extend(held, &|| self.end(key, bundle)))) {
            Ok(held) => self.publish(key, bundle, OpenBundle::InMemory(held), &[]),
            Err(error) => self.fail(key, &error),
        }
    }

    /// The offset up to which the bundle of a job is decompressed next. Demands may arrive meanwhile.
    fn end(&self, key: JobKey, bundle: &Compressed) -> u64 {
        if self.resources.policy.check_bundles { bundle.size() } else { self.state.lock().needed(key) }
    }

    fn publish(&self, key: JobKey, bundle: &Compressed, open: OpenBundle, others: &[Arc<Frame>]) {
        let ended = self.state.lock().open(key, open, others);
        self.settle(Some(bundle), ended);
    }

    /// Fails all frames of a job.
    fn fail(&self, key: JobKey, error: &ReadError) {
        let job = self.state.lock().remove(key);
        if let Some(job) = job {
            job.fail(error);
        }
    }

    /// Ends demands that cannot be met, and closes the bundle if nothing is left to do with it.
    fn settle(&self, bundle: Option<&Compressed>, Ended { failed, closed }: Ended) {
        if let Some((Some(bundle), OpenBundle::InMemory(held))) = &closed
            && self.is_useful(bundle, held.bytes())
        {
            bundle.cache(held.bytes());
        }
        // Released before callers are notified.
        drop(closed);
        if let Some(bundle) = bundle.filter(|bundle| bundle.is_void()) {
            self.frames_of(Some(bundle.id())).iter().for_each(|frame| frame.forget());
        }
        for (demand, error) in failed {
            demand.end(&Err(error));
        }
    }

    /// The registered frames of a bundle.
    fn frames_of(&self, bundle: JobKey) -> Vec<Arc<Frame>> {
        let frames = self.frames.lock();
        frames.get(&bundle).into_iter().flatten().filter_map(Weak::upgrade).collect()
    }

    /// The other frames of a bundle to be made while it is open, as many as there is room for. None at the first
    /// decompression, as long as the frame store has room. `will_decode` tells whether one is about to begin.
    fn others(&self, bundle: &Compressed, will_decode: bool) -> Vec<Arc<Frame>> {
        let (store, held) = (&self.resources.store, &self.resources.frames);
        if store.has_room() && bundle.decodings() + u32::from(will_decode) < 2 {
            return Vec::new();
        }
        let mut room = if store.has_room() { u64::MAX } else { held.capacity().saturating_sub(held.bytes()) };
        let lacking = self
            .frames_of(Some(bundle.id()))
            .into_iter()
            .filter(|frame| frame.made().is_none() && frame.check().is_ok());
        let fits = |frame: &Arc<Frame>| {
            let rest = room.checked_sub(frame.known_length().unwrap_or(frame.size() / RATIO));
            room = rest.unwrap_or(0);
            rest.is_some()
        };
        lacking.take_while(fits).collect()
    }

    /// Ends a frame, and closes its bundle if it was the last one.
    fn made(&self, key: JobKey, frame: &Arc<Frame>, mut bundle: OpenBundle, made: &Result<MadeFrame, ReadError>) {
        // Released before callers are notified. This thread may go on while another one ends the bundle's last frame.
        if matches!(bundle, OpenBundle::InMemory(_)) {
            bundle = OpenBundle::None;
        }
        let (demand, ended) = self.state.lock().end(key, frame, &mut bundle);
        self.settle(frame.object.bundle.as_deref(), ended);
        if let Some(demand) = demand {
            let made = made.as_ref().map_err(|error| frame.lost(error)).cloned();
            demand.end(&made);
        }
    }

    /// Whether a frame that has not been made can be made of what was decompressed of a bundle.
    fn is_useful(&self, bundle: &Compressed, held: &Decompressed) -> bool {
        self.frames_of(Some(bundle.id())).iter().any(|frame| frame.end() <= held.len() as u64 && frame.made().is_none())
    }
}

/// Turns a panic into an error of what was being made.
fn contained<T>(work: impl FnOnce() -> Result<T, ReadError>) -> Result<T, ReadError> {
    let panicked = |_| Err(ReadError::damaged(&Arc::from("code object"), "kpackfs panicked when it compressed it"));
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(panicked)
}
