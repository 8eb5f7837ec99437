//! What files are read into.

use parking_lot::{Mutex, MutexGuard};

use crate::rope::head_mut;

/// Buffers that are kept for the next reads.
const KEPT: usize = 8;

/// What is read into, again and again: fresh memory would cost as much as the bytes. There are as many as there are reads
/// at a time, however many threads there are.
#[derive(Debug, Default)]
pub(super) struct Buffers(Mutex<Vec<Vec<u8>>>);

impl Buffers {
    /// Does `work` with a buffer of `length` bytes.
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
