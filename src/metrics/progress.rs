//! Progress of work in bytes.

use std::sync::atomic::{AtomicU64, Ordering};

/// Progress of work in bytes, for a progress bar.
#[derive(Debug, Default)]
pub struct Progress {
    /// Bytes to process.
    pub total: AtomicU64,
    /// Bytes processed.
    pub done: AtomicU64,
}

impl Progress {
    /// Adds bytes to process.
    pub fn expect(&self, bytes: u64) {
        self.total.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Adds processed bytes.
    pub fn advance(&self, bytes: u64) {
        self.done.fetch_add(bytes, Ordering::Relaxed);
    }
}
