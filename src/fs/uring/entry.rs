//! Entries of a queue: buffers that the kernel and this process hold in turn.

use std::os::fd::OwnedFd;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;
use std::thread::{self, ThreadId};

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::fs::answer::RequestEntry;
use crate::fs::buffers::FileBytes;
use crate::fs::protocol::{self, HEADER, Request};

/// Entries of a queue. With the wake-up they are a power of two, as a ring has. More than the kernel's background
/// requests, so that slow readahead leaves some to other readers.
pub(super) const DEPTH: u16 = 127;

/// Bytes of a payload, which is the largest request.
pub(crate) const PAYLOAD: u32 = 128 << 10;

/// The number of an entry in its queue.
pub(super) type SlotNumber = u16;

/// The buffers of all entries of a queue: headers, and page by page the payloads. They are addresses only, until the
/// kernel or an answer writes to them.
#[derive(Debug)]
pub(super) struct EntryMemory(NonNull<u8>);

#[expect(unsafe_code, reason = "it is memory that any thread may use")]
// SAFETY: it is a mapping without a thread of its own. Entries decide which thread uses a part of it.
unsafe impl Send for EntryMemory {}
#[expect(unsafe_code, reason = "it is memory that any thread may use")]
// SAFETY: as above
unsafe impl Sync for EntryMemory {}

impl EntryMemory {
    const PAYLOADS: usize = (DEPTH as usize * HEADER).next_multiple_of(64 << 10);
    const LENGTH: usize = Self::PAYLOADS + DEPTH as usize * PAYLOAD as usize;

    fn reserve() -> Result<Self, Errno> {
        #[expect(unsafe_code, reason = "a mapping")]
        // SAFETY: a new mapping, whose address the kernel chooses.
        let start = unsafe {
            let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
            mmap_anonymous(ptr::null_mut(), Self::LENGTH, ProtFlags::READ | ProtFlags::WRITE, flags)?
        };
        let memory = Self(NonNull::new(start.cast()).ok_or(Errno::NOMEM)?);
        // Else a name in one payload could cost a huge page. A kernel without huge pages refuses.
        memory.advise(0, Self::LENGTH, Advice::LinuxNoHugepage).ok();
        Ok(memory)
    }

    fn advise(&self, at: usize, length: usize, advice: Advice) -> Result<(), Errno> {
        #[expect(unsafe_code, reason = "about a part of the mapping")]
        // SAFETY: callers pass parts of the mapping that nobody uses now.
        unsafe {
            madvise(self.0.add(at).as_ptr().cast(), length, advice)
        }
    }

    fn payload_at(slot: SlotNumber) -> usize {
        Self::PAYLOADS + usize::from(slot) * PAYLOAD as usize
    }

    /// Gives the pages of a payload back. Nobody may use it now.
    pub(super) fn give_back(&self, slot: SlotNumber) {
        self.advise(Self::payload_at(slot), PAYLOAD as usize, Advice::LinuxDontNeed).ok();
    }

    pub(super) fn header(&self, slot: SlotNumber) -> *mut [u8; HEADER] {
        self.0.as_ptr().wrapping_add(usize::from(slot) * HEADER).cast()
    }

    pub(super) fn payload(&self, slot: SlotNumber) -> *mut u8 {
        self.0.as_ptr().wrapping_add(Self::payload_at(slot))
    }
}

impl Drop for EntryMemory {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "the end of the mapping")]
        // SAFETY: the queue, its ring and all entries are gone: they hold it by `Arc`.
        unsafe {
            munmap(self.0.as_ptr().cast(), Self::LENGTH).ok();
        }
    }
}

/// What entries need of their queue.
#[derive(Debug)]
pub(super) struct EntryOwner {
    pub(super) memory: EntryMemory,
    /// Entries that have a reply.
    pub(super) answered: Mutex<Vec<SlotNumber>>,
    /// Wakes the thread of the queue.
    pub(super) wake: OwnedFd,
    thread: ThreadId,
}

impl EntryOwner {
    /// For a queue of this thread.
    pub(super) fn new() -> Result<Self, Errno> {
        Ok(Self {
            memory: EntryMemory::reserve()?,
            answered: Mutex::default(),
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            thread: thread::current().id(),
        })
    }

    /// Wakes the thread of the queue.
    pub(super) fn wake(&self) {
        // It fails only if 2^64 - 1 wake-ups have not been seen.
        rustix::io::write(&self.wake, &1_u64.to_ne_bytes()).ok();
    }
}

/// An entry with a request, which the kernel does not touch until it gets the reply. An entry that is dropped without
/// one answers EIO.
#[derive(Debug)]
pub(super) struct RingEntry {
    owner: Arc<EntryOwner>,
    slot: SlotNumber,
    result: Result<u32, Errno>,
}

impl RingEntry {
    /// The kernel must have put a request into this entry, for which there is no other [`RingEntry`].
    pub(super) fn new(owner: Arc<EntryOwner>, slot: SlotNumber) -> Self {
        Self { owner, slot, result: Err(Errno::IO) }
    }

    fn header(&mut self) -> &mut [u8; HEADER] {
        #[expect(unsafe_code, reason = "a part of the mapping")]
        // SAFETY: the mapping lives as long as `owner`; only this value refers to the entry.
        unsafe {
            &mut *self.owner.memory.header(self.slot)
        }
    }
}

impl RequestEntry for RingEntry {
    fn request(&self) -> Option<Request<'_>> {
        #[expect(unsafe_code, reason = "parts of the mapping")]
        // SAFETY: as above
        let (header, payload) = unsafe {
            (
                &*self.owner.memory.header(self.slot),
                slice::from_raw_parts(self.owner.memory.payload(self.slot), PAYLOAD as usize),
            )
        };
        Request::decode(header, payload)
    }

    fn room(&mut self, _: usize) -> &mut [u8] {
        #[expect(unsafe_code, reason = "a part of the mapping")]
        // SAFETY: as above
        unsafe {
            slice::from_raw_parts_mut(self.owner.memory.payload(self.slot), PAYLOAD as usize)
        }
    }

    fn reply(mut self, length: Result<usize, Errno>) {
        self.result = length.and_then(|length| u32::try_from(length).map_err(|_| Errno::IO));
    }
    fn reply_with(mut self, bytes: Result<FileBytes<'_>, Errno>) {
        let length = bytes.and_then(|bytes| bytes.read_into(self.room(0)));
        self.reply(length);
    }
}

impl Drop for RingEntry {
    fn drop(&mut self) {
        let result = self.result;
        protocol::set_reply(self.header(), result);
        let was_empty = {
            let mut answered = self.owner.answered.lock();
            answered.push(self.slot);
            answered.len() == 1
        };
        // That thread reads the list after each request. Others wake it once for all that it has not taken yet.
        if was_empty && thread::current().id() != self.owner.thread {
            self.owner.wake();
        }
    }
}
