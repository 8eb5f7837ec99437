//! The transport over `io_uring` (Documentation/filesystems/fuse-io-uring.rst): each possible processor has a queue with
//! entries, which are buffers. An entry is registered once. A completion says that a request is in its buffers, and the
//! command that commits the reply also asks for the next request.
//!
//! A thread on the processor owns the ring of its queue, and is the only one that submits. What takes long is done by
//! another thread, which hands the entry back by a list and a byte in a pipe.

use std::fs;
use std::io::{self, PipeReader, PipeWriter, Write, pipe};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::Context;
use io_uring::squeue::Entry128;
use io_uring::types::Fd;
use io_uring::{IoUring, cqueue, opcode};
use rustix::thread::{CpuSet, sched_setaffinity};

use super::files::Files;
use super::protocol::{self, Answer, HEADER};

/// Commands (`enum fuse_uring_cmd`).
const REGISTER: u32 = 1;
const COMMIT_AND_FETCH: u32 = 2;

/// The number of the read from the pipe among the commands of a ring, after those of entries.
const WAKE: u64 = u64::MAX;

type Ring = IoUring<Entry128, cqueue::Entry>;

/// The buffers of an entry. The kernel writes to them while it has the entry.
struct Entry {
    header: Box<[u8; HEADER]>,
    payload: Vec<u8>,
    /// The two buffers for the kernel (`struct iovec`): address and length each.
    places: Box<[usize; 4]>,
}

/// A queue, and its thread's ring.
struct Queue {
    number: u16,
    ring: Ring,
    entries: Vec<Option<Entry>>,
    files: Arc<Files>,
    device: RawFd,
    returned: Arc<Returned>,
    /// The other end of [`Returned::wake`].
    woken: PipeReader,
    /// Where its bytes are read to.
    bytes: Box<[u8; 64]>,
}

/// Entries whose replies other threads have made.
struct Returned {
    entries: Mutex<Vec<(usize, Entry)>>,
    wake: PipeWriter,
}

/// The threads of all queues, which wait for the device.
pub(super) struct Queues {
    devices: Vec<Sender<RawFd>>,
    registered: Receiver<anyhow::Result<()>>,
}

impl Queues {
    /// Makes the rings and buffers.
    pub(super) fn prepare(depth: u32, payload: u32, files: &Arc<Files>) -> anyhow::Result<Self> {
        let (report, registered) = channel();
        let mut devices = Vec::new();
        for number in 0..processors()? {
            let (device, wait) = channel();
            let (files, report) = (Arc::clone(files), report.clone());
            devices.push(device);
            thread::Builder::new().name(format!("ring-{number}")).spawn(move || {
                let mut queue = match Queue::new(number, depth, payload, files) {
                    Ok(queue) => queue,
                    Err(error) => return report.send(Err(error)).unwrap_or(()),
                };
                report.send(Ok(())).ok();
                let Ok(device) = wait.recv() else { return };
                queue.device = device;
                report.send(queue.register().context("registering")).ok();
                if let Err(error) = queue.serve() {
                    eprintln!("queue {number}: {error:#}");
                }
            })?;
        }
        let queues = Self { devices, registered };
        queues.wait()?;
        Ok(queues)
    }

    /// Gives the kernel the entries of all queues.
    pub(super) fn register(&self, device: &impl AsFd) -> anyhow::Result<()> {
        for queue in &self.devices {
            queue.send(device.as_fd().as_raw_fd()).ok();
        }
        self.wait()
    }

    fn wait(&self) -> anyhow::Result<()> {
        self.devices.iter().try_for_each(|_| self.registered.recv()?)
    }
}

impl Queue {
    fn new(number: u16, depth: u32, payload: u32, files: Arc<Files>) -> anyhow::Result<Self> {
        let mut here = CpuSet::new();
        here.set(number.into());
        // A processor that is not online has a queue, too, but no requests.
        sched_setaffinity(None, &here).ok();
        let mut builder: io_uring::Builder<Entry128, cqueue::Entry> = IoUring::builder();
        let ring = builder.setup_single_issuer().setup_coop_taskrun().setup_defer_taskrun().build(depth + 1)?;
        let entry = |_| {
            let (header, payload) = (Box::new([0; HEADER]), vec![0; payload as usize]);
            let places = Box::new([header.as_ptr() as usize, HEADER, payload.as_ptr() as usize, payload.len()]);
            Some(Entry { header, payload, places })
        };
        let (woken, wake) = pipe()?;
        let returned = Returned { entries: Mutex::default(), wake };
        Ok(Self {
            number,
            ring,
            entries: (0..depth).map(entry).collect(),
            files,
            device: -1,
            returned: Arc::new(returned),
            woken,
            bytes: Box::new([0; 64]),
        })
    }

    fn register(&mut self) -> anyhow::Result<()> {
        for slot in 0..self.entries.len() {
            self.command(slot, REGISTER, 0)?;
        }
        self.watch()?;
        self.ring.submit()?;
        Ok(())
    }

    /// Answers requests until the filesystem is unmounted.
    fn serve(&mut self) -> anyhow::Result<()> {
        let mut done = Vec::new();
        loop {
            match self.ring.submit_and_wait(1) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                result => drop(result?),
            }
            done.extend(self.ring.completion().map(|completion| (completion.user_data(), completion.result())));
            for (number, result) in done.drain(..) {
                if number == WAKE {
                    self.take_back()?;
                } else if result < 0 {
                    // The kernel ends all commands when the filesystem is unmounted.
                    return Ok(());
                } else {
                    self.answer(usize::try_from(number)?)?;
                }
            }
        }
    }

    fn answer(&mut self, slot: usize) -> anyhow::Result<()> {
        let held = self.entries.get_mut(slot).context("entry")?;
        let entry = held.as_mut().context("an entry that is in use")?;
        match protocol::answer(&self.files, &mut entry.header, &mut entry.payload, false) {
            Answer::Made => {
                let commit_id = protocol::commit_id(&entry.header);
                self.command(slot, COMMIT_AND_FETCH, commit_id)
            }
            Answer::Later(time) => {
                let mut entry = held.take().context("entry")?;
                let (files, returned) = (Arc::clone(&self.files), Arc::clone(&self.returned));
                thread::spawn(move || {
                    thread::sleep(time);
                    protocol::answer(&files, &mut entry.header, &mut entry.payload, true);
                    returned.entries.lock().unwrap_or_else(PoisonError::into_inner).push((slot, entry));
                    (&returned.wake).write_all(&[1]).ok();
                });
                Ok(())
            }
        }
    }

    /// Commits the replies that other threads have made.
    fn take_back(&mut self) -> anyhow::Result<()> {
        let returned = std::mem::take(&mut *self.returned.entries.lock().unwrap_or_else(PoisonError::into_inner));
        for (slot, entry) in returned {
            let commit_id = protocol::commit_id(&entry.header);
            *self.entries.get_mut(slot).context("entry")? = Some(entry);
            self.command(slot, COMMIT_AND_FETCH, commit_id)?;
        }
        self.watch()
    }

    /// Reads from the pipe.
    fn watch(&mut self) -> anyhow::Result<()> {
        let read = opcode::Read::new(Fd(self.woken.as_raw_fd()), self.bytes.as_mut_ptr(), 64).build();
        self.push(&Entry128::from(read.user_data(WAKE)))
    }

    /// Queues a command for an entry (`struct fuse_uring_cmd_req`: flags, number of the request, number of the queue).
    fn command(&mut self, slot: usize, command: u32, commit_id: u64) -> anyhow::Result<()> {
        let entry = self.entries.get(slot).and_then(Option::as_ref).context("entry")?;
        let mut request = [0; 80];
        request[8..16].copy_from_slice(&commit_id.to_ne_bytes());
        request[16..18].copy_from_slice(&self.number.to_ne_bytes());
        let places = entry.places.as_ptr() as u64;
        let built = opcode::UringCmd80::new(Fd(self.device), command).cmd(request).addr(Some(places)).build();
        let mut built = built.user_data(slot as u64);
        set_length(&mut built, 2);
        self.push(&built)
    }

    fn push(&mut self, entry: &Entry128) -> anyhow::Result<()> {
        #[expect(
            unsafe_code,
            reason = "the kernel uses the buffers after the call: entries are dropped after their ring"
        )]
        // SAFETY: buffers live as long as the queue, or return to it; nobody touches those of an entry in the kernel.
        unsafe { self.ring.submission().push(entry) }.context("the queue is full")
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

/// The number of possible processors, each of which must have a queue.
fn processors() -> anyhow::Result<u16> {
    let place = "/sys/devices/system/cpu/possible";
    let text = fs::read_to_string(place).context(place)?;
    // 0, or 0-127
    let last = text.trim().rsplit(['-', ',']).next().unwrap_or_default();
    Ok(last.parse::<u16>().context(place)? + 1)
}
