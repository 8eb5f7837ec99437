//! Buffers for reads.

use parking_lot::{Mutex, MutexGuard};

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
            buffer.resize(length, 0);
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
