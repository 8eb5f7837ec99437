//! The FUSE protocol: what the kernel asks, and who answers it.
//!
//! A request that needs no work is answered on the session's thread at once. The others go to the workers together with
//! their reply: a session's thread that waits stalls the whole mount.
//!
//! The cheapest requests are those that the kernel does not make: it keeps attributes, names (also of what does not
//! exist), listings and pages for as long as it likes, and opens files and directories without asking, except where it
//! has to ask to be given a backing file ([`super::passthrough`]).

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, Generation,
    INodeNo, InitFlags, IoctlFlags, KernelConfig, LockOwner, OpenAccMode, OpenFlags, PollEvents, PollFlags,
    PollNotifier, RenameFlags, ReplyAttr, ReplyBmap, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus,
    ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLock, ReplyLseek, ReplyOpen, ReplyPoll, ReplyStatfs, ReplyWrite,
    ReplyXattr, Request, TimeOrNow, WriteFlags,
};

use super::listing::{self, Names, NamesAndAttributes};
use super::nodes::{Answer, FOREVER, Nodes};
use super::passthrough::Passthrough;
use super::requests::{Failure, Shared, readable};
use crate::metrics::{RequestKind, Requests};
use crate::rope::Content;
use crate::view::NodeId;

/// Requests that the kernel may have in flight on its own account (readahead, releases); its default of 12 lets
/// a few slow reads hold up the readahead of all other files.
const MAX_BACKGROUND: u16 = 64;

/// Bounds what one read can ask for, since fuser derives `max_pages` from it.
const MAX_REQUEST: u32 = 1 << 20;

/// The longest name that a tree can hold, in bytes. The kernel lets longer ones through.
const LONGEST_NAME: u32 = 255;

/// Bytes per block that statfs speaks of.
const STATFS_BLOCK: u32 = 4096;

/// From this size on, passing a file through is worth more than opening all others without asking.
const WORTH_PASSING: u64 = 4 << 20;

/// File systems that the input's may lie upon, and ours may be laid under: one of two at most
/// (`FILESYSTEM_MAX_STACK_DEPTH`), of which the other one is left to a filesystem over the mount.
const STACK_DEPTH: u32 = 1;

const CAPABILITIES: [InitFlags; 5] = [
    InitFlags::FUSE_DO_READDIRPLUS,
    InitFlags::FUSE_PARALLEL_DIROPS,
    InitFlags::FUSE_CACHE_SYMLINKS,
    // A new time of change makes the kernel forget the pages of a report.
    InitFlags::FUSE_AUTO_INVAL_DATA,
    // Lets the session tell an abort, which leaves the mount behind, from the end of the filesystem.
    InitFlags::FUSE_ABORT_ERROR,
];

/// A tree that answers FUSE requests.
#[derive(Debug)]
pub(super) struct Adapter {
    shared: Arc<Shared>,
    passthrough: Passthrough,
    /// Whether files may be passed through. It makes the mount count as one more of the stacked file systems, of which the kernel
    /// allows two.
    may_pass: bool,
}

impl Adapter {
    pub(super) fn new(shared: Arc<Shared>, may_pass: bool) -> Self {
        Self { shared, passthrough: Passthrough::default(), may_pass }
    }

    fn requests(&self) -> &Requests {
        &self.shared.resources.counters.requests
    }

    /// Has a request answered: here if `prompt` says that it is no work, else by the workers.
    fn answer(
        &self,
        kind: RequestKind,
        prompt: impl FnOnce(&Nodes) -> bool,
        job: impl FnOnce(&Shared) + Send + 'static,
    ) {
        let begun = self.requests().begin(kind);
        // Asking can run into the same panic as answering does, which then happens within its boundary.
        if contained(|| prompt(&self.shared.nodes)).unwrap_or(false) {
            let _answering = self.requests().answer(begun);
            contained(|| job(&self.shared));
        } else {
            let begun = self.requests().hand_over(begun);
            let shared = Arc::clone(&self.shared);
            self.shared.resources.executor.run(move || {
                let _answering = shared.resources.counters.requests.answer(begun);
                job(&shared);
            });
        }
    }

    /// Has a worker answer a request for a live report, which may ask for every file of the input. It does not count as
    /// waiting, since the report tells how many do.
    fn answer_report(&self, kind: RequestKind, job: impl FnOnce(&Shared) + Send + 'static) {
        let begun = self.requests().begin(kind);
        let shared = Arc::clone(&self.shared);
        self.shared.resources.executor.run(move || {
            let _answering = shared.resources.counters.requests.answer(begun);
            job(&shared);
        });
    }

    /// Has a request answered here.
    fn answer_now(&self, kind: RequestKind, job: impl FnOnce(&Shared)) {
        let _answering = self.requests().answer(self.requests().begin(kind));
        contained(|| job(&self.shared));
    }

    /// Begins with what whoever lists a directory will probably ask for next. A panic here is one that whoever asks for it
    /// will meet again.
    fn look_ahead(&self, directory: NodeId, offset: u64) {
        let Shared { nodes, directory_readahead, .. } = &*self.shared;
        if offset > 0 && self.can_give() {
            contained(|| {
                if listing::is_end(nodes, directory, offset) {
                    directory_readahead.listed(directory, &self.shared);
                }
            });
        }
    }

    /// Whether files can be given to the kernel: where they are passed through, it has no pages of ours to keep.
    fn can_give(&self) -> bool {
        !self.passthrough.is_in_use()
    }
}

/// The outermost boundary of panics, since a session's thread that panics is no more; each request has one of its own
/// ([`Shared::guarded`]). A reply that is dropped here answers EIO.
fn contained<T>(work: impl FnOnce() -> T) -> Option<T> {
    let result = catch_unwind(AssertUnwindSafe(work));
    result.inspect_err(|_| tracing::error!("a request panicked outside of its own boundary")).ok()
}

/// Requests that have the same answer whatever they ask.
macro_rules! refuse {
    ($errno:ident, $kind:ident: $($name:ident($($argument:ty),*) -> $reply:ty;)*) => {$(
        fn $name(&self, _: &Request, $(_: $argument,)* reply: $reply) {
            self.answer_now(RequestKind::$kind, |_| reply.error(Errno::$errno));
        }
    )*};
}

impl Filesystem for Adapter {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // An older kernel that lacks one of these is served all the same. The numbers are within the limits.
        for capability in CAPABILITIES {
            config.add_capabilities(capability).ok();
        }
        if !self.shared.nodes.are_sized() {
            // Then only the first part of a listing comes with attributes, unless they are asked for.
            config.add_capabilities(InitFlags::FUSE_READDIRPLUS_AUTO).ok();
        }
        config.set_max_background(MAX_BACKGROUND).ok();
        config.set_max_write(MAX_REQUEST).ok();
        if self.may_pass
            && let Some(sample) = self.shared.nodes.largest_backed(WORTH_PASSING)
            && config.add_capabilities(InitFlags::FUSE_PASSTHROUGH).is_ok()
        {
            config.set_max_stack_depth(STACK_DEPTH).ok();
            self.passthrough = Passthrough::new(Some(sample));
        }
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if name.len() > LONGEST_NAME as usize {
            return self.answer_now(RequestKind::Lookup, |_| reply.error(Errno::ENAMETOOLONG));
        }
        let Some(found) = contained(|| self.shared.nodes.lookup(parent.0, name.as_bytes())) else {
            return self.answer_now(RequestKind::Lookup, |_| reply.error(Errno::EIO));
        };
        let Some(node) = found else {
            // Unlike ENOENT, the inode number 0 lets the kernel remember that there is nothing.
            return self.answer_now(RequestKind::Lookup, |_| reply.entry(&FOREVER, &NOTHING, Generation(0)));
        };
        let is_live = contained(|| self.shared.nodes.is_live(node)).unwrap_or(false);
        let job = move |shared: &Shared| {
            let nodes = &shared.nodes;
            match shared.guarded("lookup", node, || nodes.renew(node).and_then(|()| nodes.attributes(node))) {
                Ok(found) => {
                    nodes.set_told(node, true);
                    reply.entry_with_ttls(&found.ttl, &found.name_ttl, &found.attributes, Generation(0));
                }
                Err(errno) => reply.error(errno),
            }
        };
        if is_live {
            self.answer_report(RequestKind::Lookup, job);
        } else {
            self.answer(RequestKind::Lookup, |nodes| nodes.is_sized(node), job);
        }
    }

    // Nodes live as long as the mount.
    fn forget(&self, _: &Request, node: INodeNo, _: u64) {
        self.shared.nodes.set_told(node.0, false);
    }

    fn getattr(&self, _: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.answer(
            RequestKind::Getattr,
            |nodes| nodes.is_sized(node.0),
            move |shared| match shared.guarded("getattr", node.0, || shared.nodes.attributes(node.0)) {
                Ok(found) => reply.attr(&found.ttl, &found.attributes),
                Err(errno) => reply.error(errno),
            },
        );
    }

    fn readlink(&self, _: &Request, node: INodeNo, reply: ReplyData) {
        self.answer_now(RequestKind::Readlink, |shared| {
            match shared.guarded("readlink", node.0, || shared.nodes.target(node.0)) {
                Ok(target) => reply.data(target),
                Err(errno) => reply.error(errno),
            }
        });
    }

    fn open(&self, _: &Request, node: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        self.answer_now(RequestKind::Open, |shared| {
            // The kernel refuses by itself as long as nobody remounts read-write.
            if flags.acc_mode() != OpenAccMode::O_RDONLY || flags.0 & libc::O_TRUNC != 0 {
                return reply.error(Errno::EROFS);
            }
            let opening = shared.guarded("open", node.0, || {
                if !self.passthrough.is_usable(&reply) {
                    // From now on the kernel opens everything by itself. Writing is refused at the write.
                    return Err(Failure::Plain(Errno::ENOSYS));
                }
                let content = shared.nodes.known_content(node.0);
                Ok(self.passthrough.open(node.0, content.as_deref(), &reply)?)
            });
            match opening {
                Ok(opening) => {
                    shared.resources.counters.passthrough_opens.add(u64::from(opening.is_passed_through()));
                    opening.answer(reply);
                }
                Err(errno) => reply.error(errno),
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
        let counters = &self.shared.resources.counters;
        let is_nonblocking =
            |content: &Arc<dyn Content>| content.is_nonblocking(offset, readable(&**content, offset, size));
        let found = contained(|| {
            let content = self.shared.nodes.known_content(node.0);
            let prompt = content.as_ref().is_some_and(is_nonblocking);
            (content, prompt)
        });
        let (content, prompt) = found.unwrap_or((None, false));
        if prompt { &counters.reads_prompt } else { &counters.reads_by_workers }.add(1);
        // Before the answer, since after it the next request may overtake this one.
        if offset == 0 && self.can_give() {
            contained(|| self.shared.directory_readahead.record_access(node.0, &self.shared));
        }
        self.answer(RequestKind::Read, |_| prompt, move |shared| shared.read(node.0, content, offset, size, reply));
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
        self.answer_now(RequestKind::Release, |_| {
            self.passthrough.close(node.0, handle);
            reply.ok();
        });
    }

    // As with reads, looking ahead comes before the answer.
    fn readdir(&self, _: &Request, node: INodeNo, _: FileHandle, offset: u64, reply: ReplyDirectory) {
        self.look_ahead(node.0, offset);
        self.answer_now(RequestKind::Readdir, |shared| {
            let mut reply = reply;
            listing::names(&shared.nodes, node.0, offset, &mut reply);
            reply.ok();
        });
    }

    fn readdirplus(&self, _: &Request, node: INodeNo, _: FileHandle, offset: u64, reply: ReplyDirectoryPlus) {
        self.look_ahead(node.0, offset);
        self.answer_now(RequestKind::Readdirplus, |shared| {
            let mut reply = reply;
            listing::names_and_attributes(shared, node.0, offset, &mut reply);
            reply.ok();
        });
    }

    fn getxattr(&self, _: &Request, node: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        self.answer_now(RequestKind::Getxattr, |shared| {
            match shared.guarded("getxattr", node.0, || shared.nodes.extended(node.0, name.as_bytes())) {
                // Size 0 asks for the size (getxattr(2)). All values are far below the limit of 64 KiB.
                Ok(value) if size == 0 => reply.size(u32::try_from(value.len()).unwrap_or(u32::MAX)),
                Ok(value) if value.len() as u64 > size.into() => reply.error(Errno::ERANGE),
                Ok(value) => reply.data(&value),
                Err(errno) => reply.error(errno),
            }
        });
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        self.answer_now(RequestKind::Statfs, |shared| {
            // All used, nothing free. A total of 0 would make `df` leave the mount out.
            let blocks = shared.total_bytes.div_ceil(u64::from(STATFS_BLOCK)).max(1);
            reply.statfs(blocks, 0, 0, shared.nodes.len() as u64, 0, STATFS_BLOCK, LONGEST_NAME, STATFS_BLOCK);
        });
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
        self.answer_now(RequestKind::Change, |_| reply.error(Errno::EROFS));
        if flags.contains(WriteFlags::FUSE_WRITE_CACHE) {
            // The mount was remounted read-write and written to a mapping, and the kernel keeps what was written even
            // when nobody takes it. Not in this thread, which the kernel would wait for.
            let shared = Arc::clone(&self.shared);
            self.shared.resources.executor.run_in_background(move || shared.forget_pages(node.0));
        }
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

    // To these, ENOSYS says "never ask again", and the kernel does by itself what is right for a tree that does not
    // change: `opendir` and `flush` succeed and listings are cached, `access` is what `default_permissions` says,
    // extended attributes are not listed, SEEK_DATA and SEEK_HOLE see one run of data, locks are local.
    //
    // Attributes that were listed would be copied by `cp -a`, `rsync -X` and others, which should copy what `split` writes.
    refuse! { ENOSYS, Other:
        opendir(INodeNo, OpenFlags) -> ReplyOpen;
        flush(INodeNo, FileHandle, LockOwner) -> ReplyEmpty;
        fsync(INodeNo, FileHandle, bool) -> ReplyEmpty;
        fsyncdir(INodeNo, FileHandle, bool) -> ReplyEmpty;
        access(INodeNo, AccessFlags) -> ReplyEmpty;
        listxattr(INodeNo, u32) -> ReplyXattr;
        lseek(INodeNo, FileHandle, i64, i32) -> ReplyLseek;
        getlk(INodeNo, FileHandle, LockOwner, u64, u64, i32, u32) -> ReplyLock;
        setlk(INodeNo, FileHandle, LockOwner, u64, u64, i32, u32, bool) -> ReplyEmpty;
        bmap(INodeNo, u32, u64) -> ReplyBmap;
        ioctl(INodeNo, FileHandle, IoctlFlags, u32, &[u8], u32) -> ReplyIoctl;
        poll(INodeNo, FileHandle, PollNotifier, PollEvents, PollFlags) -> ReplyPoll;
    }
}

impl Names for ReplyDirectory {
    fn add(&mut self, number: NodeId, next: u64, kind: FileType, name: &[u8]) -> bool {
        Self::add(self, INodeNo(number), next, kind, OsStr::from_bytes(name))
    }
}

impl NamesAndAttributes for ReplyDirectoryPlus {
    fn add(&mut self, next: u64, name: &[u8], found: &Answer) -> bool {
        // There is one time for both.
        let ttl = found.ttl.min(found.name_ttl);
        let name = OsStr::from_bytes(name);
        Self::add(self, found.attributes.ino, next, name, &ttl, &found.attributes, Generation(0))
    }
}

/// Attributes of what does not exist.
const NOTHING: FileAttr = FileAttr {
    ino: INodeNo(0),
    size: 0,
    blocks: 0,
    atime: UNIX_EPOCH,
    mtime: UNIX_EPOCH,
    ctime: UNIX_EPOCH,
    crtime: UNIX_EPOCH,
    kind: FileType::RegularFile,
    perm: 0,
    nlink: 0,
    uid: 0,
    gid: 0,
    rdev: 0,
    blksize: 0,
    flags: 0,
};
