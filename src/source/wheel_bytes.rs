//! The bytes of a wheel: a file of this machine, or one on a server.

use std::fs::File;
use std::io;

use super::Attributes;
use super::stamp::{Label, Stamp, is_cached, read_unchanged};
use crate::remote::{MemberAccess, RemoteFile, RemoteProblem};
use crate::resources::Resources;
use crate::rope::{Identity, ReadError, check_range};

/// The bytes of a wheel.
#[derive(Debug)]
pub(super) enum WheelBytes {
    /// A file that stays open, so that it is not another one later.
    Disk(File, Stamp),
    Remote(Box<RemoteFile>),
}

impl WheelBytes {
    pub(super) fn size(&self) -> u64 {
        match self {
            Self::Disk(_, stamp) => stamp.size,
            Self::Remote(file) => file.size(),
        }
    }

    pub(super) fn identity(&self) -> Identity {
        match self {
            Self::Disk(_, stamp) => stamp.identity(),
            Self::Remote(file) => file.identity(),
        }
    }

    /// Fills `buffer` with the bytes at `offset`. Fails if it is no longer the same file.
    pub(super) fn read(
        &self,
        entry: &impl Label,
        offset: u64,
        buffer: &mut [u8],
        resources: &Resources,
    ) -> Result<(), ReadError> {
        match self {
            Self::Disk(file, stamp) => read_unchanged(file, stamp, entry, offset, buffer, resources),
            Self::Remote(file) => {
                check_range(offset, buffer.len(), file.size())?;
                file.read_at(offset, buffer).map_err(|error| match error.problem {
                    RemoteProblem::Changed => ReadError::Changed { entry: entry.label() },
                    _ => ReadError::io(&entry.label(), io::Error::other(error)),
                })
            }
        }
    }

    /// Whether these bytes are in memory.
    pub(super) fn is_cached(&self, offset: u64, length: usize) -> bool {
        match self {
            Self::Disk(file, _) => is_cached(file, offset, length),
            Self::Remote(_) => false,
        }
    }

    /// States where members end, and how they are read.
    pub(super) fn set_members(&self, members: impl Iterator<Item = (u64, MemberAccess)>) {
        if let Self::Remote(file) = self {
            file.set_members(members.collect());
        }
    }
}

/// The owner and the mode of what is in a file on a server: those of a file that this process would write.
pub(super) fn remote_attributes() -> Attributes {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    Attributes { mode: 0o644, uid, gid, mtime: 0, mtime_nanoseconds: 0 }
}
