//! Progress bars: on a terminal, for work that takes long enough to wait for.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How often a bar looks at the numbers.
const PERIOD: Duration = Duration::from_millis(100);

/// Does `work`, and meanwhile shows how much of `total` bytes is done.
pub(super) fn show_bytes<T: Send>(
    title: &'static str,
    done: &AtomicU64,
    total: &AtomicU64,
    work: impl FnOnce() -> T + Send,
) -> T {
    if !std::io::stderr().is_terminal() {
        return work();
    }
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_message(title);
    let style = ProgressStyle::with_template("{msg} [{bar:30}] {bytes} of {total_bytes}, {eta} left");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
    let finished = AtomicBool::new(false);
    thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            thread::park_timeout(PERIOD);
            while !finished.load(Ordering::Acquire) {
                bar.set_length(total.load(Ordering::Relaxed));
                bar.set_position(done.load(Ordering::Relaxed));
                thread::park_timeout(PERIOD);
            }
            bar.finish_and_clear();
        });
        let result = work();
        finished.store(true, Ordering::Release);
        watcher.thread().unpark();
        result
    })
}
