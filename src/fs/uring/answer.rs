//! Answers requests of rings from a [`Filesystem`], as [`Adapter`](crate::fs::Adapter) does for `/dev/fuse`.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, OnceLock};

use fuser::{BackingId, FopenFlags};
use rustix::io::Errno;

use super::entry::RingEntry;
use super::protocol::{Operation, PayloadWriter};
use crate::fs::attributes::file_type;
use crate::fs::filesystem::Filesystem;
use crate::fs::listing::{NameSink, NamesAndAttributes};
use crate::fs::nodes::{FileKind, NodeAttributes};
use crate::fs::passthrough::{Opening, Passthrough};
use crate::metrics::RequestKind;
use crate::rope::Content;
use crate::tree::NodeId;

/// What answers the requests of all rings of a mount.
#[derive(Debug)]
pub(crate) struct RingAnswers {
    pub(super) fs: Arc<Filesystem>,
    /// Set when the kernel has agreed to it.
    passthrough: OnceLock<Passthrough<BackingFile>>,
    /// Set when the kernel has agreed to send requests through rings.
    is_agreed: OnceLock<()>,
    pub(super) device: OnceLock<Arc<OwnedFd>>,
}

/// A file that the kernel reads by itself, by its number at the device.
#[derive(Debug)]
pub(crate) struct BackingFile {
    device: Arc<OwnedFd>,
    number: u32,
}

impl Drop for BackingFile {
    fn drop(&mut self) {
        /// `FUSE_DEV_IOC_BACKING_CLOSE`: `_IOW(229, 2, uint32_t)`
        const CLOSE: libc::Ioctl = libc::_IOW::<u32>(229, 2);
        #[expect(unsafe_code, reason = "fuser opens such files without a reply, and closes them only with one")]
        // SAFETY: the argument is the address of a number, which the kernel reads.
        unsafe {
            libc::ioctl(self.device.as_raw_fd(), CLOSE, &raw const self.number);
        }
    }
}

impl RingAnswers {
    pub(super) fn new(fs: &Arc<Filesystem>) -> Self {
        Self { fs: Arc::clone(fs), passthrough: OnceLock::new(), is_agreed: OnceLock::new(), device: OnceLock::new() }
    }

    /// Answers a request, here or on another thread.
    pub(super) fn answer(&self, mut entry: RingEntry) {
        let fs = &self.fs;
        let Some(request) = entry.request() else { return };
        let node = request.node;
        match request.operation {
            Operation::Lookup { name } => {
                let name = name.to_vec();
                fs.lookup(node, &name, |found| write(entry, found, |to, found| to.entry(found.as_ref())));
            }
            Operation::Getattr => fs.getattr(node, |found| write(entry, found, |to, found| to.attributes(found))),
            Operation::Readlink => {
                fs.readlink(node, |target| write(entry, target, |to, target| to.bytes(target)));
            }
            Operation::Open { flags } => self.fs.answer_now(RequestKind::Open, |_| {
                write(entry, self.open(node, flags), |to, Opening { handle, backing }| match backing {
                    Some(file) => to.open(*handle, FopenFlags::FOPEN_PASSTHROUGH, file.number),
                    None => to.open(*handle, FopenFlags::FOPEN_KEEP_CACHE, 0),
                });
            }),
            Operation::Read { offset, size } => fs.read_range(node, offset, size, |range| {
                let length = range.and_then(|range| {
                    (range.read)(entry.payload().get_mut(..range.length).ok_or(Errno::IO)?)?;
                    Ok(range.length)
                });
                entry.reply(length);
            }),
            Operation::Release { handle } => fs.answer_now(RequestKind::Release, |_| {
                self.passthrough.get().inspect(|passthrough| passthrough.close(node, handle));
                entry.reply(Ok(0));
            }),
            Operation::Readdir { offset, size } => {
                fs.readdir(node, offset, RingPage::new(entry, size), RingPage::reply);
            }
            Operation::Readdirplus { offset, size } => {
                fs.readdirplus(node, offset, RingPage::new(entry, size), RingPage::reply);
            }
            Operation::Getxattr { name, size } => {
                let name = name.to_vec();
                fs.getxattr(node, &name, move |value| write_attribute(entry, value, size));
            }
            // No attribute is listed, as over /dev/fuse.
            Operation::Listxattr { size } => {
                fs.answer_now(RequestKind::Listxattr, |_| write_attribute(entry, Ok(Vec::new()), size));
            }
            Operation::Statfs => fs.statfs(|usage| write(entry, Ok(usage), |to, usage| to.usage(*usage))),
            Operation::Write { is_in_pages } => fs.write(node, is_in_pages, |error| entry.reply(Err(error))),
            Operation::Change => fs.answer_now(RequestKind::Change, |_| entry.reply(Err(Errno::ROFS))),
            Operation::Other => fs.answer_now(RequestKind::Other, |_| entry.reply(Err(Errno::NOSYS))),
        }
    }

    fn open(&self, node: NodeId, flags: u32) -> Result<Opening<BackingFile>, Errno> {
        let register = |file: &File| {
            let device = Arc::clone(self.device.get()?);
            let number = BackingId::create_raw(&device, file).ok()?;
            Some(BackingFile { device, number })
        };
        self.passthrough.get_or_init(Passthrough::default).answer(&self.fs, node, flags.cast_signed(), register)
    }

    /// Records that the kernel has agreed to send requests through rings.
    pub(crate) fn agree(&self) {
        self.is_agreed.set(()).ok();
    }

    /// Whether the kernel sends requests through rings, once they are started.
    pub(crate) fn is_agreed(&self) -> bool {
        self.is_agreed.get().is_some()
    }

    /// Lets the kernel read files by itself. `sample` is the file that gains most.
    pub(crate) fn pass_through(&self, sample: Arc<dyn Content>) {
        self.passthrough.set(Passthrough::new(Some(sample))).ok();
    }
}

/// Writes the answer into the payload, unless it is an error.
fn write<T>(
    mut entry: RingEntry,
    answer: Result<T, Errno>,
    put: impl for<'a, 'b> FnOnce(&'b mut PayloadWriter<'a>, &T) -> &'b mut PayloadWriter<'a>,
) {
    let length = answer.and_then(|answer| {
        let mut writer = PayloadWriter::after(0, entry.payload());
        put(&mut writer, &answer).length().ok_or(Errno::IO)
    });
    entry.reply(length);
}

/// Writes the value of an extended attribute. `size` is the room for it; 0 asks for its size (getxattr(2)).
fn write_attribute(entry: RingEntry, value: Result<Vec<u8>, Errno>, size: u32) {
    let value = match value {
        Ok(value) if size > 0 && value.len() as u64 > size.into() => Err(Errno::RANGE),
        value => value,
    };
    write(entry, value, |to, value| match size {
        0 => to.attribute_size(u32::try_from(value.len()).unwrap_or(u32::MAX)),
        _ => to.bytes(value),
    });
}

/// A part of a listing.
struct RingPage {
    entry: RingEntry,
    length: usize,
    room: usize,
}

impl RingPage {
    fn new(entry: RingEntry, size: u32) -> Self {
        Self { entry, length: 0, room: size as usize }
    }

    fn reply(self, result: Result<(), Errno>) {
        self.entry.reply(result.map(|()| self.length));
    }

    /// Adds what `put` writes. Returns `true` if there is no room for it.
    fn put(&mut self, put: impl FnOnce(&mut PayloadWriter<'_>)) -> bool {
        let room = self.entry.payload().get_mut(..self.room).unwrap_or_default();
        let mut writer = PayloadWriter::after(self.length, room);
        put(&mut writer);
        let length = writer.length();
        self.length = length.unwrap_or(self.length);
        length.is_none()
    }
}

impl NameSink for RingPage {
    fn add(&mut self, number: NodeId, next: u64, kind: FileKind, name: &[u8]) -> bool {
        self.put(|to| _ = to.name(number, next, file_type(kind), name))
    }
}

impl NamesAndAttributes for RingPage {
    fn add(&mut self, next: u64, name: &[u8], found: &NodeAttributes) -> bool {
        self.put(|to| _ = to.name_and_attributes(next, name, found))
    }
}
