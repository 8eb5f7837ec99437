//! Reading of files of the input, with detection of changes since they were listed.

use std::fs::{File, Metadata};
use std::io::IoSliceMut;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;

use rustix::io::{ReadWriteFlags, preadv2};

use super::path::EntryPath;
use crate::resources::Resources;
use crate::rope::{Identity, ReadError, check_range};

/// Identifies the bytes of a file by its metadata. If they differ, the file is no longer the one that was planned with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp {
    device: u64,
    inode: u64,
    pub(super) size: u64,
    mtime: (i64, i64),
    /// The time of the last change of content or metadata (ctime), which no program can set. A new hard link changes
    /// it, too.
    ctime: (i64, i64),
}

impl Stamp {
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            mtime: (metadata.mtime(), metadata.mtime_nsec()),
            ctime: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Whether it is the same file. A change that keeps size and mtime is not noticed.
    fn is_same(&self, now: &Self) -> bool {
        (self.device, self.inode, self.size, self.mtime) == (now.device, now.inode, now.size, now.mtime)
    }

    /// The file's identity in later sessions. A file that was overwritten and given its old time has another one,
    /// because of ctime.
    pub(super) fn identity(&self) -> Identity {
        let mut identity = Identity::describe("file");
        identity.number(self.device).number(self.inode).number(self.size);
        for (seconds, nanoseconds) in [self.mtime, self.ctime] {
            identity.add(&seconds.to_le_bytes()).add(&nanoseconds.to_le_bytes());
        }
        identity.finish()
    }
}

/// The name of an entry in messages. Wheels have many members and few errors, so a member makes the text on demand.
pub(super) trait Label {
    /// The text.
    fn label(&self) -> Arc<str>;
}

impl Label for Arc<str> {
    fn label(&self) -> Arc<str> {
        Arc::clone(self)
    }
}

impl Label for EntryPath {
    fn label(&self) -> Arc<str> {
        self.to_text().into()
    }
}

/// Fills `buffer` from `file`. Fails if the file is no longer the one that `stamp` describes.
pub(super) fn read_unchanged(
    file: &File,
    stamp: &Stamp,
    entry: &impl Label,
    offset: u64,
    buffer: &mut [u8],
    resources: &Resources,
) -> Result<(), ReadError> {
    check_range(offset, buffer.len(), stamp.size)?;
    let read = file.read_exact_at(buffer, offset);
    resources.counters.bytes_read.add(buffer.len() as u64);
    // Checked after the read, so that bytes of a changed file are never returned.
    check_unchanged(file, stamp, entry)?;
    read.map_err(|source| ReadError::io(&entry.label(), source))
}

/// Whether these bytes of `file` are in the page cache, so that reading them waits for no disk and no server. Only the
/// last byte is checked, since readahead has read what precedes it. The answer is `false` on file systems that cannot
/// tell.
pub fn is_cached(file: &File, offset: u64, length: usize) -> bool {
    let Some(last) = offset.checked_add(length as u64).and_then(|end| end.checked_sub(1)) else { return true };
    let found = preadv2(file, &mut [IoSliceMut::new(&mut [0])], last, ReadWriteFlags::NOWAIT);
    found == Ok(1)
}

/// Fails if `file` is no longer the one that `stamp` describes.
pub(super) fn check_unchanged(file: &File, stamp: &Stamp, entry: &impl Label) -> Result<(), ReadError> {
    let now = file.metadata().map_err(|source| ReadError::io(&entry.label(), source))?;
    if stamp.is_same(&Stamp::of(&now)) { Ok(()) } else { Err(ReadError::Changed { entry: entry.label() }) }
}
