//! The FUSE protocol: what the kernel asks, and who answers it.
//!
//! A request that needs no work is answered on the session's thread at once. The others go to the workers together with
//! their reply: a session's thread that waits stalls the whole mount.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, InitFlags, IoctlFlags, KernelConfig, LockOwner, OpenAccMode, OpenFlags, PollEvents, PollFlags,
    PollNotifier, RenameFlags, ReplyAttr, ReplyBmap, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus,
    ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLock, ReplyLseek, ReplyOpen, ReplyPoll, ReplyStatfs, ReplyWrite,
    ReplyXattr, Request, TimeOrNow, WriteFlags,
};

use super::nodes::{FOREVER, Nodes};
use super::requests::Shared;
use crate::index::Resources;

/// Requests that the kernel may have in flight on its own account (readahead, releases); its default of 12 lets
/// a few slow reads hold up the readahead of all other files.
const MAX_BACKGROUND: u16 = 64;

/// Bounds what one read can ask for, since fuser derives `max_pages` from it.
const MAX_REQUEST: u32 = 1 << 20;

/// Bytes per block that statfs speaks of.
const STATFS_BLOCK: u32 = 4096;

const CAPABILITIES: [InitFlags; 6] = [
    InitFlags::FUSE_DO_READDIRPLUS,
    // With this, only the first part of a listing comes with attributes unless somebody asks for them.
    InitFlags::FUSE_READDIRPLUS_AUTO,
    InitFlags::FUSE_PARALLEL_DIROPS,
    InitFlags::FUSE_CACHE_SYMLINKS,
    // Reports are opened for direct I/O, which otherwise cannot be mapped shared.
    InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
    // Lets the session tell an abort, which leaves the mount behind, from the end of the filesystem.
    InitFlags::FUSE_ABORT_ERROR,
];

/// A tree that answers FUSE requests.
#[derive(Debug)]
pub(super) struct Adapter {
    shared: Arc<Shared>,
}

impl Adapter {
    pub(super) fn new(nodes: Nodes, resources: Arc<Resources>, total_bytes: u64) -> Self {
        Self { shared: Arc::new(Shared::new(nodes, resources, total_bytes)) }
    }

    /// Has a request answered: here if `prompt` says that it is no work, else by the workers.
    fn answer(&self, prompt: impl FnOnce(&Nodes) -> bool, job: impl FnOnce(&Shared) + Send + 'static) {
        self.shared.count();
        // Asking can run into the same panic as answering does, which then happens within its boundary.
        if catch_unwind(AssertUnwindSafe(|| prompt(&self.shared.nodes))).unwrap_or(false) {
            job(&self.shared);
        } else {
            let shared = Arc::clone(&self.shared);
            self.shared.resources.workers.run(move || job(&shared));
        }
    }
}

/// Requests that have the same answer whatever they ask.
macro_rules! refuse {
    ($errno:ident: $($name:ident($($argument:ty),*) -> $reply:ty;)*) => {$(
        fn $name(&self, _: &Request, $(_: $argument,)* reply: $reply) {
            self.shared.count();
            reply.error(Errno::$errno);
        }
    )*};
}

impl Filesystem for Adapter {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // An older kernel that lacks one of these is served all the same. The numbers are within the limits.
        for capability in CAPABILITIES {
            config.add_capabilities(capability).ok();
        }
        config.set_max_background(MAX_BACKGROUND).ok();
        config.set_max_write(MAX_REQUEST).ok();
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let Some(node) = self.shared.nodes.lookup(parent.0, name.as_bytes()) else {
            self.shared.count();
            // Unlike ENOENT, the inode number 0 lets the kernel remember that there is nothing.
            return reply.entry(&FOREVER, &NOTHING, Generation(0));
        };
        self.answer(
            |nodes| nodes.is_sized(node),
            move |shared| match shared.guarded("lookup", node, || shared.nodes.attributes(node)) {
                Ok(found) => reply.entry_with_ttls(&found.ttl, &FOREVER, &found.attributes, Generation(0)),
                Err(errno) => reply.error(errno),
            },
        );
    }

    // Nodes live as long as the mount.
    fn forget(&self, _: &Request, _: INodeNo, _: u64) {}

    fn getattr(&self, _: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.answer(
            |nodes| nodes.is_sized(node.0),
            move |shared| match shared.guarded("getattr", node.0, || shared.nodes.attributes(node.0)) {
                Ok(found) => reply.attr(&found.ttl, &found.attributes),
                Err(errno) => reply.error(errno),
            },
        );
    }

    fn readlink(&self, _: &Request, node: INodeNo, reply: ReplyData) {
        self.shared.count();
        match self.shared.guarded("readlink", node.0, || self.shared.nodes.target(node.0)) {
            Ok(target) => reply.data(target),
            Err(errno) => reply.error(errno),
        }
    }

    fn open(&self, _: &Request, node: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        // The kernel refuses by itself as long as nobody remounts read-write.
        if flags.acc_mode() != OpenAccMode::O_RDONLY || flags.0 & libc::O_TRUNC != 0 {
            self.shared.count();
            return reply.error(Errno::EROFS);
        }
        self.answer(
            |nodes| nodes.report(node.0).is_none(),
            move |shared| match shared.guarded("open", node.0, || shared.snapshot(node.0)) {
                Ok(Some(handle)) => reply.opened(FileHandle(handle), FopenFlags::FOPEN_DIRECT_IO),
                Ok(None) => reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE),
                Err(errno) => reply.error(errno),
            },
        );
    }

    fn read(
        &self,
        _: &Request,
        node: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.answer(
            |nodes| handle.0 != 0 || nodes.is_prompt(node.0, offset, size),
            move |shared| shared.read(node.0, handle.0, offset, size, reply),
        );
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.shared.count();
        self.shared.release(handle.0);
        reply.ok();
    }

    fn readdir(&self, _: &Request, node: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        self.shared.count();
        let nodes = &self.shared.nodes;
        for (position, dots, number) in [(0, ".", node.0), (1, "..", nodes.parent(node.0))] {
            if offset <= position && reply.add(INodeNo(number), position + 1, FileType::Directory, dots) {
                return reply.ok();
            }
        }
        for (position, child) in nodes.children(node.0, child_at(offset)) {
            let number = INodeNo(nodes.number(child.node));
            if reply.add(number, offset_after(position), nodes.kind(child.node), OsStr::from_bytes(&child.name)) {
                break;
            }
        }
        reply.ok();
    }

    fn readdirplus(&self, _: &Request, node: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectoryPlus) {
        // The kernel begins every listing with this request, even that of a plain `ls`, and there is no way to give
        // it an entry without a size. So if sizes would be work, it gets the two entries that it ignores, and goes
        // on with `readdir` unless somebody has asked for attributes in this directory since
        // (fs/fuse/readdir.c, fuse_use_readdirplus).
        let dots_only = move |nodes: &Nodes| offset == 0 && nodes.has_unsized(node.0, 0);
        self.answer(
            |nodes| dots_only(nodes) || !nodes.has_unsized(node.0, child_at(offset)),
            move |shared| {
                let nodes = &shared.nodes;
                let dots_only = shared.guarded("readdirplus", node.0, || Ok(dots_only(nodes)));
                for (position, dots, number) in [(0, ".", node.0), (1, "..", nodes.parent(node.0))] {
                    let found = shared.guarded("readdirplus", number, || nodes.attributes(number));
                    if let Ok(found) = found
                        && offset <= position
                        && add_plus(&mut reply, position + 1, OsStr::new(dots), &found.attributes, found.ttl)
                    {
                        return reply.ok();
                    }
                }
                if dots_only == Ok(true) {
                    return reply.ok();
                }
                for (position, child) in nodes.children(node.0, child_at(offset)) {
                    let number = nodes.number(child.node);
                    let found = shared
                        .guarded("readdirplus", number, || nodes.attributes(number))
                        .or_else(|_| shared.guarded("readdirplus", number, || nodes.unsizable(number)));
                    if let Ok(found) = found {
                        let name = OsStr::from_bytes(&child.name);
                        if add_plus(&mut reply, offset_after(position), name, &found.attributes, found.ttl) {
                            break;
                        }
                    }
                }
                reply.ok();
            },
        );
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        self.shared.count();
        // All used, nothing free. A total of 0 would make `df` leave the mount out.
        let blocks = self.shared.total_bytes.div_ceil(u64::from(STATFS_BLOCK)).max(1);
        reply.statfs(blocks, 0, 0, self.shared.nodes.len() as u64, 0, STATFS_BLOCK, 255, STATFS_BLOCK);
    }

    refuse! { EROFS:
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
        write(INodeNo, FileHandle, u64, &[u8], WriteFlags, OpenFlags, Option<LockOwner>) -> ReplyWrite;
        setxattr(INodeNo, &OsStr, &[u8], i32, u32) -> ReplyEmpty;
        removexattr(INodeNo, &OsStr) -> ReplyEmpty;
        create(INodeNo, &OsStr, u32, u32, i32) -> ReplyCreate;
        fallocate(INodeNo, FileHandle, u64, u64, i32) -> ReplyEmpty;
        copy_file_range(INodeNo, FileHandle, u64, INodeNo, FileHandle, u64, u64, CopyFileRangeFlags) -> ReplyWrite;
    }

    // To these, ENOSYS says "never ask again", and the kernel does by itself what is right for a tree that does not
    // change: `opendir` and `flush` succeed and listings are cached, `access` is what `default_permissions` says,
    // there are no extended attributes, SEEK_DATA and SEEK_HOLE see one run of data, locks are local.
    refuse! { ENOSYS:
        opendir(INodeNo, OpenFlags) -> ReplyOpen;
        flush(INodeNo, FileHandle, LockOwner) -> ReplyEmpty;
        fsync(INodeNo, FileHandle, bool) -> ReplyEmpty;
        fsyncdir(INodeNo, FileHandle, bool) -> ReplyEmpty;
        access(INodeNo, AccessFlags) -> ReplyEmpty;
        getxattr(INodeNo, &OsStr, u32) -> ReplyXattr;
        listxattr(INodeNo, u32) -> ReplyXattr;
        lseek(INodeNo, FileHandle, i64, i32) -> ReplyLseek;
        getlk(INodeNo, FileHandle, LockOwner, u64, u64, i32, u32) -> ReplyLock;
        setlk(INodeNo, FileHandle, LockOwner, u64, u64, i32, u32, bool) -> ReplyEmpty;
        bmap(INodeNo, u32, u64) -> ReplyBmap;
        ioctl(INodeNo, FileHandle, IoctlFlags, u32, &[u8], u32) -> ReplyIoctl;
        poll(INodeNo, FileHandle, PollNotifier, PollEvents, PollFlags) -> ReplyPoll;
    }
}

/// The position of the first child to list from `offset` on. Offsets 0 and 1 are those of `.` and `..`.
fn child_at(offset: u64) -> usize {
    usize::try_from(offset.saturating_sub(2)).unwrap_or(usize::MAX)
}

/// The offset at which a listing goes on after the child at `position`.
fn offset_after(position: usize) -> u64 {
    position as u64 + 3
}

fn add_plus(reply: &mut ReplyDirectoryPlus, next: u64, name: &OsStr, attributes: &FileAttr, ttl: Duration) -> bool {
    reply.add(attributes.ino, next, name, &ttl, attributes, Generation(0))
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
