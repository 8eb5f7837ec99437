//! The FUSE protocol: translates between fuser and [`Filesystem`](super::filesystem::Filesystem).
//!
//! The cheapest request is the one that the kernel does not make. It caches attributes, names (including those that do
//! not exist), listings and pages as long as it likes. It opens files and directories without asking, unless files are
//! passed through ([`super::passthrough`]).

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use fuser::{
    AccessFlags, BackingId, BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, FopenFlags, Generation, INodeNo,
    InitFlags, IoctlFlags, KernelConfig, LockOwner, Notifier, OpenFlags, PollEvents, PollFlags, PollNotifier,
    RenameFlags, ReplyAttr, ReplyBmap, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty,
    ReplyEntry, ReplyIoctl, ReplyLock, ReplyLseek, ReplyOpen, ReplyPoll, ReplyStatfs, ReplyWrite, ReplyXattr, Request,
    TimeOrNow, WriteFlags,
};

use super::attributes::{FOREVER, NOTHING, attributes, file_type, name_ttl};
use super::filesystem::{BLOCK, Filesystem, LONGEST_NAME, PageCache};
use super::listing::{NameSink, NamesAndAttributes};
use super::nodes::{FileKind, NodeAttributes};
use super::passthrough::{Opening, Passthrough};
use super::passthrough_choice::PassthroughChoice;
use super::uring::{PAYLOAD, RingAnswers};
use crate::metrics::RequestKind;
use crate::rope::Content;
use crate::tree::NodeId;

/// The most background requests of the kernel in flight (readahead, releases). With its default of 12, a few slow reads
/// delay the readahead of all other files.
const MAX_BACKGROUND: u16 = 64;

/// The largest read request in bytes. fuser derives `max_pages` from it.
const MAX_REQUEST: u32 = 1 << 20;

/// The stack depth of this mount: it counts as one stacked file system, and the input's must not be stacked itself. The
/// kernel allows two (`FILESYSTEM_MAX_STACK_DEPTH`), so one is left for a filesystem on top of this mount.
const STACK_DEPTH: u32 = 1;

const CAPABILITIES: [InitFlags; 5] = [
    InitFlags::FUSE_DO_READDIRPLUS,
    InitFlags::FUSE_PARALLEL_DIROPS,
    InitFlags::FUSE_CACHE_SYMLINKS,
    // A new time of change makes the kernel drop the cached pages of a report.
    InitFlags::FUSE_AUTO_INVAL_DATA,
    // Lets the session distinguish an abort, which leaves the mount behind, from the end of the filesystem.
    InitFlags::FUSE_ABORT_ERROR,
];

/// A filesystem that answers FUSE requests.
#[derive(Debug)]
pub(crate) struct Adapter {
    fs: Arc<Filesystem>,
    passthrough: Passthrough<BackingId>,
    /// The largest file that could be passed through, if that is wanted. Then the mount counts as one of the two stacked
    /// file systems that the kernel allows.
    sample: Option<Arc<dyn Content>>,
    /// If requests travel through rings: what answers them. Only what the kernel does not send that way, such as FORGET,
    /// comes here.
    rings: Option<Arc<RingAnswers>>,
}

impl Adapter {
    pub(crate) fn new(fs: Arc<Filesystem>, choice: PassthroughChoice, rings: Option<Arc<RingAnswers>>) -> Self {
        let sample = fs.nodes.to_pass_through(choice);
        Self { fs, passthrough: Passthrough::default(), sample, rings }
    }
}

/// Requests that always get the same error.
macro_rules! refuse {
    ($errno:ident, $kind:ident: $($name:ident($($argument:ty),*) -> $reply:ty;)*) => {$(
        fn $name(&self, _: &Request, $(_: $argument,)* reply: $reply) {
            self.fs.answer_now(RequestKind::$kind, |_| reply.error(Errno::$errno));
        }
    )*};
}

impl fuser::Filesystem for Adapter {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // An older kernel may lack some of these, and is served nevertheless. The numbers below are within the kernel's
        // limits.
        for capability in CAPABILITIES {
            config.add_capabilities(capability).ok();
        }
        if !self.fs.nodes.are_sized() {
            // Attributes come with the first part of a listing, and with other parts only when they were asked for.
            config.add_capabilities(InitFlags::FUSE_READDIRPLUS_AUTO).ok();
        }
        config.set_max_background(MAX_BACKGROUND).ok();
        self.rings = self.rings.take().filter(|_| config.add_capabilities(InitFlags::FUSE_OVER_IO_URING).is_ok());
        config.set_max_write(if self.rings.is_some() { PAYLOAD } else { MAX_REQUEST }).ok();
        if let Some(rings) = &self.rings {
            // fuser derives `max_pages` from this, too.
            config.set_max_readahead(PAYLOAD).ok();
            rings.agree();
        }
        if let Some(sample) = self.sample.take()
            && config.add_capabilities(InitFlags::FUSE_PASSTHROUGH).is_ok()
        {
            config.set_max_stack_depth(STACK_DEPTH).ok();
            match &self.rings {
                Some(rings) => rings.pass_through(sample),
                None => self.passthrough = Passthrough::new(Some(sample)),
            }
        }
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.fs.lookup(parent.0, name.as_bytes(), |found| match found {
            Ok(Some(found)) => {
                let (ttl, attributes) = attributes(&found);
                reply.entry_with_ttls(&ttl, &name_ttl(&found), &attributes, Generation(0));
            }
            // Unlike ENOENT, the inode number 0 lets the kernel cache the absence of a name.
            Ok(None) => reply.entry(&FOREVER, &NOTHING, Generation(0)),
            Err(error) => reply.error(errno(error)),
        });
    }

    fn forget(&self, _: &Request, node: INodeNo, _: u64) {
        self.fs.forget(node.0);
    }

    fn getattr(&self, _: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.fs.getattr(node.0, |found| match found.map(|found| attributes(&found)) {
            Ok((ttl, attributes)) => reply.attr(&ttl, &attributes),
            Err(error) => reply.error(errno(error)),
        });
    }

    fn readlink(&self, _: &Request, node: INodeNo, reply: ReplyData) {
        self.fs.readlink(node.0, |target| match target {
            Ok(target) => reply.data(target),
            Err(error) => reply.error(errno(error)),
        });
    }

    fn open(&self, _: &Request, node: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        self.fs.answer_now(RequestKind::Open, |fs| {
            let register = |file: &File| reply.open_backing(file).ok();
            match self.passthrough.answer(fs, node.0, flags.0, register) {
                Ok(Opening { handle, backing: Some(backing) }) => {
                    reply.opened_passthrough(FileHandle(handle), FopenFlags::empty(), &backing);
                }
                Ok(Opening { handle, .. }) => reply.opened(FileHandle(handle), FopenFlags::FOPEN_KEEP_CACHE),
                Err(error) => reply.error(errno(error)),
            }
        });
    }

    fn read(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.fs.read(node.0, offset, size, |bytes| match bytes {
            Ok(bytes) => reply.data(bytes),
            Err(error) => reply.error(errno(error)),
        });
    }

    fn release(
        &self,
        _: &Request,
        node: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.fs.answer_now(RequestKind::Release, |_| {
            self.passthrough.close(node.0, handle.0);
            reply.ok();
        });
    }

    fn readdir(&self, _: &Request, node: INodeNo, _: FileHandle, offset: u64, reply: ReplyDirectory) {
        self.fs.readdir(node.0, offset, reply, |page, result| match result {
            Ok(()) => page.ok(),
            Err(error) => page.error(errno(error)),
        });
    }

    fn readdirplus(&self, _: &Request, node: INodeNo, _: FileHandle, offset: u64, reply: ReplyDirectoryPlus) {
        self.fs.readdirplus(node.0, offset, reply, |page, result| match result {
            Ok(()) => page.ok(),
            Err(error) => page.error(errno(error)),
        });
    }

    fn getxattr(&self, _: &Request, node: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        self.fs.getxattr(node.0, name.as_bytes(), move |value| match value {
            // Size 0 asks for the size (getxattr(2)). All values are far below the limit of 64 KiB.
            Ok(value) if size == 0 => reply.size(u32::try_from(value.len()).unwrap_or(u32::MAX)),
            Ok(value) if value.len() as u64 > size.into() => reply.error(Errno::ERANGE),
            Ok(value) => reply.data(&value),
            Err(error) => reply.error(errno(error)),
        });
    }

    /// Names of attributes are not listed. If they were, `cp -a`, `rsync -X` and others would copy them. Copies should be the
    /// same as the output of `split`.
    fn listxattr(&self, _: &Request, _: INodeNo, size: u32, reply: ReplyXattr) {
        self.fs.answer_now(RequestKind::Listxattr, |_| if size == 0 { reply.size(0) } else { reply.data(&[]) });
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        // All used, nothing free.
        self.fs.statfs(|usage| reply.statfs(usage.blocks, 0, 0, usage.nodes, 0, BLOCK, LONGEST_NAME, BLOCK));
    }

    fn write(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        _: u64,
        _: &[u8],
        flags: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        // The write comes from the page cache if the mount was remounted read-write and a mapping was written to. The
        // kernel keeps the pages even if the write fails.
        let is_in_pages = flags.contains(WriteFlags::FUSE_WRITE_CACHE);
        self.fs.write(node.0, is_in_pages, |error| reply.error(errno(error)));
    }

    refuse! { EROFS, Change:
        setattr(INodeNo, Option<u32>, Option<u32>, Option<u32>, Option<u64>, Option<TimeOrNow>, Option<TimeOrNow>,
            Option<SystemTime>, Option<FileHandle>, Option<SystemTime>, Option<SystemTime>, Option<SystemTime>,
            Option<BsdFileFlags>) -> ReplyAttr;
        mknod(INodeNo, &OsStr, u32, u32, u32) -> ReplyEntry;
        mkdir(INodeNo, &OsStr, u32, u32) -> ReplyEntry;
        unlink(INodeNo, &OsStr) -> ReplyEmpty;
        rmdir(INodeNo, &OsStr) -> ReplyEmpty;
        symlink(INodeNo, &OsStr, &Path) -> ReplyEntry;
        rename(INodeNo, &OsStr, INodeNo, &OsStr, RenameFlags) -> ReplyEmpty;
        link(INodeNo, INodeNo, &OsStr) -> ReplyEntry;
        setxattr(INodeNo, &OsStr, &[u8], i32, u32) -> ReplyEmpty;
        removexattr(INodeNo, &OsStr) -> ReplyEmpty;
        create(INodeNo, &OsStr, u32, u32, i32) -> ReplyCreate;
        fallocate(INodeNo, FileHandle, u64, u64, i32) -> ReplyEmpty;
        copy_file_range(INodeNo, FileHandle, u64, INodeNo, FileHandle, u64, u64, CopyFileRangeFlags) -> ReplyWrite;
    }

    // The kernel never repeats a request that was answered with ENOSYS. Its own behaviour is right for a tree that does
    // not change: `opendir` and `flush` succeed, listings are cached, `access` follows `default_permissions`, SEEK_DATA and
    // SEEK_HOLE see one run of data, and locks are local.
    refuse! { ENOSYS, Other:
        opendir(INodeNo, OpenFlags) -> ReplyOpen;
        flush(INodeNo, FileHandle, LockOwner) -> ReplyEmpty;
        fsync(INodeNo, FileHandle, bool) -> ReplyEmpty;
        fsyncdir(INodeNo, FileHandle, bool) -> ReplyEmpty;
        access(INodeNo, AccessFlags) -> ReplyEmpty;
        lseek(INodeNo, FileHandle, i64, i32) -> ReplyLseek;
        getlk(INodeNo, FileHandle, LockOwner, u64, u64, i32, u32) -> ReplyLock;
        setlk(INodeNo, FileHandle, LockOwner, u64, u64, i32, u32, bool) -> ReplyEmpty;
        bmap(INodeNo, u32, u64) -> ReplyBmap;
        ioctl(INodeNo, FileHandle, IoctlFlags, u32, &[u8], u32) -> ReplyIoctl;
        poll(INodeNo, FileHandle, PollNotifier, PollEvents, PollFlags) -> ReplyPoll;
    }
}

/// The kernel's page cache.
#[derive(Debug)]
pub(crate) struct KernelPages(pub(crate) Notifier);

impl PageCache for KernelPages {
    fn store(&self, node: NodeId, bytes: &[u8]) -> bool {
        self.0.store(INodeNo(node), 0, bytes).is_ok()
    }

    fn forget(&self, node: NodeId) {
        // The kernel may have no pages of it.
        self.0.inval_inode(INodeNo(node), 0, 0).ok();
    }
}

impl NameSink for ReplyDirectory {
    fn add(&mut self, number: NodeId, next: u64, kind: FileKind, name: &[u8]) -> bool {
        Self::add(self, INodeNo(number), next, file_type(kind), OsStr::from_bytes(name))
    }
}

impl NamesAndAttributes for ReplyDirectoryPlus {
    fn add(&mut self, next: u64, name: &[u8], found: &NodeAttributes) -> bool {
        let (ttl, attributes) = attributes(found);
        // An entry has only one time for name and attributes here.
        let ttl = ttl.min(name_ttl(found));
        Self::add(self, attributes.ino, next, OsStr::from_bytes(name), &ttl, &attributes, Generation(0))
    }
}

fn errno(error: rustix::io::Errno) -> Errno {
    Errno::from_i32(error.raw_os_error())
}
