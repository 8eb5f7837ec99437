//! Entries of an input.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use super::path::EntryPath;
use crate::rope::{Content, ReadError, equal};

/// One file, directory or symlink of the input.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its path relative to the root.
    pub path: EntryPath,
    /// Its kind.
    pub kind: EntryKind,
    /// Permissions, owner and time.
    pub attributes: Attributes,
}

/// The kind of an entry.
#[derive(Clone, Debug)]
pub enum EntryKind {
    /// A directory.
    Directory,
    /// A symlink, with its target.
    Symlink(Arc<[u8]>),
    /// A regular file.
    File {
        /// Its bytes.
        content: Arc<dyn Content>,
        /// Entries with the same number are hard links to one file.
        link_group: Option<u64>,
    },
}

impl Entry {
    /// The bytes of a file; `None` for a directory or a symlink.
    pub fn content(&self) -> Option<&Arc<dyn Content>> {
        self.kind.content()
    }

    /// The size of a file; 0 for others.
    pub fn size(&self) -> u64 {
        self.content().map_or(0, |content| content.size())
    }
}

impl EntryKind {
    /// The bytes of a file; `None` for a directory or a symlink.
    pub fn content(&self) -> Option<&Arc<dyn Content>> {
        if let Self::File { content, .. } = self { Some(content) } else { None }
    }

    /// Bytes of the target of a symlink; 0 for others.
    pub(crate) fn target_length(&self) -> u64 {
        if let Self::Symlink(target) = self { target.len() as u64 } else { 0 }
    }

    /// The difference between two entries for one path; `None` if they are equal.
    pub fn difference(&self, other: &Self) -> Result<Option<&'static str>, ReadError> {
        Ok(match (self, other) {
            (Self::Directory, Self::Directory) => None,
            (Self::Symlink(one), Self::Symlink(other)) => (one != other).then_some("they lead to different places"),
            (Self::File { content: one, .. }, Self::File { content: other, .. }) => {
                (!equal(&**one, &**other)?).then_some("their content differs")
            }
            _ => Some("they are of different kinds"),
        })
    }
}

/// What `stat` returns in addition to kind and size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Permission bits, including set-uid, set-gid and sticky (mask 0o7777).
    pub mode: u16,
    /// User id of the owner.
    pub uid: u32,
    /// Group id of the owner.
    pub gid: u32,
    /// Seconds since 1970 of the last change of content.
    pub mtime: i64,
    /// Nanoseconds to add to `mtime`, below 10^9.
    pub mtime_nanoseconds: u32,
}

impl Attributes {
    /// Those of a file that this process would write, for what has no owner: a file on a server, or in another file.
    pub(super) fn of_process() -> Self {
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        Self { mode: 0o644, uid, gid, mtime: 0, mtime_nanoseconds: 0 }
    }

    /// The attributes of a file of the operating system.
    pub fn of(metadata: &Metadata) -> Self {
        Self {
            mode: u16::try_from(metadata.mode() & 0o7777).unwrap_or(0),
            uid: metadata.uid(),
            gid: metadata.gid(),
            mtime: metadata.mtime(),
            mtime_nanoseconds: u32::try_from(metadata.mtime_nsec()).unwrap_or(0),
        }
    }
}
