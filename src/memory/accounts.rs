//! How much memory of each class is in use, and which threads wait for more.

use std::collections::VecDeque;

use crate::metrics::MemoryClass;

/// The accounts of all classes.
#[derive(Default)]
pub(super) struct BudgetState {
    pub(super) bundles: Account,
    pub(super) compression: Account,
    pub(super) frames: Account,
    pub(super) spans: Account,
    pub(super) streams: Account,
    pub(super) tickets: u64,
    /// Number of notifications. A waiting thread sees from it that it has to check again.
    pub(super) changes: u64,
    /// Number of threads that wait for the next one.
    pub(super) sleeping: usize,
}

/// The memory of a class, and the threads that wait for more.
#[derive(Default)]
pub(super) struct Account {
    pub(super) bytes: u64,
    /// The guaranteed minimum of each cache, in bytes.
    pub(super) guaranteed: u64,
    /// Tickets of waiting threads, in the order of their arrival.
    pub(super) waiting: VecDeque<u64>,
}

impl BudgetState {
    pub(super) fn account(&mut self, purpose: MemoryClass) -> &mut Account {
        match purpose {
            MemoryClass::Bundles => &mut self.bundles,
            MemoryClass::Compression => &mut self.compression,
            MemoryClass::Frames => &mut self.frames,
            MemoryClass::Spans => &mut self.spans,
            MemoryClass::Streams => &mut self.streams,
        }
    }

    /// Bytes in use if `more` bytes of class `purpose` were added, with guaranteed minima counted as used.
    pub(super) fn taken(&mut self, purpose: MemoryClass, more: u64) -> u64 {
        let account = self.account(purpose);
        let here = account.bytes.saturating_add(more).max(account.guaranteed) - account.bytes.max(account.guaranteed);
        let all = [&self.bundles, &self.compression, &self.frames, &self.spans, &self.streams];
        all.iter().map(|account| account.bytes.max(account.guaranteed)).sum::<u64>().saturating_add(here)
    }
}
