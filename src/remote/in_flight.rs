//! Blocks that are on their way. A reader that needs one of them waits for it.

use std::ops::Range;

use crate::sync::{Condvar, Mutex, MutexGuard, PoisonError, rank};

/// The most requests at a time.
const MOST: usize = 8;

/// The requests that are being answered, each with the blocks that are still to come.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    ranges: Mutex<Vec<Range<u64>>, { rank::REMOTE }>,
    changed: Condvar,
}

/// A request that is being answered.
pub(super) struct Flight<'a> {
    all: &'a InFlight,
    /// The first block behind its last one, which tells it from others.
    end: u64,
}

impl InFlight {
    fn lock(&self) -> MutexGuard<'_, Vec<Range<u64>>, { rank::REMOTE }> {
        self.ranges.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `held` finds a block, or until it is to be asked for: then with the blocks that `choose` takes, which
    /// receives whether a block is on its way.
    pub(super) fn start<T>(
        &self,
        block: u64,
        held: impl Fn() -> Option<T>,
        choose: impl FnOnce(&dyn Fn(u64) -> bool) -> Range<u64>,
    ) -> Result<T, (Flight<'_>, Range<u64>)> {
        let mut ranges = self.lock();
        loop {
            if let Some(held) = held() {
                return Ok(held);
            }
            if ranges.len() < MOST && !ranges.iter().any(|range| range.contains(&block)) {
                break;
            }
            ranges = self.changed.wait(ranges).unwrap_or_else(PoisonError::into_inner);
        }
        let chosen = choose(&|block| ranges.iter().any(|range| range.contains(&block)));
        ranges.push(chosen.clone());
        Err((Flight { all: self, end: chosen.end }, chosen))
    }
}

impl Flight<'_> {
    /// The blocks before this one have come.
    pub(super) fn has_come_to(&self, block: u64) {
        if let Some(range) = self.all.lock().iter_mut().find(|range| range.end == self.end) {
            range.start = block;
        }
        self.all.changed.notify_all();
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        self.all.lock().retain(|range| range.end != self.end);
        self.all.changed.notify_all();
    }
}
