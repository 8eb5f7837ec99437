//! Progress of work in bytes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::MetricsSource;

/// Progress of work in bytes, for a progress bar.
#[derive(Debug, Default)]
pub struct Progress {
    /// Bytes to process that are known by now.
    pub total: AtomicU64,
    /// Bytes that were counted as done.
    pub done: AtomicU64,
    /// Files that count when they are done.
    files: Mutex<Option<WholeFiles>>,
    /// An estimate of all bytes to process; 0 if `total` has all.
    estimate: AtomicU64,
    /// What makes the estimate when what shows the progress asks for it.
    unmade: Mutex<Option<Unmade>>,
    /// Whether it is shown.
    is_watched: AtomicBool,
    /// What is processed now, by the order in which that began.
    names: Mutex<BTreeMap<u64, String>>,
    /// How many names there were.
    named: AtomicU64,
}

/// An estimate that is not made yet.
#[derive(derive_more::Debug)]
#[debug("Unmade")]
struct Unmade(Box<dyn FnOnce() -> u64 + Send>);

/// Files that count when they are done. A large member is inflated for minutes before.
#[derive(Debug)]
struct WholeFiles {
    source: Arc<dyn MetricsSource>,
    /// Their size.
    bytes: u64,
    /// What was inflated and processed before them.
    inflated: u64,
    done: u64,
}

impl Progress {
    /// Progress that is shown, so that names are worth their text.
    pub fn watched() -> Self {
        Self { is_watched: AtomicBool::new(true), ..Self::default() }
    }

    /// Adds bytes to process.
    pub fn expect(&self, bytes: u64) {
        self.total.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Adds the bytes of files that count when they are done. What `source` inflates until then counts, too.
    pub fn expect_files(&self, bytes: u64, source: &Arc<impl MetricsSource>) {
        self.expect(bytes);
        if self.is_watched.load(Ordering::Relaxed) {
            let (inflated, done) = (source.counters().bytes_inflated.get(), self.done.load(Ordering::Relaxed));
            *self.files.lock() = Some(WholeFiles { source: Arc::clone(source) as _, bytes, inflated, done });
        }
    }

    /// Bytes processed.
    pub fn processed(&self) -> u64 {
        let inflated = self.files.lock().as_ref().map(|files| {
            let inflated = files.source.counters().bytes_inflated.get().saturating_sub(files.inflated);
            files.done.saturating_add(inflated.min(files.bytes))
        });
        self.done.load(Ordering::Relaxed).max(inflated.unwrap_or_default())
    }

    /// Estimates all bytes to process, before they are known.
    pub fn foresee(&self, bytes: impl FnOnce() -> u64) {
        if self.is_watched.load(Ordering::Relaxed) {
            self.estimate.store(bytes(), Ordering::Relaxed);
        }
    }

    /// The same for an estimate that reads files. It is made when the progress is asked for, which in a log is seldom.
    pub fn foresee_later(&self, bytes: impl FnOnce() -> u64 + Send + 'static) {
        if self.is_watched.load(Ordering::Relaxed) {
            *self.unmade.lock() = Some(Unmade(Box::new(bytes)));
        }
    }

    /// Nothing is added to the bytes to process from now on.
    pub fn settle(&self) {
        self.unmade.lock().take();
        self.estimate.store(0, Ordering::Relaxed);
    }

    /// All bytes to process, and whether their number is an estimate.
    pub fn all(&self) -> (u64, bool) {
        let mut unmade = self.unmade.lock();
        if let Some(Unmade(bytes)) = unmade.take() {
            self.estimate.store(bytes(), Ordering::Relaxed);
        }
        let (known, estimate) = (self.total.load(Ordering::Relaxed), self.estimate.load(Ordering::Relaxed));
        (known.max(estimate), estimate > 0)
    }

    /// A part of the bytes to process, for work that may end before it has read them.
    pub fn portion(&self, bytes: u64) -> Portion<'_> {
        Portion { progress: self, left: AtomicU64::new(bytes) }
    }

    /// Adds processed bytes.
    pub fn advance(&self, bytes: u64) {
        self.done.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Names what is processed until the result is dropped.
    #[must_use = "the name is shown as long as this lives"]
    pub fn at(&self, name: impl FnOnce() -> String) -> ShownName<'_> {
        let number = self.is_watched.load(Ordering::Relaxed).then(|| {
            let number = self.named.fetch_add(1, Ordering::Relaxed);
            self.names.lock().insert(number, name());
            number
        });
        ShownName { progress: self, number }
    }

    /// What is processed now. Of several at a time, it is what takes longest.
    pub fn name(&self) -> String {
        self.names.lock().values().next().cloned().unwrap_or_default()
    }
}

/// The name of what is processed, while that lasts.
#[derive(Debug)]
pub struct ShownName<'a> {
    progress: &'a Progress,
    /// `None` if nobody looks.
    number: Option<u64>,
}

impl Drop for ShownName<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.progress.names.lock().remove(&number);
        }
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
    use crate::metrics::{Counters, Gauges};

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

    #[derive(Debug, Default)]
    struct Inflating(Counters);

    impl MetricsSource for Inflating {
        fn counters(&self) -> &Counters {
            &self.0
        }

        fn gauges(&self) -> Gauges {
            Gauges::default()
        }

        fn threads(&self) -> u64 {
            0
        }
    }

    #[test]
    fn what_is_inflated_of_a_file_counts_before_the_file_is_done() {
        let (progress, source) = (Progress::watched(), Arc::new(Inflating::default()));
        let inflate = |bytes| source.0.bytes_inflated.add(bytes);
        inflate(1000);
        progress.advance(5);
        progress.expect_files(100, &source);
        assert_eq!((progress.processed(), progress.all()), (5, (100, false)));
        inflate(60);
        assert_eq!(progress.processed(), 65);
        progress.advance(70);
        assert_eq!(progress.processed(), 75, "a file counts once");
        inflate(1000);
        assert_eq!(progress.processed(), 105, "what is inflated twice is not more than the files");
    }

    #[test]
    fn a_total_is_an_estimate_until_all_is_known() {
        let progress = Progress::watched();
        progress.foresee(|| 100);
        progress.expect(20);
        assert_eq!(progress.all(), (100, true));
        progress.expect(90);
        assert_eq!(progress.all(), (110, true));
        progress.settle();
        assert_eq!(progress.all(), (110, false));
    }

    #[test]
    fn an_estimate_that_reads_is_made_once_and_only_if_asked_for() {
        let (progress, made) = (Progress::watched(), Arc::new(AtomicU64::new(0)));
        let count = Arc::clone(&made);
        progress.foresee_later(move || 100 + count.fetch_add(1, Ordering::Relaxed));
        assert_eq!(made.load(Ordering::Relaxed), 0);
        assert_eq!([progress.all(), progress.all()], [(100, true); 2]);
        progress.foresee_later(|| unreachable!("all is known"));
        progress.settle();
        assert_eq!(progress.all(), (0, false));
        let unseen = Progress::default();
        unseen.foresee_later(|| unreachable!("nobody looks"));
        assert_eq!(unseen.all(), (0, false));
    }

    #[test]
    fn the_name_is_that_of_what_takes_longest() {
        let progress = Progress::watched();
        let large = progress.at(|| "libx.so".to_owned());
        drop(progress.at(|| "entry_points.txt".to_owned()));
        let last = progress.at(|| "liby.so".to_owned());
        assert_eq!(progress.name(), "libx.so");
        drop(large);
        assert_eq!(progress.name(), "liby.so");
        drop(last);
        assert_eq!(progress.name(), "");
        drop(Progress::default().at(|| unreachable!("nobody looks")));
    }
}
