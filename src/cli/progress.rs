//! Progress: of each stage of the work how much of it is done, how long the rest takes, and what is processed. It is a bar
//! on a terminal, and a line now and then in a log, whose reader may end what says nothing.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::said::is_quiet;
use super::table::size;
use super::terminal::{complain, escaped};
use crate::metrics::Progress;
use crate::resources::Resources;
use crate::source::is_stream;

/// Time between two updates of a bar.
const PERIOD: Duration = Duration::from_millis(100);

/// A shorter time says nothing about the rest: cached, inflated and compressed bytes differ in cost by a factor of a hundred.
/// Nor does a rate, if nothing has been counted for longer: a large member counts when it is done.
const SETTLED: Duration = Duration::from_secs(2);

/// When a stage has its first line in a log. The next one comes after twice the time, up to the longest time between two.
const FIRST_LINE: Duration = Duration::from_secs(30);
const MOST_BETWEEN_LINES: Duration = Duration::from_secs(240);

/// The resolution of a bar.
const STEPS: u64 = 1000;

/// Less work than this says nothing about the rest, either.
const LEAST_STEPS: u64 = STEPS / 50;

/// What is shown of the progress.
#[derive(Debug, Default)]
struct Sample {
    done: u64,
    total: u64,
    is_estimate: bool,
    name: String,
}

impl Sample {
    fn of(progress: &Progress) -> Self {
        let (total, is_estimate) = progress.all();
        Self { done: progress.processed(), total, is_estimate, name: progress.name() }
    }

    /// "~45 % of ~1.20 GiB, ~2m left, libx.so": an estimate is marked.
    fn text(&self, position: u64, left: Option<Duration>) -> String {
        // What goes on has more to do than was foreseen.
        let (about, most) = if self.is_estimate { ("~", 99) } else { ("", 100) };
        let (percent, total) = ((position * 100 / STEPS).min(most), size(self.total));
        let left = left.map(|left| format!(", ~{:#} left", HumanDuration(left))).unwrap_or_default();
        // Of a path, what fits in a line.
        let name = self.name.rsplit('/').next().filter(|name| !name.is_empty());
        let name = name.map(|name| format!(", {}", escaped(name))).unwrap_or_default();
        format!("{about}{percent} % of {about}{total}{left}{name}")
    }
}

/// The position of a bar in [`STEPS`], which is not before the last one: an estimated total may grow.
fn position(last: u64, done: u64, total: u64) -> u64 {
    let here = (u128::from(done) * u128::from(STEPS)).checked_div(u128::from(total)).unwrap_or(0);
    u64::try_from(here).unwrap_or(STEPS).min(STEPS).max(last)
}

/// When the next line of a log is due, if one is due now.
fn next_line(elapsed: Duration, due: Duration) -> Option<Duration> {
    (elapsed >= due).then(|| elapsed + elapsed.min(MOST_BETWEEN_LINES))
}

/// Runs `work`, and shows how much of it is done.
pub(super) fn show_bytes<T: Send>(title: &'static str, work: impl FnOnce(&Progress) -> T + Send) -> T {
    if is_quiet() {
        return work(&Progress::default());
    }
    let progress = Progress::watched();
    show(title, || Sample::of(&progress), || work(&progress))
}

/// Runs `work`, which opens `inputs`. How much of them was read is shown if they have to be read as a whole.
pub(super) fn show_opening<T: Send>(inputs: &[PathBuf], resources: &Resources, work: impl FnOnce() -> T + Send) -> T {
    let streams: Vec<_> = inputs.iter().filter(|input| !is_quiet() && is_stream(input)).collect();
    let Some(first) = streams.first() else { return work() };
    let name = first.file_name().unwrap_or_default().to_string_lossy();
    let total = streams.iter().filter_map(|stream| Some(stream.metadata().ok()?.len())).sum();
    let read = || resources.counters.bytes_read.get();
    let before = read();
    let sample = || Sample { done: read().saturating_sub(before), total, name: name.to_string(), is_estimate: false };
    show("Reading", sample, work)
}

fn bar(title: &'static str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(STEPS), ProgressDrawTarget::stderr()).with_prefix(title);
    let style = ProgressStyle::with_template("{prefix} [{bar:12}] {wide_msg}");
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "))
}

fn show<T: Send>(title: &'static str, sample: impl Fn() -> Sample + Sync, work: impl FnOnce() -> T + Send) -> T {
    let bar = std::io::stderr().is_terminal().then(|| bar(title));
    let (begun, mut due) = (Instant::now(), FIRST_LINE);
    let finished = AtomicBool::new(false);
    thread::scope(|scope| {
        let watch = || {
            let (mut here, mut done, mut moved) = (0, 0, begun);
            // Of a sample before its line nobody has anything, and it may have to estimate the work.
            let pause = |due: Duration| if bar.is_some() { PERIOD } else { due.saturating_sub(begun.elapsed()) };
            thread::park_timeout(pause(due));
            while !finished.load(Ordering::Acquire) {
                let now = sample();
                here = position(here, now.done, now.total);
                if now.done != done {
                    (done, moved) = (now.done, Instant::now());
                }
                let is_known = here >= LEAST_STEPS && begun.elapsed() >= SETTLED && moved.elapsed() < SETTLED;
                let left = is_known.then(|| left(begun.elapsed(), here)).filter(|left| left.as_secs() > 0);
                let text = now.text(here, left);
                if let Some(bar) = &bar {
                    bar.set_message(text);
                    bar.set_position(here);
                } else if let Some(next) = next_line(begun.elapsed(), due) {
                    complain(&format_args!("{title}: {text}"));
                    due = next;
                }
                thread::park_timeout(pause(due));
            }
            bar.iter().for_each(ProgressBar::finish_and_clear);
        };
        // Without a thread for it nothing is shown.
        let watcher = thread::Builder::new().spawn_scoped(scope, watch);
        let result = work();
        finished.store(true, Ordering::Release);
        if let Ok(watcher) = watcher {
            watcher.thread().unpark();
        }
        result
    })
}

/// How long the rest takes if it is as fast as what was done. A mean that forgets begins too slow, and ends too late.
fn left(elapsed: Duration, here: u64) -> Duration {
    let steps = |steps: u64| u32::try_from(steps).unwrap_or(u32::MAX);
    elapsed * steps(STEPS.saturating_sub(here)) / steps(here.max(1))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{FIRST_LINE, STEPS, Sample, left, next_line, position};

    #[test]
    fn the_rest_is_as_fast_as_what_was_done() {
        for (here, seconds) in [(0, 10_000), (50, 190), (500, 10), (STEPS, 0)] {
            assert_eq!(left(Duration::from_secs(10), here).as_secs(), seconds, "{here}");
        }
    }

    #[test]
    fn a_log_has_a_line_now_and_then() {
        let mut due = FIRST_LINE;
        let mut is_due = |seconds: &u64| {
            let next = next_line(Duration::from_secs(*seconds), due);
            due = next.unwrap_or(due);
            next.is_some()
        };
        let lines: Vec<_> = (0..1000).filter(|seconds| is_due(seconds)).collect();
        assert_eq!(lines, [30, 60, 120, 240, 480, 720, 960]);
    }

    #[test]
    fn a_position_is_in_the_bar() {
        let seen = [(0, 0), (0, 10), (5, 10), (60, 1000), (2000, 1000), (u64::MAX, u64::MAX), (1, u64::MAX)];
        assert_eq!(seen.map(|(done, total)| position(0, done, total)), [0, 0, 500, 60, STEPS, STEPS, 0]);
    }

    #[test]
    fn bars_do_not_run_backwards() {
        let mut here = 0;
        let seen = [(0, 0), (5, 10), (5, 100), (60, 100), (60, 1000), (2000, 1000), (0, 0)];
        let shown = seen.map(|(done, total)| {
            here = position(here, done, total);
            here
        });
        assert_eq!(shown, [0, 500, 500, 600, 600, STEPS, STEPS]);
    }

    #[test]
    fn an_estimate_is_marked() {
        let mut sample = Sample { done: 1 << 20, total: 4 << 20, is_estimate: false, name: "lib/x\n.so".to_owned() };
        let left = Some(Duration::from_secs(90));
        assert_eq!(sample.text(250, left), r"25 % of 4.00 MiB, ~2m left, x\n.so");
        sample = Sample { is_estimate: true, name: String::new(), ..sample };
        assert_eq!([250, STEPS].map(|at| sample.text(at, None)), ["~25 % of ~4.00 MiB", "~99 % of ~4.00 MiB"]);
    }
}
