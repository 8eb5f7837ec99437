//! Limits the rate of log messages: every `read` of a damaged file would log a warning.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

const BURST: u32 = 10;
const WINDOW: Duration = Duration::from_secs(30);

/// Lets [`BURST`] messages per [`WINDOW`] pass, and counts the others.
#[derive(Debug, Default)]
pub(super) struct Limiter(Mutex<LimiterState>);

#[derive(Debug, Default)]
struct LimiterState {
    since: Option<Instant>,
    passed: u32,
    suppressed: u64,
}

impl Limiter {
    /// Whether a message may pass now. If so, returns the number of messages suppressed since the last one that passed.
    pub(super) fn pass(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock();
        if state.since.is_none_or(|since| now.saturating_duration_since(since) >= WINDOW) {
            state.since = Some(now);
            state.passed = 0;
        }
        if state.passed == BURST {
            state.suppressed += 1;
            return None;
        }
        state.passed += 1;
        Some(std::mem::take(&mut state.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_the_rest_is_counted() {
        let limiter = Limiter::default();
        let start = Instant::now();
        let passed = (0..25).filter(|_| limiter.pass(start) == Some(0)).count();
        assert_eq!(passed, 10);
        assert_eq!(limiter.pass(start + WINDOW / 2), None);
        assert_eq!(limiter.pass(start + WINDOW), Some(16));
        assert_eq!(limiter.pass(start + WINDOW), Some(0));
    }
}
