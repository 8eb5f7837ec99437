//! A queue: the thread that owns its ring, and is the only one that submits.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use io_uring::squeue::Entry128;
use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode};
use rustix::event::{PollFd, PollFlags, poll};

use super::entry::{DEPTH, EntryOwner, PAYLOAD, RingEntry, SlotNumber};
use super::error::RingError;
use crate::fs::answer::Answers;
use crate::fs::failure::contained;
use crate::fs::protocol::{self, HEADER};

/// Commands (`enum fuse_uring_cmd`).
const REGISTER: u32 = 1;
const COMMIT_AND_FETCH: u32 = 2;

/// The number of the wake-up among the commands of a ring, after those of entries.
const WAKE: u64 = DEPTH as u64;

/// The number of a command whose error says something about the kernel.
const PROBE: u64 = WAKE + 1;

/// Payloads that keep their pages while nothing happens.
const HOT: usize = 2;

/// A payload that was not used for so long loses its pages.
const COLD: Duration = Duration::from_secs(1);

/// An entry, as its queue sees it.
#[derive(Clone, Debug, Default)]
struct SlotState {
    /// Whether it has a request.
    is_taken: bool,
    /// Whether its payload may have pages.
    is_touched: bool,
    /// Whether it was used since pages were last given back.
    is_recent: bool,
}

/// A queue of one processor. Its thread makes it, and no other uses it.
pub(super) struct RingQueue {
    number: u16,
    ring: IoUring<Entry128, cqueue::Entry>,
    slots: Vec<SlotState>,
    /// Number of payloads that may have pages.
    touched: usize,
    /// Entries that were used last.
    hot: [SlotNumber; HOT],
    given_back: Instant,
    /// Addresses and lengths of the buffers of entries (`struct iovec`).
    places: Box<[[usize; 4]]>,
    completions: Vec<(u64, i32)>,
    pub(super) owner: Arc<EntryOwner>,
}

impl RingQueue {
    /// Makes the ring, and tries it.
    pub(super) fn new(number: u16) -> io::Result<Self> {
        let mut builder: io_uring::Builder<Entry128, cqueue::Entry> = IoUring::builder();
        let size = u32::from(DEPTH) + 1;
        let ring = builder.setup_single_issuer().setup_coop_taskrun().setup_defer_taskrun().build(size)?;
        let owner = EntryOwner::new()?;
        let place =
            |slot| [owner.memory.header(slot) as usize, HEADER, owner.memory.payload(slot) as usize, PAYLOAD as usize];
        let places = (0..DEPTH).map(place).collect();
        let mut queue = Self {
            number,
            ring,
            slots: vec![SlotState::default(); DEPTH.into()],
            touched: 0,
            hot: [0; HOT],
            given_back: Instant::now(),
            places,
            completions: Vec::new(),
            owner: Arc::new(owner),
        };
        queue.push(&opcode::Nop::new().build().into())?;
        queue.wait()?;
        match queue.completions.pop() {
            Some((0, 0)) => Ok(queue),
            other => Err(io::Error::other(format!("a command that does nothing ends with {other:?}"))),
        }
    }

    /// Gives all entries to the kernel. After an error for which [`RingError::falls_back`], it has none.
    pub(super) fn register(&mut self, device: &OwnedFd) -> Result<(), RingError> {
        let broken = self.broken();
        for slot in 0..DEPTH {
            self.command(device, slot, REGISTER, 0).map_err(broken)?;
        }
        self.watch().map_err(broken)?;
        self.ring.submit().map_err(broken)?;
        // The first requests may be among the completions.
        self.take_completions();
        let refused = self.completions.iter().filter(|(_, result)| *result < 0);
        match refused.clone().map(|(_, error)| io::Error::from_raw_os_error(-error)).next() {
            None => Ok(()),
            Some(error) if refused.count() == usize::from(DEPTH) => Err(RingError::Register(error)),
            Some(error) => Err(broken(error)),
        }
    }

    /// The number of queues that the kernel has, which is asked after the first one has been registered. Fails if there are
    /// more than `most`: the kernel would wait for them, and hold back all requests. A REGISTER that fails makes it fall back
    /// (`fs/fuse/dev_uring.c`, `fuse_uring_cmd`).
    pub(super) fn count(&mut self, device: &OwnedFd, most: u16) -> Result<u16, RingError> {
        let broken = self.broken();
        if self.is_missing(device, most).map_err(broken)? {
            return match self.probe(device, REGISTER, u16::MAX).map_err(broken)? {
                libc::EINVAL => Err(RingError::TooFew),
                other => Err(broken(io::Error::from_raw_os_error(other))),
            };
        }
        let mut count = most;
        while count > 1 && !self.is_missing(device, count - 1).map_err(broken)? {
            count -= 1;
        }
        Ok(count)
    }

    /// Whether the kernel waits for a queue with this number. A commit to it fails with ENOTCONN, and with EINVAL if there can
    /// be none (`fuse_uring_commit_fetch`).
    fn is_missing(&mut self, device: &OwnedFd, number: u16) -> io::Result<bool> {
        match self.probe(device, COMMIT_AND_FETCH, number)? {
            libc::ENOTCONN => Ok(true),
            libc::EINVAL => Ok(false),
            other => Err(io::Error::from_raw_os_error(other)),
        }
    }

    fn broken(&self) -> impl Fn(io::Error) -> RingError + Copy + use<> {
        let number = self.number;
        move |error| RingError::Broken(number, error.to_string())
    }

    /// The error of a command for another queue.
    fn probe(&mut self, device: &OwnedFd, command: u32, number: u16) -> io::Result<i32> {
        let built = self.built(device, 0, command, 0, number).user_data(PROBE);
        self.push(&built)?;
        self.ring.submit()?;
        self.take_completions();
        let index = self.completions.iter().position(|(number, _)| *number == PROBE);
        let (_, result) = index.map(|index| self.completions.swap_remove(index)).unwrap_or_default();
        Ok(-result)
    }

    /// Answers requests until the filesystem is gone, or `is_ending`.
    pub(super) fn serve(&mut self, device: &OwnedFd, answers: &Answers, is_ending: &AtomicBool) -> io::Result<()> {
        let counters = &answers.fs.resources.counters;
        while !is_ending.load(Ordering::Acquire) {
            for (number, result) in std::mem::take(&mut self.completions) {
                if result < 0 {
                    return if is_connected(device) { Err(io::Error::from_raw_os_error(-result)) } else { Ok(()) };
                }
                let Ok(slot) = SlotNumber::try_from(number) else { continue };
                self.touch(slot);
                counters.ring_requests.add(1);
                let entry = RingEntry::new(Arc::clone(&self.owner), slot);
                contained(|| answers.answer(entry));
            }
            let answered = std::mem::take(&mut *self.owner.answered.lock());
            counters.ring_replies.add(answered.len() as u64);
            for slot in answered {
                if let Some(state) = self.slots.get_mut(usize::from(slot)) {
                    state.is_taken = false;
                }
                #[expect(unsafe_code, reason = "a part of the mapping")]
                // SAFETY: the entry is in the list, so no value refers to its buffers.
                let commit_id = protocol::commit_id(unsafe { &*self.owner.memory.header(slot) });
                self.command(device, slot, COMMIT_AND_FETCH, commit_id)?;
            }
            self.wait()?;
            self.give_back();
        }
        Ok(())
    }

    /// Submits what was queued, and waits for completions.
    fn wait(&mut self) -> io::Result<()> {
        let limit = Timespec::from(COLD);
        let limited = SubmitArgs::new().timespec(&limit);
        let submitter = self.ring.submitter();
        let result =
            if self.touched > HOT { submitter.submit_with_args(1, &limited) } else { submitter.submit_and_wait(1) };
        match result.as_ref().map_err(io::Error::raw_os_error) {
            // The kernel has no memory for the moment, or wants completions to be taken first.
            Err(Some(libc::EAGAIN | libc::EBUSY | libc::ENOMEM)) => std::thread::sleep(Duration::from_millis(1)),
            Ok(_) | Err(Some(libc::EINTR | libc::ETIME)) => {}
            Err(_) => _ = result?,
        }
        self.take_completions();
        Ok(())
    }

    fn take_completions(&mut self) {
        let mut is_watched = true;
        for completion in self.ring.completion() {
            let number = completion.user_data();
            if number == WAKE {
                is_watched = cqueue::more(completion.flags());
                continue;
            }
            if let Some(state) = usize::try_from(number).ok().and_then(|slot| self.slots.get_mut(slot)) {
                state.is_taken = true;
            }
            self.completions.push((number, completion.result()));
        }
        if !is_watched {
            // There is room: each entry has one command at most.
            self.watch().ok();
        }
    }

    /// Records that an entry is used.
    fn touch(&mut self, slot: SlotNumber) {
        if let Some(state) = self.slots.get_mut(usize::from(slot)) {
            self.touched += usize::from(!state.is_touched);
            (state.is_touched, state.is_recent) = (true, true);
        }
        let [last, before] = self.hot;
        self.hot = [slot, if last == slot { before } else { last }];
    }

    /// Gives the pages of payloads back that were not used for a while. The kernel writes to buffers only during
    /// [`RingQueue::wait`], whose completions name them, and has taken all replies that were submitted.
    fn give_back(&mut self) {
        if self.touched <= HOT || self.given_back.elapsed() < COLD || !self.ring.submission().is_empty() {
            return;
        }
        self.given_back = Instant::now();
        for (slot, state) in (0..).zip(&mut self.slots) {
            if !std::mem::take(&mut state.is_recent) && state.is_touched && !state.is_taken && !self.hot.contains(&slot)
            {
                self.owner.memory.give_back(slot);
                state.is_touched = false;
                self.touched -= 1;
            }
        }
    }

    /// Waits for wake-ups by other threads.
    fn watch(&mut self) -> io::Result<()> {
        let readable = u32::from(PollFlags::IN.bits());
        let poll = opcode::PollAdd::new(Fd(self.owner.wake.as_raw_fd()), readable).multi(true).build();
        self.push(&Entry128::from(poll).user_data(WAKE))
    }

    /// Queues a command for an entry.
    fn command(&mut self, device: &OwnedFd, slot: SlotNumber, command: u32, commit_id: u64) -> io::Result<()> {
        let built = self.built(device, slot, command, commit_id, self.number);
        self.push(&built.user_data(slot.into()))
    }

    /// A command for an entry of a queue (`struct fuse_uring_cmd_req`: flags, number of the request, number of the queue).
    fn built(&self, device: &OwnedFd, slot: SlotNumber, command: u32, commit_id: u64, queue: u16) -> Entry128 {
        let mut request = [0; 80];
        let numbers = [&[0; 8][..], &commit_id.to_ne_bytes(), &queue.to_ne_bytes()].concat();
        request.iter_mut().zip(numbers).for_each(|(field, byte)| *field = byte);
        let place = self.places.get(usize::from(slot)).map_or(0, |place| place.as_ptr() as u64);
        let device = Fd(device.as_raw_fd());
        let mut built = opcode::UringCmd80::new(device, command).cmd(request).addr(Some(place)).build();
        set_length(&mut built, 2);
        built
    }

    fn push(&mut self, entry: &Entry128) -> io::Result<()> {
        #[expect(unsafe_code, reason = "the kernel uses the buffers after the call")]
        // SAFETY: buffers live as long as the queue, or longer; while the kernel has an entry, nobody touches its own.
        let pushed = unsafe { self.ring.submission().push(entry) };
        pushed.map_err(|_| io::Error::other("the ring is full"))
    }
}

/// Sets the field `len`, for which the crate has no setter: the number of buffers.
fn set_length(entry: &mut Entry128, length: u32) {
    /// Offset of `len` in `struct io_uring_sqe`, in units of its own size.
    const LENGTH: usize = 24 / 4;
    #[expect(unsafe_code, reason = "the crate has no setter")]
    // SAFETY: an Entry128 is a `struct io_uring_sqe` of 128 bytes, aligned to 8, with `len` as a u32 at this offset.
    unsafe {
        std::ptr::from_mut(entry).cast::<u32>().add(LENGTH).write(length);
    }
}

/// Whether the kernel still has the filesystem.
fn is_connected(device: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(device, PollFlags::empty())];
    let result = poll(&mut polled, Some(&rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 }));
    result.is_ok() && polled.iter().all(|polled| !polled.revents().contains(PollFlags::ERR))
}
