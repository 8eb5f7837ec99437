//! Makes the frames of many archives with as little work and waiting as possible.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use super::frame::Frame;
use super::layout::Archive;
use crate::fatbin::{Compressed, Decompressed};
use crate::rope::ReadError;

/// Those who have frames made.
pub(super) trait Client: Sync {
    /// Whether what is begun with is all that is to be made.
    fn has_enough(&self) -> bool {
        false
    }

    /// Frames that somebody waits for. They come first, and those of bundles that are decompressed anyway are made as well.
    fn awaited(&self) -> Vec<Arc<Frame>> {
        Vec::new()
    }

    /// A frame is there, or has failed.
    fn made(&self, frame: &Frame) {
        let _ = frame;
    }
}

/// Counts the bytes that are compressed.
impl Client for AtomicU64 {
    fn made(&self, frame: &Frame) {
        self.fetch_add(frame.object.content.size(), Ordering::Relaxed);
    }
}

/// Who does not want more when this says so.
pub(super) struct Until<F>(pub(super) F);

impl<F: Fn() -> bool + Sync> Client for Until<F> {
    fn has_enough(&self) -> bool {
        (self.0)()
    }
}

/// Makes the frames of several archives that are not prepared yet, on all cores, the largest work first. A compressed
/// bundle is decompressed once for all of its code objects that are wanted, and all cores work on it while there is no
/// memory for another. Adds the bytes that are compressed to `done`.
pub fn make_together(archives: &[&Archive], done: &AtomicU64) -> Result<(), ReadError> {
    let result = make(unprepared(archives), rayon::current_num_threads(), done);
    for archive in archives {
        archive.learn_lengths();
    }
    result
}

/// Makes these frames in the way of [`make_together`], with at most so many threads. When the client has enough, no
/// further bundle is begun with.
pub(super) fn make(frames: Vec<Arc<Frame>>, threads: usize, client: &dyn Client) -> Result<(), ReadError> {
    let threads = threads.min(frames.len());
    let known = frames.iter().map(|frame| frame.id()).collect();
    let state = Mutex::new(State { closed: groups(frames), known, ..State::default() });
    let making = Making { state, changed: Condvar::new(), client };
    // Threads of their own: one of a pool that waits can be handed work that waits for what it holds itself.
    thread::scope(|scope| {
        for _ in 1..threads {
            // What cannot be started, the others do.
            let _ = thread::Builder::new().name("kpackfs-make".to_owned()).spawn_scoped(scope, || making.work());
        }
        making.work();
    });
    let state = making.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    state.failure.map_or(Ok(()), Err)
}

/// Bytes that [`make_together`] has to compress.
pub fn unmade_size(archives: &[&Archive]) -> u64 {
    unprepared(archives).iter().map(|frame| frame.object.content.size()).sum()
}

/// The frames that are not prepared, each once.
fn unprepared(archives: &[&Archive]) -> Vec<Arc<Frame>> {
    let mut seen = HashSet::new();
    let frames = archives.iter().flat_map(|archive| archive.frames());
    frames.filter(|frame| !frame.is_prepared() && seen.insert(Arc::as_ptr(frame))).cloned().collect()
}

/// Frames of one compressed bundle, or one frame without any.
struct Group {
    bundle: Option<Arc<Compressed>>,
    /// The largest is the last.
    frames: Vec<Arc<Frame>>,
}

impl Group {
    fn size(&self) -> u64 {
        self.frames.iter().map(|frame| frame.object.content.size()).sum()
    }

    /// Which of its frames somebody waits for.
    fn urgent(&self, awaited: &[Arc<Frame>]) -> Option<usize> {
        let is_awaited = |frame: &Arc<Frame>| awaited.iter().any(|awaited| awaited.id() == frame.id());
        if awaited.is_empty() { None } else { self.frames.iter().rposition(is_awaited) }
    }

    fn shares_bundle(&self, frame: &Frame) -> bool {
        let bundles = self.bundle.as_ref().zip(frame.object.bundle.as_ref());
        bundles.is_some_and(|(own, other)| own.id() == other.id())
    }

    /// Time it takes, in bytes to compress: decompressing is at least four times as fast.
    fn cost(&self) -> u64 {
        self.size() + self.bundle.as_ref().map_or(0, |bundle| bundle.size() / 4)
    }
}

/// The costliest group is the last.
fn groups(frames: Vec<Arc<Frame>>) -> Vec<Group> {
    let mut groups = HashMap::new();
    for (position, frame) in frames.into_iter().enumerate() {
        let bundle = frame.object.bundle.clone();
        let key = bundle.as_ref().map_or(Err(position), |bundle| Ok(bundle.id()));
        let group = groups.entry(key).or_insert_with(|| (position, Group { bundle, frames: Vec::new() }));
        group.1.frames.push(frame);
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    for (_, group) in &mut groups {
        group.frames.sort_by_key(|frame| frame.object.content.size());
    }
    groups.sort_by_cached_key(|(position, group)| (group.cost(), Reverse(*position)));
    groups.into_iter().map(|(_, group)| group).collect()
}

struct Making<'a> {
    state: Mutex<State>,
    /// Told when there may be something to do for a thread that found nothing.
    changed: Condvar,
    client: &'a dyn Client,
}

#[derive(Default)]
struct State {
    /// Groups whose bundle is not decompressed.
    closed: Vec<Group>,
    /// The others.
    open: Vec<(Group, Option<Arc<Decompressed>>)>,
    /// All frames that are made or were, by their numbers.
    known: HashSet<u64>,
    /// Threads that decompress a bundle, or wait for the memory.
    opening: usize,
    /// Threads that compress a frame.
    compressing: usize,
    /// Whether there was no memory for another bundle, or nearly none, and nothing has happened here since.
    is_short: bool,
    failure: Option<ReadError>,
}

/// A frame to make, with the bundle that must not go before.
type Task = (Arc<Frame>, Option<Arc<Decompressed>>);

impl Making<'_> {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        while let Some((frame, bundle)) = self.next() {
            let end = |state: &mut State| {
                state.compressing -= 1;
                state.is_short = false;
            };
            let compressing = Step { making: self, end };
            let made = frame.make();
            // Whoever is told finds the memory given back.
            drop(bundle);
            drop(compressing);
            self.client.made(&frame);
            if let Err(error) = made {
                self.fail(error);
            }
        }
    }

    fn fail(&self, error: ReadError) {
        let mut state = self.lock();
        state.failure.get_or_insert(error);
        state.closed.clear();
        state.open.clear();
        drop(state);
        self.changed.notify_all();
    }

    /// What to do now. While it decides whether to decompress another bundle a thread holds none, so that it may wait.
    fn next(&self) -> Option<Task> {
        let mut state = self.lock();
        loop {
            let awaited = self.client.awaited();
            for frame in &awaited {
                state.admit(frame);
            }
            if let Some(task) = state.take(&awaited) {
                state.compressing += 1;
                return Some(task);
            }
            if self.client.has_enough() {
                state.closed.clear();
            }
            let Some(group) = state.pick(&awaited) else {
                if state.closed.is_empty() && state.opening == 0 {
                    return None;
                }
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let Some(bundle) = group.bundle.clone() else {
                state.open.push((group, None));
                continue;
            };
            // Only for others' memory: who waited for what one of these threads holds would miss the work that it finds.
            let may_wait = state.is_short;
            state.opening += 1;
            drop(state);
            self.open(group, &bundle, may_wait);
            state = self.lock();
        }
    }

    /// Decompresses a group's bundle. Without memory for that, the group is left for later.
    fn open(&self, group: Group, bundle: &Compressed, may_wait: bool) {
        let _opening = Step { making: self, end: |state| state.opening -= 1 };
        let held = if may_wait { bundle.hold().map(Some) } else { bundle.try_hold() };
        let held = match held {
            Ok(held) => held,
            Err(error) => return self.fail(error),
        };
        let mut state = self.lock();
        if state.failure.is_some() {
            return;
        }
        state.is_short = held.is_none();
        match held {
            Some(held) => state.open.push((group, Some(held))),
            None => state.closed.push(group),
        }
    }
}

impl State {
    /// Has one more frame made if its bundle is there, or is going to be. Whoever comes to it later would wait for the end
    /// of all, and then for the same bundle again.
    fn admit(&mut self, frame: &Arc<Frame>) {
        if self.known.contains(&frame.id()) {
            return;
        }
        let open = self.open.iter_mut().map(|(group, _)| group);
        if let Some(group) = open.chain(&mut self.closed).find(|group| group.shares_bundle(frame)) {
            group.frames.push(Arc::clone(frame));
            self.known.insert(frame.id());
        }
    }

    /// A frame whose bundle is decompressed: one that is awaited, or else the largest one of the first group.
    fn take(&mut self, awaited: &[Arc<Frame>]) -> Option<Task> {
        let urgent = self.open.iter().enumerate().find_map(|(at, (group, _))| Some((at, group.urgent(awaited)?)));
        let (at, number) = urgent.or_else(|| Some((0, self.open.first()?.0.frames.len().checked_sub(1)?)))?;
        let (group, held) = self.open.get_mut(at)?;
        let frame = group.frames.remove(number);
        let held = if group.frames.is_empty() { self.open.remove(at).1 } else { held.clone() };
        Some((frame, held))
    }

    /// The group to begin with next: one with a frame that is awaited, or else the costliest. While there is no memory for
    /// another bundle, and one of these threads may give some back, only one that needs none.
    fn pick(&mut self, awaited: &[Arc<Frame>]) -> Option<Group> {
        let is_busy = self.opening + self.compressing > 0;
        let can_begin = |group: &Group| !(self.is_short && is_busy) || group.bundle.is_none();
        let urgent = self.closed.iter().rposition(|group| can_begin(group) && group.urgent(awaited).is_some());
        let found = urgent.or_else(|| self.closed.iter().rposition(can_begin));
        found.map(|position| self.closed.remove(position))
    }
}

/// What a thread is at. The others are told when it ends, also by a panic.
struct Step<'a> {
    making: &'a Making<'a>,
    end: fn(&mut State),
}

impl Drop for Step<'_> {
    fn drop(&mut self) {
        (self.end)(&mut self.making.lock());
        self.making.changed.notify_all();
    }
}
