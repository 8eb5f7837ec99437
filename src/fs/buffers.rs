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

/// Bytes of a file that are to be read.
pub(super) struct ReadRange<'a> {
    /// Their number.
    pub(super) length: usize,
    /// Reads as many bytes as there is room for.
    pub(super) read: &'a dyn Fn(&mut [u8]) -> Result<(), Errno>,
    pub(super) buffers: &'a Buffers,
}

impl ReadRange<'_> {
    /// For a reply that has no room for the bytes.
    pub(super) fn read_into_buffer(self, reply: impl FnOnce(Result<&[u8], Errno>)) {
        self.buffers.with(self.length, |bytes| {
            let result = (self.read)(bytes);
            reply(result.map(|()| &*bytes));
        });
    }
}
