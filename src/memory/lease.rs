//! Leases of values that are read piece by piece: decoders and decompressed bundles.
//!
//! A value that is evicted between two pieces has to be made again for the next one. If two readers take turns and there is
//! memory for one decoder, each piece would cost all bytes before it. A lease postpones the eviction until the bytes
//! read are as many as the value costs, so that all of the work is at most about three times that of one reader. It also ends
//! when its reader has been silent for as long as it takes to make the value again: waiting longer would cost the others more
//! than an eviction costs the reader. (Waiting for the next request of a reader is anticipatory scheduling: Iyer and
//! Druschel, SOSP 2001.)

use std::time::{Duration, Instant};

/// About the time that it takes to decompress one byte.
const TIME_PER_BYTE: Duration = Duration::from_nanos(1);

/// The shortest time after which a reader counts as silent.
const MIN_PATIENCE: Duration = Duration::from_millis(20);

/// A lease lasts at most this many times as long as its reader may be silent, however often it reads.
const MAX_PAUSES: u32 = 4;

/// A lease of a value, from the last read on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lease {
    /// Bytes that are decompressed to make the value again.
    cost: u64,
    /// Bytes read since the value was leased.
    read: u64,
    last: Instant,
    /// Time between reads, and that of decoding for them.
    elapsed: Duration,
}

impl Lease {
    pub(super) fn new(cost: u64) -> Self {
        Self { cost, read: 0, last: Instant::now(), elapsed: Duration::ZERO }
    }

    /// Counts bytes that were read.
    pub(super) fn count(&mut self, bytes: u64) {
        self.read = self.read.saturating_add(bytes);
        self.elapsed = self.elapsed.saturating_add(self.last.elapsed());
        self.last = Instant::now();
    }

    /// How long the value must not be evicted; `None` if it may be.
    pub(super) fn left(&self) -> Option<Duration> {
        self.left_at(Instant::now())
    }

    fn left_at(&self, now: Instant) -> Option<Duration> {
        if self.read >= self.cost {
            return None;
        }
        // No time passes in tests of schedules.
        if cfg!(feature = "shuttle") {
            return Some(Duration::MAX);
        }
        let patience = TIME_PER_BYTE.saturating_mul(u32::try_from(self.cost).unwrap_or(u32::MAX)).max(MIN_PATIENCE);
        let since = now.saturating_duration_since(self.last);
        let total = patience.saturating_mul(MAX_PAUSES).saturating_sub(self.elapsed.saturating_add(since));
        Some(patience.saturating_sub(since).min(total)).filter(|left| !left.is_zero())
    }
}

/// How long a value must not be evicted that may have a lease.
pub(super) fn left(lease: Option<&Lease>) -> Option<Duration> {
    lease.and_then(Lease::left)
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn a_lease_ends_when_as_much_was_read_as_the_value_costs() {
        let mut lease = Lease::new(1 << 30);
        lease.count((1 << 30) - 1);
        lease.elapsed = Duration::ZERO;
        assert!(lease.left_at(lease.last).is_some_and(|left| left > Duration::from_millis(100)));
        lease.count(1);
        assert_eq!((lease.left(), left(None)), (None, None));
    }

    #[test]
    fn a_lease_ends_when_its_reader_is_silent() {
        let after_pause = |cost| {
            let lease = Lease::new(cost);
            lease.left_at(lease.last + Duration::from_millis(500))
        };
        assert_eq!((after_pause(1), after_pause(400_000_000)), (None, None));
        assert!(after_pause(1 << 30).is_some());
    }

    #[test]
    fn a_lease_ends_when_its_reader_is_slow() {
        let mut lease = Lease { elapsed: Duration::from_secs(3), ..Lease::new(1 << 30) };
        assert!(lease.left_at(lease.last).is_some());
        lease.elapsed += Duration::from_secs(2);
        assert_eq!(lease.left_at(lease.last), None);
    }
}
