//! Archives that are made of the same compressed bundles.
//!
//! Decompressing a bundle for one architecture after another costs as much each time. Who asks for a second architecture,
//! or has looked into the directory of another before asking for one, is likely to ask for all, one after the other. So
//! then the code objects of those that come next are compressed, too, while the bundle is there: of as many archives as
//! there is room to keep.

use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::frame::Frame;
use super::layout::Archive;
use super::making::{make, make_at_leisure, make_until};
use crate::index::Use;
use crate::rope::ReadError;

/// All archives of a split, in the order in which a reader of all views comes to them.
#[derive(Debug)]
pub struct Siblings {
    archives: Vec<Sibling>,
    known: Mutex<Known>,
    /// Held by whoever makes frames together, so that nobody takes the room that another counts on.
    turn: Mutex<()>,
}

/// Device parts that somebody knows of.
#[derive(Debug, Default)]
struct Known {
    /// An archive was asked for.
    asked: BTreeSet<usize>,
    /// Somebody has looked into its directory. Who looks into all may want none.
    seen: BTreeSet<usize>,
}

/// Of how many device parts archives are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Interest {
    None,
    One,
    Many,
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
        let siblings = Arc::new(Self { archives: known, known: Mutex::default(), turn: Mutex::default() });
        for (position, (_, archive)) in ordered.into_iter().enumerate() {
            archive.join(Place { siblings: Arc::clone(&siblings), position });
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
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
        let turn = (room(&lacking()) > 0).then(|| self.siblings.turn());
        if turn.is_none() {
            make(lacking(), &AtomicU64::new(0))?;
        }
        // Interest only grows, also while frames are made.
        let mut frames = lacking();
        while !frames.is_empty() {
            match self.interest() {
                Interest::None => make_at_leisure(frames, &|| self.interest() > Interest::None)?,
                Interest::One => make_until(frames, &|| self.interest() > Interest::One)?,
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
        let companions = self.companions(&frames, &others, room(&frames), lacks);
        let result = self.make_to_stay(frames, companions, self.siblings.awaited_size());
        for (_, other) in &others {
            other.learn_lengths();
        }
        result
    }

    /// Makes those of `frames` that are not there, if that is worth doing for other archives at the same time: these are
    /// the next that somebody wants who reads the archive from front to back. Whether it was done.
    pub(super) fn make_ahead(&self, frames: &[(Arc<Frame>, u64)]) -> bool {
        let lacks = |frame: &Frame| !frame.is_there();
        let lacking = || {
            let frames = frames.iter().map(|(frame, _)| frame);
            frames.filter(|frame| lacks(frame)).cloned().collect::<Vec<_>>()
        };
        self.ask();
        if self.interest() < Interest::Many || room(&lacking()) == 0 {
            return false;
        }
        let _turn = self.siblings.turn();
        let frames = lacking();
        if frames.is_empty() {
            return true;
        }
        let awaited = self.siblings.awaited_size();
        let room = room(&frames).saturating_sub(awaited);
        let companions = self.companions(&frames, &self.others(), room, lacks);
        if companions.is_empty() {
            return false;
        }
        // Whoever reads the frame that failed meets the same error and reports it.
        let _ = self.make_to_stay(frames, companions, awaited);
        true
    }

    /// A reader from front to back has come to the end of the archive.
    pub(super) fn passed(&self) {
        self.set_awaited(self.position, false);
    }

    /// Makes frames and their companions so that all of them stay, beside others that take `awaited` bytes.
    fn make_to_stay(
        &self,
        mut frames: Vec<Arc<Frame>>,
        companions: Vec<(usize, Vec<Arc<Frame>>)>,
        awaited: u64,
    ) -> Result<(), ReadError> {
        let room = room(&frames);
        for position in companions.iter().map(|(position, _)| *position).chain([self.position]) {
            self.set_awaited(position, true);
        }
        frames.extend(companions.into_iter().flat_map(|(_, chosen)| chosen));
        let Some(first) = frames.first() else { return Ok(()) };
        let resources = Arc::clone(first.resources());
        let expected = Expected::of(&self.siblings.frames()).size(&frames).saturating_add(awaited);
        let _kept = resources.budget.promise(Use::Frames, expected.min(room));
        make(frames, &AtomicU64::new(0))
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

    /// The other archives with their positions, in the order in which the reader of this one comes to them.
    fn others(&self) -> Vec<(usize, Arc<Archive>)> {
        let count = self.siblings.archives.len();
        let positions = (self.position + 1..count).chain(0..self.position);
        positions.filter_map(|other| Some((other, self.siblings.archives.get(other)?.archive.upgrade()?))).collect()
    }

    /// For each of the next archives that fit into `room` together with this one, the frames that it lacks of the bundles
    /// of `frames`.
    fn companions(
        &self,
        frames: &[Arc<Frame>],
        others: &[(usize, Arc<Archive>)],
        room: u64,
        lacks: impl Fn(&Frame) -> bool,
    ) -> Vec<(usize, Vec<Arc<Frame>>)> {
        let bundle = |frame: &Frame| frame.object.bundle.as_ref().map(|bundle| bundle.id());
        let bundles: HashSet<_> = frames.iter().filter_map(|frame| bundle(frame)).collect();
        let expected = Expected::of(&self.siblings.frames());
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
