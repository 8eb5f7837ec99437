//! Buffers for reads.

use parking_lot::{Mutex, MutexGuard};
use rustix::io::Errno;

use crate::rope::head_mut;

/// Buffers kept for later reads.
const KEPT: usize = 8;

/// Reusable read buffers: fresh memory would cost as much as the copy. There are as many as concurrent reads, however
/// many threads there are.
#[derive(Debug, Default)]
pub(super) struct Buffers(Mutex<Vec<Vec<u8>>>);

impl Buffers {
    /// Calls `work` with a buffer of `length` bytes.
    pub(super) fn with<T>(&self, length: usize, work: impl FnOnce(&mut [u8]) -> T) -> T {
        let mut buffer = self.kept().pop().unwrap_or_default();
        if buffer.len() < length {
            buffer = vec![0; length];
        }
        let result = work(head_mut(&mut buffer, length));
        let mut kept = self.kept();
        if kept.len() < KEPT {
            kept.push(buffer);
        }
        result
    }

    fn kept(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.0.lock()
    }
}

/// Bytes of a file for a reply.
pub(super) enum FileBytes<'a> {
    /// They are here.
    Read(&'a [u8]),
    /// They are to be read.
    Unread {
        /// Their number.
        length: usize,
        /// Reads as many bytes as there is room for.
        read: &'a dyn Fn(&mut [u8]) -> Result<(), Errno>,
        buffers: &'a Buffers,
    },
}

impl FileBytes<'_> {
    /// For a reply that has no room for the bytes.
    pub(super) fn read(self, reply: impl FnOnce(Result<&[u8], Errno>)) {
        match self {
            Self::Read(bytes) => reply(Ok(bytes)),
            Self::Unread { length, read, buffers } => buffers.with(length, |bytes| {
                let result = read(bytes);
                reply(result.map(|()| &*bytes));
            }),
        }
    }

    /// Writes them to the beginning of `room`. Returns their number.
    pub(super) fn read_into(self, room: &mut [u8]) -> Result<usize, Errno> {
        match self {
            Self::Read(bytes) => {
                room.get_mut(..bytes.len()).ok_or(Errno::IO)?.copy_from_slice(bytes);
                Ok(bytes.len())
            }
            Self::Unread { length, read, .. } => {
                read(room.get_mut(..length).ok_or(Errno::IO)?)?;
                Ok(length)
            }
        }
    }
}
