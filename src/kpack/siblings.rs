//! Archives that are made of the same compressed bundles.
//!
//! Decompressing a bundle for one architecture after another costs as much each time. Who asks for a second architecture,
//! or has looked into the directory of another before asking for one, is likely to ask for all, one after the other. So
//! then the code objects of those that come next are compressed, too, while the bundle is there: of as many archives as
//! there is room to keep.

use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, mpsc};
use std::{slice, thread};

use super::frame::Frame;
use super::layout::Archive;
use super::making::{Until, make};
use super::turn::{Taken, Turn};
use crate::index::Use;
use crate::rope::ReadError;

/// All archives of a split, in the order in which a reader of all views comes to them.
#[derive(Debug)]
pub struct Siblings {
    archives: Vec<Sibling>,
    known: Mutex<Known>,
    turn: Arc<Turn>,
}

/// What is known of those who use the archives.
#[derive(Debug, Default)]
struct Known {
    /// Device parts of which an archive was asked for.
    asked: BTreeSet<usize>,
    /// Device parts whose directory somebody has looked into. Who looks into all may want none.
    seen: BTreeSet<usize>,
    /// Archives that are being read from front to back.
    begun: BTreeSet<usize>,
    /// Archives that were read to the end, and are not being read again.
    ended: BTreeSet<usize>,
}

/// Of how many device parts archives are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Interest {
    None,
    One,
    Many,
}

/// Whether frames are made for other archives at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Company {
    /// Nobody wants any of the others.
    None,
    /// It would be worth nothing.
    Useless,
    /// They are.
    Useful,
}

#[derive(Debug)]
struct Sibling {
    /// The device part it belongs to.
    part: usize,
    archive: Weak<Archive>,
    /// Whether frames were made for somebody who reads it, or is going to, and has not come to its end.
    is_awaited: AtomicBool,
}

/// What an archive knows of its siblings.
#[derive(Clone, Debug)]
pub(super) struct Place {
    siblings: Arc<Siblings>,
    /// Where the archive itself is among them.
    position: usize,
}

impl Siblings {
    /// Makes archives known to each other; each comes with the number of its device part. Parts with smaller numbers are
    /// read first.
    pub fn relate(archives: &[(usize, Arc<Archive>)]) {
        let mut ordered: Vec<_> = archives.iter().collect();
        ordered.sort_by_key(|(part, _)| *part);
        let sibling = |(part, archive): &&(usize, Arc<Archive>)| {
            let (archive, is_awaited) = (Arc::downgrade(archive), AtomicBool::new(false));
            Sibling { part: *part, archive, is_awaited }
        };
        let known = ordered.iter().map(sibling).collect();
        let siblings = Arc::new(Self { archives: known, known: Mutex::default(), turn: Arc::default() });
        for (position, (_, archive)) in ordered.into_iter().enumerate() {
            archive.join(Place { siblings: Arc::clone(&siblings), position });
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn frames(&self) -> Vec<Arc<Frame>> {
        let archives = self.archives.iter().filter_map(|sibling| sibling.archive.upgrade());
        archives.flat_map(|archive| archive.frames().cloned().collect::<Vec<_>>()).collect()
    }

    /// Bytes of frames that are there for readers who have not come to them.
    fn awaited_size(&self) -> u64 {
        let awaited = self.archives.iter().filter(|sibling| sibling.is_awaited.load(Ordering::Relaxed));
        let size = |archive: Arc<Archive>| -> u64 {
            archive.frames().filter(|frame| frame.is_there()).filter_map(|frame| frame.known_length()).sum()
        };
        awaited.filter_map(|sibling| sibling.archive.upgrade()).map(size).sum()
    }
}

impl Place {
    /// Makes all frames of `archive`, which is the one at this place, whose length is not known.
    pub(super) fn make_lengths(&self, archive: &Archive) -> Result<(), ReadError> {
        let lacks = |frame: &Frame| frame.known_length().is_none();
        let lacking = || archive.frames().filter(|frame| lacks(frame)).cloned().collect::<Vec<_>>();
        // With little memory nobody counts on any room, and readers at the same time share the bundles they hold.
        let turn = (room(&lacking()) > 0).then(|| self.siblings.turn.take());
        let threads = rayon::current_num_threads();
        if turn.is_none() {
            make(lacking(), threads, &AtomicU64::new(0))?;
        }
        // Interest only grows, also while frames are made.
        let mut frames = lacking();
        while !frames.is_empty() {
            match self.interest() {
                // Nobody waits: on one core, so that what is begun with ends soon when somebody comes.
                Interest::None => make(frames, 1, &Until(|| self.interest() > Interest::None))?,
                Interest::One => make(frames, threads, &Until(|| self.interest() > Interest::One))?,
                Interest::Many => self.make_for_many(frames, lacks)?,
            }
            frames = lacking();
        }
        archive.learn_lengths();
        Ok(())
    }

    /// Makes frames, and those of their bundles that the next archives lack.
    fn make_for_many(&self, frames: Vec<Arc<Frame>>, lacks: impl Fn(&Frame) -> bool) -> Result<(), ReadError> {
        let Some(first) = frames.first() else { return Ok(()) };
        let budget = Arc::clone(&first.resources().budget);
        // A second bundle must not take what all cores need to compress the first one.
        let _working = budget.promise(Use::Compression, compression(&frames));
        let others = self.others();
        for (_, other) in &others {
            other.recalled();
        }
        // It happens once to each frame, so whatever else is in the cache may go.
        let expected = Expected::of(&self.siblings.frames());
        let companions = companions(&frames, &others, room(&frames), &expected, lacks);
        let together = self.together(frames, companions, &expected, self.siblings.awaited_size());
        let result = together.make(&self.siblings.turn);
        for (_, other) in &others {
            other.learn_lengths();
        }
        result
    }

    /// Has those of `frames` made that are not there, if that is worth doing for other archives at the same time, and waits
    /// for the first one only. They are the next that somebody wants who reads the archive from front to back.
    pub(super) fn make_ahead(&self, frames: &[(Arc<Frame>, u64)]) -> Company {
        let Some((first, _)) = frames.first() else { return Company::Useless };
        let lacks = |frame: &Frame| !frame.is_there();
        let lacking = || {
            let frames = frames.iter().map(|(frame, _)| frame);
            frames.filter(|frame| lacks(frame)).cloned().collect::<Vec<_>>()
        };
        self.ask();
        if !self.is_in_company() {
            return Company::None;
        }
        if first.is_there() {
            return if room(slice::from_ref(first)) > 0 { Company::Useful } else { Company::Useless };
        }
        if room(&lacking()) == 0 {
            return Company::Useless;
        }
        let Some(turn) = self.siblings.turn.take_or_await(first) else { return Company::Useful };
        let frames = lacking();
        let awaited = self.siblings.awaited_size();
        let room = room(&frames).saturating_sub(awaited);
        let expected = Expected::of(&self.siblings.frames());
        let companions = companions(&frames, &self.others(), room, &expected, lacks);
        if companions.is_empty() {
            return Company::Useless;
        }
        let number = turn.number();
        self.together(frames, companions, &expected, awaited).make_aside(turn);
        self.siblings.turn.await_made(first, number);
        Company::Useful
    }

    /// Whether somebody wants several archives.
    pub(super) fn is_in_company(&self) -> bool {
        self.interest() == Interest::Many
    }

    /// A reader from front to back has come farther, or to the end of the archive.
    pub(super) fn read_on(&self, is_end: bool) {
        let mut known = self.siblings.known();
        if is_end {
            known.begun.remove(&self.position);
            known.ended.insert(self.position);
            self.set_awaited(self.position, false);
        } else {
            known.begun.insert(self.position);
            known.ended.remove(&self.position);
        }
    }

    /// Frames and their companions, to be made so that all of them stay, beside others that take `awaited` bytes.
    fn together(
        &self,
        mut frames: Vec<Arc<Frame>>,
        companions: Vec<(usize, Vec<Arc<Frame>>)>,
        expected: &Expected,
        awaited: u64,
    ) -> Together {
        let room = room(&frames);
        for position in companions.iter().map(|(position, _)| *position).chain([self.position]) {
            self.set_awaited(position, true);
        }
        frames.extend(companions.into_iter().flat_map(|(_, chosen)| chosen));
        let bytes = expected.size(&frames).saturating_add(awaited).min(room);
        Together { frames, bytes, threads: rayon::current_num_threads() }
    }

    fn set_awaited(&self, position: usize, is_awaited: bool) {
        if let Some(sibling) = self.siblings.archives.get(position) {
            sibling.is_awaited.store(is_awaited, Ordering::Relaxed);
        }
    }

    fn part(&self) -> Option<usize> {
        Some(self.siblings.archives.get(self.position)?.part)
    }

    /// Notes that somebody asks for the archive.
    pub(super) fn ask(&self) {
        self.siblings.known().asked.extend(self.part());
    }

    /// Notes that somebody has looked into its directory.
    pub(super) fn see(&self) {
        self.siblings.known().seen.extend(self.part());
    }

    fn interest(&self) -> Interest {
        let known = self.siblings.known();
        match (known.asked.len(), known.asked.union(&known.seen).nth(1)) {
            (0, _) => Interest::None,
            (_, None) => Interest::One,
            (_, Some(_)) => Interest::Many,
        }
    }

    /// The other archives that somebody may want now, with their positions: first those that are being read, and then in the
    /// order in which the reader of this one comes to them. Who has come here does not go back to what was read before.
    fn others(&self) -> Vec<(usize, Arc<Archive>)> {
        let known = self.siblings.known();
        let after = self.position + 1..self.siblings.archives.len();
        let before = (0..self.position).filter(|other| !known.ended.contains(other));
        let (begun, others): (Vec<_>, Vec<_>) = after.chain(before).partition(|other| known.begun.contains(other));
        drop(known);
        let positions = begun.into_iter().chain(others);
        positions.filter_map(|other| Some((other, self.siblings.archives.get(other)?.archive.upgrade()?))).collect()
    }
}

/// For each of `others` that fit into `room` together with `frames`, one after the other, the frames that it lacks of the
/// bundles of these.
fn companions(
    frames: &[Arc<Frame>],
    others: &[(usize, Arc<Archive>)],
    room: u64,
    expected: &Expected,
    lacks: impl Fn(&Frame) -> bool,
) -> Vec<(usize, Vec<Arc<Frame>>)> {
    let bundle = |frame: &Frame| frame.object.bundle.as_ref().map(|bundle| bundle.id());
    let bundles: HashSet<_> = frames.iter().filter_map(|frame| bundle(frame)).collect();
    let mut companions = Vec::new();
    let Some(mut left) = room.checked_sub(expected.size(frames)) else { return companions };
    let mut seen: HashSet<_> = frames.iter().map(Arc::as_ptr).collect();
    for (position, other) in others {
        let mut chosen: Vec<_> = other.frames().filter(|frame| lacks(frame)).cloned().collect();
        chosen.retain(|frame| seen.insert(Arc::as_ptr(frame)));
        let Some(rest) = left.checked_sub(expected.size(&chosen)) else { break };
        left = rest;
        chosen.retain(|frame| bundle(frame).is_some_and(|bundle| bundles.contains(&bundle)));
        if !chosen.is_empty() {
            companions.push((*position, chosen));
        }
    }
    companions
}

/// Frames of several archives that are made together.
struct Together {
    frames: Vec<Arc<Frame>>,
    /// What all frames will take that are to stay, in bytes.
    bytes: u64,
    threads: usize,
}

impl Together {
    fn make(self, turn: &Turn) -> Result<(), ReadError> {
        let Some(first) = self.frames.first() else { return Ok(()) };
        let resources = Arc::clone(first.resources());
        let _kept = resources.budget.promise(Use::Frames, self.bytes);
        let result = make(self.frames, self.threads, turn);
        // What was used last leaves last, and that is what the frames were made with.
        resources.budget.release_idle();
        result
    }

    /// Makes them in this turn on a thread of its own. If there can be none, this thread does it.
    fn make_aside(self, taken: Taken) {
        // Whoever reads the frame that failed meets the same error and reports it.
        let work = |(together, taken): (Self, Taken)| drop(together.make(taken.turn()));
        let (sender, receiver) = mpsc::channel();
        let thread = thread::Builder::new().name("kpackfs-make".to_owned());
        match thread.spawn(move || receiver.into_iter().for_each(work)) {
            Ok(_) => drop(sender.send((self, taken))),
            Err(_) => work((self, taken)),
        }
    }
}

/// Bytes of frames that can be kept until they are read, while one bundle of `frames` after the other is decompressed and
/// all cores compress. None without bundles, which are all that making frames together saves.
fn room(frames: &[Arc<Frame>]) -> u64 {
    let bundle = frames.iter().filter_map(|frame| Some(frame.object.bundle.as_ref()?.size())).max();
    let (Some(first), Some(bundle)) = (frames.first(), bundle) else { return 0 };
    let resources = first.resources();
    let working = bundle.saturating_add(compression(frames)).saturating_add(resources.budget.share());
    resources.budget.capacity().saturating_sub(working).min(resources.frames.capacity())
}

/// Bytes that all cores need to compress these frames.
fn compression(frames: &[Arc<Frame>]) -> u64 {
    let Some(largest) = frames.iter().max_by_key(|frame| frame.object.content.size()) else { return 0 };
    let one = largest.resources().compressors.memory_for(largest.object.content.size());
    one.saturating_mul(rayon::current_num_threads() as u64)
}

/// What part of all code objects has to be compressed until it can be told well how much smaller the others become.
const SAMPLE: u64 = 32;

/// How much smaller code objects become, judged by those that were compressed. One architecture tells it of the others
/// within an eighth, and of all together within a few percent; a few code objects tell less.
struct Expected {
    compressed: u64,
    of: u64,
    is_certain: bool,
}

impl Expected {
    fn of(frames: &[Arc<Frame>]) -> Self {
        let made = frames.iter().filter_map(|frame| Some((frame.known_length()?, frame.object.content.size())));
        let (compressed, of) = made.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let all: u64 = frames.iter().map(|frame| frame.object.content.size()).sum();
        let (compressed, of) = if of == 0 { (1, 1) } else { (compressed, of) };
        Self { compressed, of, is_certain: of >= all / SAMPLE }
    }

    /// Bytes that frames will take, and some more of what is a guess.
    fn size(&self, frames: &[Arc<Frame>]) -> u64 {
        let known: u64 = frames.iter().filter_map(|frame| frame.known_length()).sum();
        let unknown = frames.iter().filter(|frame| frame.known_length().is_none());
        let original = unknown.map(|frame| u128::from(frame.object.content.size())).sum::<u128>();
        let guess = original * u128::from(self.compressed) / u128::from(self.of);
        let spare = guess / if self.is_certain { 16 } else { 4 };
        known.saturating_add(u64::try_from(guess + spare).unwrap_or(u64::MAX))
    }
}
