//! Frames of one archive as parts of its rope. Whoever reads them in the order of the file finds the next ones made.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::frame::Frame;
use super::siblings::{Company, Place};
use crate::rope::{Content, Identity, ReadError};

/// Bytes of frames that are made ahead of a reader: what fits, but at most this, and at most this part of the budget.
const AHEAD: u64 = 16 << 20;
const PART: u64 = 8;

/// A reader whose requests overtake each other by so many frames still reads from front to back.
const DISORDER: usize = 8;

/// Bytes of frames that stay behind a reader, for requests that were overtaken.
const BEHIND: u64 = 2 << 20;

/// The frames of an archive, and how far a reader is.
#[derive(Debug)]
pub(super) struct Stream {
    frames: Vec<(Arc<Frame>, u64)>,
    siblings: Option<Place>,
    reader: Mutex<Reader>,
}

#[derive(Debug, Default)]
struct Reader {
    /// The frame behind the last one that was read.
    next: usize,
    /// The first of those before it that should stay.
    staying: usize,
    /// Frames to make that nobody has begun with.
    wanted: Range<usize>,
    /// Threads that make some.
    makers: usize,
    /// Up to here it is not worth making frames of other archives at the same time.
    alone_until: usize,
    /// Nobody wanted any of those when that was found.
    is_first: bool,
}

impl Reader {
    /// Notes where the reader is. Whether it came there from the frame before; where it jumps to it may stay.
    fn go_to(&mut self, number: usize) -> bool {
        let follows = (self.next.saturating_sub(DISORDER)..=self.next + DISORDER).contains(&number);
        if follows {
            self.next = self.next.max(number + 1);
        } else {
            self.next = number + 1;
            (self.staying, self.wanted) = (number, 0..0);
        }
        follows
    }

    /// Stops making frames for this archive alone if others are wanted now that were not when that was begun.
    fn look_around(&mut self, place: &Place) {
        if self.is_first && place.is_in_company() {
            (self.is_first, self.alone_until, self.wanted) = (false, 0, 0..0);
        }
    }
}

impl Stream {
    /// A stream of the frames of an archive, with their lengths.
    pub(super) fn new(frames: Vec<(Arc<Frame>, u64)>, siblings: Option<Place>) -> Arc<Self> {
        Arc::new(Self { frames, siblings, reader: Mutex::default() })
    }

    /// The frames as contents.
    pub(super) fn contents(self: &Arc<Self>) -> impl Iterator<Item = FrameContent> {
        let content = |number| FrameContent { stream: Arc::clone(self), number };
        (0..self.frames.len()).map(content)
    }

    fn lock(&self) -> MutexGuard<'_, Reader> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A reader is at frame `number`. If it came here from the one before, it will soon want those that follow.
    fn reached(self: &Arc<Self>, number: usize) {
        let mut reader = self.lock();
        if number + 1 == reader.next {
            return;
        }
        let follows = reader.go_to(number);
        let mut end = if follows { self.end_of_what_is_ahead(reader.next) } else { reader.next };
        if follows && let Some(place) = &self.siblings {
            self.leave_behind(&mut reader, place);
            reader.look_around(place);
            let shared = (number..end).find(|&next| self.shares_bundle(next));
            if shared != Some(number) {
                // There is nothing to be gained from others, nor to be waited for.
                end = shared.unwrap_or(end);
            } else if number >= reader.alone_until {
                drop(reader);
                let company = place.make_ahead(self.frames.get(number..end).unwrap_or_default());
                if company == Company::Useful {
                    return;
                }
                reader = self.lock();
                reader.alone_until = end;
                reader.is_first = company == Company::None;
            }
        }
        self.make_alone(&mut reader, end);
    }

    /// Has frames made that come before `end`, for this reader only.
    fn make_alone(self: &Arc<Self>, reader: &mut Reader, end: usize) {
        let first = reader.wanted.start.max(reader.next);
        reader.wanted = first..end.max(first);
        let Some((frame, _)) = self.frames.first() else { return };
        while reader.makers < rayon::current_num_threads().min(reader.wanted.len()) {
            reader.makers += 1;
            let stream = Arc::clone(self);
            frame.resources().workers.run(move || stream.make_wanted());
        }
    }

    /// Lets frames leave that the reader has passed, before those that others have not come to.
    fn leave_behind(&self, reader: &mut Reader, place: &Place) {
        let is_end = reader.next == self.frames.len();
        place.read_on(is_end);
        if is_end {
            // In the end the first one leaves first. Requests for the last ones may be under way.
            return self.frames.iter().rev().skip(DISORDER).for_each(|(frame, _)| frame.leave_first());
        }
        let mut staying = reader.next;
        let mut bytes = 0_u64;
        while staying > reader.staying
            && let Some((_, length)) = self.frames.get(staying - 1)
            && bytes + length <= BEHIND
        {
            bytes += length;
            staying -= 1;
        }
        let left = self.frames.get(reader.staying..staying).unwrap_or_default();
        left.iter().rev().for_each(|(frame, _)| frame.leave_first());
        reader.staying = staying;
    }

    fn shares_bundle(&self, number: usize) -> bool {
        self.frames.get(number).is_some_and(|(frame, _)| frame.object.bundle.is_some())
    }

    fn end_of_what_is_ahead(&self, next: usize) -> usize {
        let Some((frame, _)) = self.frames.get(next) else { return next };
        let most = AHEAD.min(frame.resources().budget.capacity() / PART);
        let mut bytes = 0_u64;
        let fits = |(_, length): &&(Arc<Frame>, u64)| {
            bytes = bytes.saturating_add(*length);
            bytes <= most
        };
        next + self.frames.iter().skip(next).take_while(fits).count()
    }

    fn make_wanted(&self) {
        loop {
            let mut reader = self.lock();
            if let Some(place) = &self.siblings {
                reader.look_around(place);
            }
            let next = reader.wanted.next().and_then(|number| self.frames.get(number));
            let Some((frame, _)) = next else {
                reader.makers -= 1;
                return;
            };
            drop(reader);
            if frame.make().is_err() {
                // The reader will meet the same error and report it.
                self.lock().wanted = 0..0;
            }
        }
    }
}

/// A frame as a part of an archive. It exists only when the length is known.
#[derive(Debug)]
pub(super) struct FrameContent {
    stream: Arc<Stream>,
    number: usize,
}

impl FrameContent {
    fn part(&self) -> Option<&(Arc<Frame>, u64)> {
        self.stream.frames.get(self.number)
    }
}

impl Content for FrameContent {
    fn size(&self) -> u64 {
        self.part().map_or(0, |(_, length)| *length)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        self.stream.reached(self.number);
        match self.part() {
            Some((frame, length)) => frame.read_at(*length, offset, buffer),
            None => Ok(()),
        }
    }

    fn is_prompt(&self, _: u64, _: usize) -> bool {
        self.part().is_none_or(|(frame, _)| frame.is_there())
    }

    fn identity(&self) -> Option<Identity> {
        self.part()?.0.identity()
    }
}
