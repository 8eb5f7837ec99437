//! The transport over `/dev/fuse`, by fuser. Both transports mount with it, and negotiate with the kernel.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::Context;
use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, Generation, INodeNo, InitFlags, IoctlFlags,
    KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyDirectoryPlus,
    ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyOpen, Request, Session, SessionACL,
};

use super::files::{Body, Files, Node};
use super::{BLOCK_SIZE, MAX_BACKGROUND, Memfs, TTL, Transport};

/// Answers of both transports.
pub(super) struct Served {
    files: Arc<Files>,
    max_request: u32,
    is_copied: bool,
    is_uring: bool,
}

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Mounts the files. Afterwards the kernel has sent INIT and got its answer.
pub(super) fn mount(options: &Memfs, files: Arc<Files>) -> anyhow::Result<Session<Served>> {
    let served = Served {
        files,
        max_request: options.max_request,
        is_copied: options.copy,
        is_uring: options.transport == Transport::Uring,
    };
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName("kpackfs-control".to_owned()), MountOption::RO];
    config.acl = SessionACL::Owner;
    config.n_threads = Some(options.threads);
    Session::new(served, &options.mount_point, &config).with_context(|| options.mount_point.display().to_string())
}

fn attributes(node: &Node) -> FileAttr {
    let time = UNIX_EPOCH + Duration::from_secs(node.mtime);
    FileAttr {
        ino: INodeNo(node.number),
        size: node.size(),
        blocks: node.size().div_ceil(512),
        atime: time,
        mtime: time,
        ctime: time,
        crtime: time,
        kind: if node.is_directory() { FileType::Directory } else { FileType::RegularFile },
        perm: u16::try_from(node.mode).unwrap_or(0),
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: BLOCK_SIZE,
        flags: 0,
    }
}

impl Filesystem for Served {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // An older kernel that lacks one of these can still serve.
        for wanted in [
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_CACHE_SYMLINKS,
            InitFlags::FUSE_AUTO_INVAL_DATA,
        ] {
            config.add_capabilities(wanted).ok();
        }
        config.set_max_background(MAX_BACKGROUND).ok();
        config.set_max_write(self.max_request).ok();
        if self.is_uring && config.add_capabilities(InitFlags::FUSE_OVER_IO_URING).is_err() {
            return Err(io::Error::other(
                "the kernel does not offer io_uring; see /sys/module/fuse/parameters/enable_uring",
            ));
        }
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.files.child(parent.0, name) {
            Some(node) => reply.entry(&TTL, &attributes(node), Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.files.node(node.0) {
            Some(node) => reply.attr(&TTL, &attributes(node)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        // From now on the kernel opens everything without asking.
        reply.error(Errno::ENOSYS);
    }

    fn opendir(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.error(Errno::ENOSYS);
    }

    fn ioctl(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: IoctlFlags,
        _: u32,
        _: &[u8],
        _: u32,
        reply: ReplyIoctl,
    ) {
        reply.error(Errno::ENOSYS);
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
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
        let Some(found) = self.files.node(node.0) else { return reply.error(Errno::ENOENT) };
        if let Body::Sleeping(time) = found.body {
            let files = Arc::clone(&self.files);
            thread::spawn(move || {
                thread::sleep(time);
                reply.data(files.node(node.0).map_or(&[], |node| node.read(offset, size)));
            });
        } else if self.is_copied {
            BUFFER.with_borrow_mut(|buffer| {
                buffer.clear();
                buffer.extend_from_slice(found.read(offset, size));
                reply.data(buffer);
            });
        } else {
            reply.data(found.read(offset, size));
        }
    }

    fn readdir(&self, _: &Request, node: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        for (next, name, found) in self.files.list(node.0, offset) {
            if reply.add(INodeNo(found.number), next, attributes(found).kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn readdirplus(&self, _: &Request, node: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectoryPlus) {
        for (next, name, found) in self.files.list(node.0, offset) {
            if reply.add(INodeNo(found.number), next, name, &TTL, &attributes(found), Generation(0)) {
                break;
            }
        }
        reply.ok();
    }
}
