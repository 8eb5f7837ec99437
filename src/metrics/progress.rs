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

    /// A part of the bytes to process, for work that may end before it has read them.
    pub fn portion(&self, bytes: u64) -> Portion<'_> {
        Portion { progress: self, left: AtomicU64::new(bytes) }
    }

    /// Adds processed bytes.
    pub fn advance(&self, bytes: u64) {
        self.done.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// A part of the bytes to process. What is left of it counts as processed when it is dropped.
#[derive(Debug)]
pub struct Portion<'a> {
    progress: &'a Progress,
    left: AtomicU64,
}

impl Portion<'_> {
    /// Adds processed bytes, as far as they belong to this part.
    pub fn advance(&self, bytes: u64) {
        let take = |left: u64| Some(left.saturating_sub(bytes));
        let left = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).unwrap_or_default();
        self.progress.advance(left.min(bytes));
    }
}

impl Drop for Portion<'_> {
    fn drop(&mut self) {
        self.advance(u64::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_portion_counts_once_however_much_of_it_was_read() {
        let progress = Progress::default();
        let done = || progress.done.load(Ordering::Relaxed);
        let portion = progress.portion(10);
        portion.advance(4);
        assert_eq!(done(), 4);
        portion.advance(7);
        assert_eq!(done(), 10);
        drop(portion);
        drop(progress.portion(5));
        assert_eq!(done(), 15);
    }
}
