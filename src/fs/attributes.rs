//! Attributes as the kernel gets them, and how long it may cache them.

use std::time::{Duration, UNIX_EPOCH};

use fuser::{FileAttr, FileType, INodeNo};

use super::nodes::{FileKind, NodeAttributes};

/// Nothing in a tree changes while it is mounted, so the kernel may cache answers for ever.
pub(super) const FOREVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// The preferred size of reads (`st_blksize`): that of the kernel's default readahead.
const BLOCK_SIZE: u32 = 128 * 1024;

/// The kind of a node in the protocol.
pub(super) fn file_type(kind: FileKind) -> FileType {
    match kind {
        FileKind::Directory => FileType::Directory,
        FileKind::Symlink => FileType::Symlink,
        FileKind::File => FileType::RegularFile,
    }
}

/// How long the kernel may cache a name.
pub(super) fn name_ttl(found: &NodeAttributes) -> Duration {
    if found.is_live { Duration::ZERO } else { FOREVER }
}

/// Attributes, and how long the kernel may cache them.
pub(super) fn attributes(found: &NodeAttributes) -> (Duration, FileAttr) {
    let ttl = if found.size.is_some() { FOREVER } else { Duration::ZERO };
    let size = found.size.unwrap_or(0);
    let attributes = FileAttr {
        ino: INodeNo(found.number),
        size,
        // A short symlink lies in the inode itself.
        blocks: if found.kind == FileKind::Symlink { 0 } else { size.div_ceil(512) },
        atime: found.time,
        mtime: found.time,
        ctime: found.time,
        crtime: found.time,
        kind: file_type(found.kind),
        perm: found.mode,
        nlink: found.links,
        uid: found.uid,
        gid: found.gid,
        rdev: 0,
        blksize: BLOCK_SIZE,
        flags: 0,
    };
    (ttl, attributes)
}

/// The attributes of a missing name.
pub(super) const NOTHING: FileAttr = FileAttr {
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
