//! The bytes of a wheel: a file of this machine, one on a server, or one in another input.

use std::fs::File;
use std::io;
use std::sync::Arc;

use super::stamp::{Label, Stamp, is_cached, read_unchanged};
use crate::remote::{MemberAccess, RemoteFile, RemoteProblem};
use crate::resources::Resources;
use crate::rope::{Content, Identity, ReadError, check_range};

/// The bytes of a wheel.
#[derive(Debug)]
pub(super) enum WheelBytes {
    /// A file that stays open, so that it is not another one later.
    Disk(File, Stamp),
    Remote(Box<RemoteFile>),
    /// A file of another input.
    Member(Arc<dyn Content>, Identity),
}

impl WheelBytes {
    pub(super) fn size(&self) -> u64 {
        match self {
            Self::Disk(_, stamp) => stamp.size,
            Self::Remote(file) => file.size(),
            Self::Member(file, _) => file.size(),
        }
    }

    pub(super) fn identity(&self) -> Identity {
        match self {
            Self::Disk(_, stamp) => stamp.identity(),
            Self::Remote(file) => file.identity(),
            Self::Member(_, identity) => *identity,
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
            Self::Member(file, _) => file.read_at(offset, buffer),
        }
    }

    /// Whether these bytes are in memory.
    pub(super) fn is_cached(&self, offset: u64, length: usize) -> bool {
        match self {
            Self::Disk(file, _) => is_cached(file, offset, length),
            Self::Remote(_) => false,
            Self::Member(file, _) => file.is_nonblocking(offset, length),
        }
    }

    /// States where members end, and how they are read.
    pub(super) fn set_members(&self, members: impl Iterator<Item = (u64, MemberAccess)>) {
        if let Self::Remote(file) = self {
            file.set_members(members.collect());
        }
    }
}
