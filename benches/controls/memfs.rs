//! C1: the minimum of a FUSE filesystem: one file, served from memory.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::Context;
use clap::Args;
use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEntry, ReplyOpen,
    Request, Session, SessionACL,
};

const TTL: Duration = Duration::from_secs(86_400);
const FILE: INodeNo = INodeNo(2);

/// The same values as in `src/fs/adapter.rs`.
const MAX_BACKGROUND: u16 = 64;
const MAX_REQUEST: u32 = 1 << 20;

/// Serves a file's bytes from memory under the file's name.
#[derive(Debug, Args)]
pub(crate) struct Memfs {
    file: PathBuf,
    mount_point: PathBuf,
    /// More than one is slower for one reader
    #[arg(long, default_value_t = 1)]
    threads: usize,
}

struct Served {
    name: OsString,
    bytes: Vec<u8>,
}

impl Memfs {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let name = self.file.file_name().context("a file without a name")?.to_owned();
        let bytes = std::fs::read(&self.file).with_context(|| self.file.display().to_string())?;
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("kpackfs-control".to_owned()), MountOption::RO];
        config.acl = SessionACL::Owner;
        config.n_threads = Some(self.threads);
        let session = Session::new(Served { name, bytes }, &self.mount_point, &config)
            .with_context(|| self.mount_point.display().to_string())?;
        println!("mounted");
        io::stdout().flush()?;
        Ok(session.run()?)
    }
}

impl Served {
    fn attributes(&self, node: INodeNo) -> FileAttr {
        let (kind, perm, size) = match node {
            FILE => (FileType::RegularFile, 0o444, self.bytes.len() as u64),
            _ => (FileType::Directory, 0o555, 0),
        };
        FileAttr {
            ino: node,
            size,
            blocks: size.div_ceil(512),
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

impl Filesystem for Served {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // An older kernel that lacks one of these can still serve.
        config.add_capabilities(InitFlags::FUSE_PARALLEL_DIROPS).ok();
        config.set_max_background(MAX_BACKGROUND).ok();
        config.set_max_write(MAX_REQUEST).ok();
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if parent == INodeNo::ROOT && name == self.name {
            reply.entry(&TTL, &self.attributes(FILE), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&TTL, &self.attributes(node));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let end = self.bytes.len();
        let position = |offset: u64| usize::try_from(offset).unwrap_or(end).min(end);
        let piece = self.bytes.get(position(offset)..position(offset.saturating_add(size.into())));
        reply.data(piece.unwrap_or_default());
    }

    fn readdir(&self, _: &Request, _: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        if offset == 0 && !reply.add(FILE, 1, FileType::RegularFile, &self.name) {
            return reply.ok();
        }
        reply.ok();
    }
}
