//! What a caller of the bundle jobs waits for.

use super::frame::MadeFrame;
use crate::rope::ReadError;
use crate::sync::{Condvar, Mutex, rank};

/// What a caller waits for.
#[derive(Debug, Default)]
pub(super) struct Ticket {
    state: Mutex<JobProgress, { rank::TICKET }>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct JobProgress {
    /// Number of frames that are not made yet.
    left: usize,
    /// Uncompressed bytes that were compressed since the caller was last notified.
    bytes: u64,
    last: Option<MadeFrame>,
    error: Option<ReadError>,
}

impl Ticket {
    /// Ends one of the frames, of `bytes` uncompressed bytes.
    pub(super) fn end(&self, bytes: u64, made: &Result<MadeFrame, ReadError>) {
        let mut progress = self.state.lock();
        progress.left -= 1;
        progress.bytes += bytes;
        match made {
            Ok(made) => progress.last = Some(made.clone()),
            Err(error) => drop(progress.error.get_or_insert_with(|| error.clone())),
        }
        drop(progress);
        self.changed.notify_all();
    }

    /// Records why one of the frames cannot be made. Only the first reason is kept.
    pub(super) fn fail(&self, error: ReadError) {
        self.state.lock().error.get_or_insert(error);
    }

    /// Sets the number of frames to wait for.
    pub(super) fn expect(&self, count: usize) {
        self.state.lock().left = count;
    }

    /// Waits until all frames are made, and returns the last one. `progress` is called with the uncompressed bytes of
    /// code objects that were compressed meanwhile.
    pub(super) fn wait(&self, mut progress: impl FnMut(u64)) -> Result<Option<MadeFrame>, ReadError> {
        let mut state = self.state.lock();
        loop {
            progress(std::mem::take(&mut state.bytes));
            if state.left == 0 {
                return state.error.take().map_or_else(|| Ok(state.last.take()), Err);
            }
            state = self.changed.wait(state);
        }
    }
}
