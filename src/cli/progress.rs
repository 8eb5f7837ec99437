//! Progress bars: on a terminal, for work that takes long enough.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::said::is_quiet;
use super::table::size;
use crate::metrics::Progress;

/// Time between two updates of a bar.
const PERIOD: Duration = Duration::from_millis(100);

/// The resolution of a bar.
const STEPS: u64 = 1000;

/// The position of a bar in [`STEPS`]. It never goes back, although `total` may grow.
#[derive(Default)]
struct Position(u64);

impl Position {
    fn advance(&mut self, done: u64, total: u64) -> u64 {
        let here = (u128::from(done) * u128::from(STEPS)).checked_div(u128::from(total)).unwrap_or(0);
        self.0 = self.0.max(u64::try_from(here).unwrap_or(STEPS).min(STEPS));
        self.0
    }
}

/// Runs `work`, and shows how much of it is done. The remaining time is not shown: cached, inflated and compressed bytes
/// differ in cost by a factor of a hundred.
pub(super) fn show_bytes<T: Send>(title: &'static str, work: impl FnOnce(&Progress) -> T + Send) -> T {
    let progress = Progress::default();
    if is_quiet() || !std::io::stderr().is_terminal() {
        return work(&progress);
    }
    let bar = ProgressBar::with_draw_target(Some(STEPS), ProgressDrawTarget::stderr()).with_prefix(title);
    let style = ProgressStyle::with_template("{prefix} [{bar:30}] {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
    let finished = AtomicBool::new(false);
    thread::scope(|scope| {
        let watch = || {
            let mut position = Position::default();
            thread::park_timeout(PERIOD);
            while !finished.load(Ordering::Acquire) {
                let (done, total) = (progress.done.load(Ordering::Relaxed), progress.total.load(Ordering::Relaxed));
                bar.set_position(position.advance(done, total));
                // Without the total, which grows with each stage of the work.
                bar.set_message(size(done));
                thread::park_timeout(PERIOD);
            }
            bar.finish_and_clear();
        };
        // Without a thread for it there is no bar.
        let watcher = thread::Builder::new().spawn_scoped(scope, watch);
        let result = work(&progress);
        finished.store(true, Ordering::Release);
        if let Ok(watcher) = watcher {
            watcher.thread().unpark();
        }
        result
    })
}

#[cfg(test)]
mod tests {
    use super::{Position, STEPS};

    #[test]
    fn bars_do_not_run_backwards() {
        let mut position = Position::default();
        let seen = [(0, 0), (0, 10), (5, 10), (5, 100), (60, 100), (60, 1000), (2000, 1000), (0, 0)];
        let shown = seen.map(|(done, total)| position.advance(done, total));
        assert_eq!(shown, [0, 0, 500, 500, 600, 600, STEPS, STEPS]);
        assert_eq!(Position::default().advance(u64::MAX, u64::MAX), STEPS);
    }
}
