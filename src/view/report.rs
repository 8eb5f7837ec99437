//! The files of `.kpackfs/`, which describe the mount and its costs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::watch::Watch;
use crate::confine::{self, ConfinementLayer};
use crate::kpack::ArchiveRope;
use crate::metrics::{Counters, Gauges, TransportState, openmetrics};
use crate::resources::Resources;
use crate::rope::{Content, Rope, Segment};
use crate::tree::{Body, LiveReport};

/// The version of all JSON output (`docs/json.md`). It is incremented when a field is removed or changes its meaning,
/// not when one is added.
pub const JSON_VERSION: u32 = 1;

/// A report with the version of the JSON output.
#[derive(Serialize)]
pub(crate) struct Versioned<'a, T> {
    json_version: u32,
    #[serde(flatten)]
    report: &'a T,
}

impl<'a, T: Serialize> Versioned<'a, T> {
    pub(crate) fn of(report: &'a T) -> Self {
        Self { json_version: JSON_VERSION, report }
    }
}

/// The fixed size of `status.json` in bytes. One request of the kernel reads all of it.
const SIZE: usize = 8192;

/// `status.json`: work done, work in progress, and memory in use. It always has the same size, because the size of a
/// file must be known before it is read.
#[derive(derive_more::Debug)]
#[debug("Status({input:?})")]
pub struct Status {
    input: String,
    resources: Arc<Resources>,
    archives: Vec<(String, Arc<ArchiveRope>)>,
    watch: Watch,
    since: Instant,
}

#[derive(Serialize)]
struct StatusText<'a> {
    json_version: u32,
    version: &'static str,
    input: &'a str,
    /// The first file of the input that has changed since it was mounted.
    changed: Option<String>,
    uptime_seconds: f64,
    /// How requests of the kernel travel.
    transport: Option<&'a TransportState>,
    /// What the daemon has given up; empty if that was not wanted.
    confinement: Vec<ConfinementLayer>,
    /// Requests that wait, longest first.
    waiting: Vec<WaitingRequest>,
    counters: &'a Counters,
    gauges: StatusGauges,
    /// Bytes of memory by class.
    memory: Gauges,
    /// Archives that are being made; only the first ones if there are too many.
    making: Vec<UnfinishedArchive<'a>>,
}

/// A request is named if it waits longer: programs that ask wait for seconds.
const LONG: Duration = Duration::from_millis(500);

#[derive(Serialize)]
struct WaitingRequest {
    kind: &'static str,
    milliseconds: u64,
}

#[derive(Serialize)]
struct StatusGauges {
    /// Requests that wait for a worker, or are being answered by one.
    requests_waiting: u64,
    /// Worker threads.
    threads: usize,
}

/// An archive that is being made. Sizes are bytes of uncompressed code objects.
#[derive(Serialize)]
struct UnfinishedArchive<'a> {
    archive: &'a str,
    done: u64,
    total: u64,
}

impl Status {
    /// The status of the work on `input`, and of these archives by name.
    pub fn new(
        input: impl Into<String>,
        resources: &Arc<Resources>,
        archives: impl IntoIterator<Item = (String, Arc<ArchiveRope>)>,
    ) -> Self {
        Self {
            input: input.into(),
            resources: Arc::clone(resources),
            archives: archives.into_iter().collect(),
            watch: Watch::default(),
            since: Instant::now(),
        }
    }

    /// Adds a check whether these contents can still be read; see
    /// [`Input::witnesses`](crate::source::Input::witnesses).
    #[must_use]
    pub fn watching(mut self, contents: impl IntoIterator<Item = Arc<dyn Content>>) -> Self {
        self.watch.add(contents);
        self
    }

    fn now(&self) -> StatusText<'_> {
        let resources = &self.resources;
        let making = self.archives.iter().filter_map(|(name, archive)| {
            let done = archive.progress()?;
            Some(UnfinishedArchive { archive: name, done, total: archive.original_size() })
        });
        let listed = resources.counters.requests.listed().into_iter();
        let waiting = listed.filter(|(_, waited)| *waited >= LONG).map(|(kind, waited)| WaitingRequest {
            kind: kind.into_str(),
            milliseconds: u64::try_from(waited.as_millis()).unwrap_or(u64::MAX),
        });
        StatusText {
            json_version: JSON_VERSION,
            version: env!("CARGO_PKG_VERSION"),
            input: &self.input,
            changed: self.watch.changed(),
            uptime_seconds: self.since.elapsed().as_secs_f64(),
            transport: resources.transport.get(),
            confinement: confine::state(),
            waiting: waiting.collect(),
            counters: &resources.counters,
            gauges: StatusGauges {
                requests_waiting: resources.counters.requests.waiting(),
                threads: resources.executor.threads(),
            },
            memory: resources.budget.gauges(),
            making: making.collect(),
        }
    }
}

impl LiveReport for Status {
    fn text(&self) -> String {
        fitted(self.now())
    }

    fn size(&self) -> u64 {
        SIZE as u64
    }
}

/// `metrics`: the same numbers for monitoring, also in a fixed size.
#[derive(Debug)]
pub struct Metrics(pub Arc<Resources>);

/// Follows the metrics. Its help text pads the file, since empty lines are not allowed.
const FILLER: &str = "# TYPE kpackfs_filler gauge\n# HELP kpackfs_filler Fills the file up.";
const END: &str = "\nkpackfs_filler 0\n# EOF\n";

impl LiveReport for Metrics {
    fn text(&self) -> String {
        let mut text = openmetrics(&self.0);
        text.truncate(text.rfind("# EOF").unwrap_or(text.len()));
        text
    }

    fn size(&self) -> u64 {
        SIZE as u64
    }

    fn bytes(&self) -> Vec<u8> {
        let text = self.text() + FILLER;
        let width = SIZE.saturating_sub(END.len());
        let mut text = format!("{text:width$}");
        text.truncate(width);
        (text + END).into_bytes()
    }
}

/// The text, without what does not fit: names may be long, numbers are not.
#[expect(clippy::expect_used, reason = "plain fields: there is nothing that could fail")]
fn fitted(mut text: StatusText<'_>) -> String {
    loop {
        let json = serde_json::to_string_pretty(&text).expect("plain fields");
        if json.len() < SIZE {
            return json;
        }
        if text.making.pop().is_none() {
            text.input = "";
            text.changed = text.changed.map(|_| String::new());
        }
    }
}

/// A text that does not change, such as `report.json`.
pub fn fixed(text: impl Into<Vec<u8>>) -> Body {
    let rope = Rope::new([Segment::literal(text.into())]);
    rope.map_or_else(|_| Body::Ready(Arc::new(Rope::default())), |rope| Body::Ready(Arc::new(rope)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_fill_their_file_and_end_as_they_have_to() {
        let resources = Resources::new(1 << 20);
        let text = String::from_utf8(Metrics(Arc::clone(&resources)).bytes()).unwrap();
        assert_eq!(text.len(), SIZE);
        assert!(text.ends_with("\n# EOF\n") && text.matches("# EOF").count() == 1, "{text}");
        assert!(text.lines().all(|line| !line.is_empty()), "{text}");
        // Room for the largest numbers.
        let numbers = text.lines().filter(|line| !line.starts_with('#')).count();
        assert!(text.trim_end().len() - text.matches("  ").count() * 2 + numbers * 20 < SIZE, "{}", text.len());
    }

    #[test]
    fn long_names_leave_room_for_the_numbers() {
        let resources = Resources::new(0);
        for length in [1, SIZE - 3000, SIZE] {
            let status = Status::new("\u{1}".repeat(length), &resources, []);
            let name = "x".repeat(length);
            let mut now = status.now();
            now.making = (0..10).map(|done| UnfinishedArchive { archive: &name, done, total: 10 }).collect();
            let text: serde_json::Value = serde_json::from_str(&fitted(now)).unwrap();
            assert_eq!(text["counters"]["bytes_read"], 0);
            assert_eq!(text["making"].as_array().unwrap().len(), if length == 1 { 10 } else { 0 });
            assert_eq!(text["input"] == "", length > 1);
            assert_eq!(status.bytes().len(), SIZE);
        }
    }
}
