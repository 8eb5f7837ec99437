//! Answers requests from a [`Filesystem`], however they travel.
//!
//! The cheapest request is the one that the kernel does not make. It caches attributes, names (including those that do
//! not exist), listings and pages as long as it likes. It opens files and directories without asking, unless files are
//! passed through ([`super::passthrough`]).

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, OnceLock};

use fuser::{BackingId, FopenFlags};
use rustix::io::Errno;

use super::buffers::FileBytes;
use super::filesystem::Filesystem;
use super::listing::{NameSink, NamesAndAttributes};
use super::nodes::{FileKind, NodeAttributes};
use super::passthrough::{Opening, Passthrough};
use super::protocol::{Operation, PayloadWriter, Request};
use crate::metrics::RequestKind;
use crate::rope::Content;
use crate::tree::NodeId;

/// Bytes of `struct fuse_entry_out`, the longest reply of a fixed length.
const FIXED: usize = 128;

/// A request with room for its reply. One that is dropped without a reply answers EIO.
pub(super) trait RequestEntry: Send + 'static {
    /// The request. `None` if it is not valid.
    fn request(&self) -> Option<Request<'_>>;

    /// Where the payload of the reply belongs: `size` bytes or more, or all that there is room for.
    fn room(&mut self, size: usize) -> &mut [u8];

    /// Answers with the first bytes of the room, or an error.
    fn reply(self, length: Result<usize, Errno>);

    /// Answers with these bytes, or an error.
    fn reply_with(self, bytes: Result<FileBytes<'_>, Errno>);
}

/// What answers the requests of a mount.
#[derive(Debug)]
pub(crate) struct Answers {
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

impl Answers {
    pub(crate) fn new(fs: &Arc<Filesystem>) -> Arc<Self> {
        let (fs, passthrough) = (Arc::clone(fs), OnceLock::new());
        Arc::new(Self { fs, passthrough, is_agreed: OnceLock::new(), device: OnceLock::new() })
    }

    /// Sets the device of the mount.
    pub(crate) fn set_device(&self, device: &Arc<OwnedFd>) {
        self.device.set(Arc::clone(device)).ok();
    }

    /// Answers a request, here or on another thread.
    pub(super) fn answer(&self, entry: impl RequestEntry) {
        let fs = &self.fs;
        let Some(request) = entry.request() else { return };
        let (id, node) = (request.id, request.node);
        match request.operation {
            Operation::Lookup { name } => {
                let name = name.to_vec();
                fs.lookup(id, node, &name, |found| write(entry, found, |to, found| to.entry(found.as_ref())));
            }
            Operation::Getattr => {
                fs.getattr(id, node, |found| write(entry, found, |to, found| to.attributes(found)));
            }
            Operation::Readlink => fs.readlink(node, |target| entry.reply_with(target.map(FileBytes::Read))),
            Operation::Open { flags } => self.fs.answer_now(RequestKind::Open, |_| {
                write(entry, self.open(node, flags), |to, Opening { handle, backing }| match backing {
                    Some(file) => to.open(*handle, FopenFlags::FOPEN_PASSTHROUGH, file.number),
                    None => to.open(*handle, FopenFlags::FOPEN_KEEP_CACHE, 0),
                });
            }),
            Operation::Read { offset, size } => fs.read(id, node, offset, size, |bytes| entry.reply_with(bytes)),
            Operation::Release { handle } => fs.answer_now(RequestKind::Release, |_| {
                self.passthrough.get().inspect(|passthrough| passthrough.close(node, handle));
                entry.reply(Ok(0));
            }),
            Operation::Readdir { offset, size } => {
                fs.readdir(node, offset, ListingReply::new(entry, size), ListingReply::reply);
            }
            Operation::Readdirplus { offset, size } => {
                fs.readdirplus(node, offset, ListingReply::new(entry, size), ListingReply::reply);
            }
            Operation::Getxattr { name, size } => {
                let name = name.to_vec();
                fs.getxattr(id, node, &name, move |value| write_attribute(entry, value, size));
            }
            // Names of attributes are not listed. If they were, `cp -a`, `rsync -X` and others would copy them. Copies should be
            // the same as the output of `split`.
            Operation::Listxattr { size } => {
                fs.answer_now(RequestKind::Listxattr, |_| write_attribute(entry, Ok(Vec::new()), size));
            }
            Operation::Statfs => fs.statfs(|usage| write(entry, Ok(usage), |to, usage| to.usage(*usage))),
            Operation::Write { is_in_pages } => fs.write(node, is_in_pages, |error| entry.reply(Err(error))),
            Operation::Change => fs.answer_now(RequestKind::Change, |_| entry.reply(Err(Errno::ROFS))),
            // The kernel never repeats a request that was answered with ENOSYS. Its own behaviour is right for a tree that does
            // not change: `opendir` and `flush` succeed, listings are cached, `access` follows `default_permissions`,
            // SEEK_DATA and SEEK_HOLE see one run of data, and locks are local.
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
    mut entry: impl RequestEntry,
    answer: Result<T, Errno>,
    put: impl for<'a, 'b> FnOnce(&'b mut PayloadWriter<'a>, &T) -> &'b mut PayloadWriter<'a>,
) {
    let length = answer.and_then(|answer| {
        let mut writer = PayloadWriter::after(0, entry.room(FIXED));
        put(&mut writer, &answer).length().ok_or(Errno::IO)
    });
    entry.reply(length);
}

/// Writes the value of an extended attribute. `size` is the room for it; 0 asks for its size (getxattr(2)).
fn write_attribute(entry: impl RequestEntry, value: Result<Vec<u8>, Errno>, size: u32) {
    match value {
        Ok(value) if size == 0 => write(entry, Ok(()), |to, ()| to.attribute_size(value.len())),
        Ok(value) if value.len() as u64 > size.into() => entry.reply(Err(Errno::RANGE)),
        Ok(value) => entry.reply_with(Ok(FileBytes::Read(&value))),
        Err(error) => entry.reply(Err(error)),
    }
}

/// A part of a listing.
struct ListingReply<C> {
    entry: C,
    length: usize,
    room: usize,
}

impl<C: RequestEntry> ListingReply<C> {
    fn new(entry: C, size: u32) -> Self {
        Self { entry, length: 0, room: size as usize }
    }

    fn reply(self, result: Result<(), Errno>) {
        self.entry.reply(result.map(|()| self.length));
    }

    /// Adds what `put` writes. Returns `true` if there is no room for it.
    fn put(&mut self, put: impl FnOnce(&mut PayloadWriter<'_>)) -> bool {
        let room = self.entry.room(self.room).get_mut(..self.room).unwrap_or_default();
        let mut writer = PayloadWriter::after(self.length, room);
        put(&mut writer);
        let length = writer.length();
        self.length = length.unwrap_or(self.length);
        length.is_none()
    }
}

impl<C: RequestEntry> NameSink for ListingReply<C> {
    fn add(&mut self, number: NodeId, next: u64, kind: FileKind, name: &[u8]) -> bool {
        self.put(|to| _ = to.name(number, next, kind, name))
    }
}

impl<C: RequestEntry> NamesAndAttributes for ListingReply<C> {
    fn add(&mut self, next: u64, name: &[u8], found: &NodeAttributes) -> bool {
        self.put(|to| _ = to.name_and_attributes(next, name, found))
    }
}
