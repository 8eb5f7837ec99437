//! Requests of the kernel: how they travel, how many of each kind there were, and the time of the longest one.

use std::cmp::Reverse;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use strum::{EnumCount, IntoStaticStr, VariantArray};

use super::counter::Counter;

/// How requests of a mount travel, and why.
#[derive(Clone, Debug, Serialize)]
pub struct TransportState {
    /// `uring` or `dev-fuse`.
    pub kind: &'static str,
    /// Why they do not travel through rings, unless that was asked for.
    pub reason: Option<String>,
}

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumCount, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "lowercase", const_into_str)]
#[repr(u8)]
pub enum RequestKind {
    /// A name in a directory.
    Lookup,
    /// Size, permissions and times.
    Getattr,
    /// The text of a symlink.
    Readlink,
    /// Opening a file.
    Open,
    /// Bytes of a file.
    Read,
    /// The last close of an opened file.
    Release,
    /// Names in a directory.
    Readdir,
    /// Names in a directory with attributes.
    Readdirplus,
    /// The value of an extended attribute.
    Getxattr,
    /// The names of extended attributes.
    Listxattr,
    /// Size of the filesystem.
    Statfs,
    /// Any change of the file system, which is refused.
    Change,
    /// Requests that are not served; the kernel falls back to its own behaviour.
    Other,
}

/// Upper bounds of the histogram of answer times, in seconds. A last bucket counts longer ones.
pub(super) const BUCKETS: [f64; 6] = [0.0001, 0.001, 0.01, 0.1, 1.0, 10.0];

/// The most requests that are listed while they wait.
const LISTED: usize = 8;

/// Request counters. They take no lock.
#[derive(Debug, Default)]
pub struct Requests {
    kinds: [Counter; RequestKind::COUNT],
    /// The longest request: microseconds in the upper 56 bits, its kind in the lowest byte. One atomic holds both, so
    /// that they change together.
    longest: AtomicU64,
    waiting: AtomicU64,
    /// Requests that wait: when they arrived, in milliseconds after `since`, in the upper 56 bits, and one more than their kind in
    /// the lowest byte; 0 for a free place.
    listed: [AtomicU64; LISTED],
    since: OnceLock<Instant>,
    /// Answers by the bounds of [`BUCKETS`].
    times: [Counter; BUCKETS.len() + 1],
    /// Sum of all answer times in microseconds.
    microseconds: Counter,
}

/// A request that has arrived.
#[derive(Clone, Copy, Debug)]
pub struct StartedRequest {
    kind: RequestKind,
    at: Instant,
    waits: bool,
    /// Its place among those that are listed while they wait.
    place: Option<usize>,
}

/// A request that is being answered. Drop it when the answer has been given.
#[derive(Debug)]
pub struct Answering<'a> {
    requests: &'a Requests,
    started: StartedRequest,
}

impl Requests {
    /// Counts a request.
    pub fn begin(&self, kind: RequestKind) -> StartedRequest {
        if let Some(counter) = self.kinds.get(kind as usize) {
            counter.add(1);
        }
        StartedRequest { kind, at: Instant::now(), waits: false, place: None }
    }

    /// Counts a request as waiting, because a worker will answer it.
    pub fn hand_over(&self, started: StartedRequest) -> StartedRequest {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let arrived = self.milliseconds(started.at) << 8 | (started.kind as u64 + 1);
        let take = |place: &AtomicU64| place.compare_exchange(0, arrived, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        StartedRequest { waits: true, place: self.listed.iter().position(take), ..started }
    }

    /// Some of the requests that wait, and for how long, those that wait longest first.
    pub(crate) fn listed(&self) -> Vec<(RequestKind, Duration)> {
        let now = self.milliseconds(Instant::now());
        let of = |packed: u64| {
            let kind = usize::try_from(packed & 0xff).ok()?.checked_sub(1)?;
            let waited = Duration::from_millis(now.saturating_sub(packed >> 8));
            Some((*RequestKind::VARIANTS.get(kind)?, waited))
        };
        let mut listed: Vec<_> = self.listed.iter().filter_map(|place| of(place.load(Ordering::Relaxed))).collect();
        listed.sort_by_key(|(_, waited)| Reverse(*waited));
        listed
    }

    fn milliseconds(&self, at: Instant) -> u64 {
        let since = *self.since.get_or_init(|| at);
        u64::try_from(at.saturating_duration_since(since).as_millis()).unwrap_or(0)
    }

    /// Measures time until the result is dropped.
    pub fn answer(&self, started: StartedRequest) -> Answering<'_> {
        Answering { requests: self, started }
    }

    /// Requests so far.
    pub fn get(&self) -> u64 {
        self.kinds.iter().map(Counter::get).sum()
    }

    /// Requests of a kind so far.
    pub fn of(&self, kind: RequestKind) -> u64 {
        self.kinds.get(kind as usize).map_or(0, Counter::get)
    }

    /// Names of kinds, with their numbers of requests.
    pub(super) fn by_kind(&self) -> impl Iterator<Item = (&'static str, u64)> {
        RequestKind::VARIANTS.iter().map(|&kind| (kind.into_str(), self.of(kind)))
    }

    /// The answers by the bounds of [`BUCKETS`], and the sum of all times in seconds.
    pub(super) fn times(&self) -> ([u64; BUCKETS.len() + 1], f64) {
        (self.times.each_ref().map(Counter::get), Duration::from_micros(self.microseconds.get()).as_secs_f64())
    }

    /// Requests that wait for a worker, or are being answered by one.
    pub fn waiting(&self) -> u64 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// The request that took longest.
    pub fn longest(&self) -> Option<(RequestKind, Duration)> {
        let packed = self.longest.load(Ordering::Relaxed);
        let kind = usize::try_from(packed & 0xff).ok().and_then(|kind| RequestKind::VARIANTS.get(kind));
        kind.filter(|_| packed != 0).map(|&kind| (kind, Duration::from_micros(packed >> 8)))
    }
}

impl Drop for Answering<'_> {
    fn drop(&mut self) {
        let elapsed = self.started.at.elapsed();
        let microseconds = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX >> 8);
        let bucket = BUCKETS.partition_point(|&bound| bound < elapsed.as_secs_f64());
        if let Some(counter) = self.requests.times.get(bucket) {
            counter.add(1);
        }
        self.requests.microseconds.add(microseconds);
        let packed = microseconds << 8 | self.started.kind as u64;
        // Most requests are not the longest; then nothing is written.
        if packed > self.requests.longest.load(Ordering::Relaxed) {
            self.requests.longest.fetch_max(packed, Ordering::Relaxed);
        }
        if let Some(place) = self.started.place.and_then(|place| self.requests.listed.get(place)) {
            place.store(0, Ordering::Relaxed);
        }
        if self.started.waits {
            self.requests.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Counts by kind.
struct ByKind<'a>(&'a Requests);

impl Serialize for ByKind<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.by_kind())
    }
}

impl Serialize for Requests {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (kind, time) = self.longest().map_or(("", Duration::ZERO), |(kind, time)| (kind.into_str(), time));
        let mut fields = serializer.serialize_struct("Requests", 4)?;
        fields.serialize_field("requests", &self.get())?;
        fields.serialize_field("requests_by_kind", &ByKind(self))?;
        fields.serialize_field("longest_request", kind)?;
        fields.serialize_field("longest_request_microseconds", &time.as_micros())?;
        fields.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_stands_in_its_place() {
        let requests = Requests::default();
        for (number, &kind) in RequestKind::VARIANTS.iter().enumerate() {
            assert_eq!(kind as usize, number);
            requests.begin(kind);
        }
        assert!(requests.by_kind().all(|(_, count)| count == 1));
        assert_eq!(requests.get(), RequestKind::COUNT as u64);
    }

    #[test]
    fn the_longest_request_is_kept_with_its_kind() {
        let requests = Requests::default();
        assert_eq!(requests.longest(), None);
        let ago = |kind, milliseconds| {
            let at = Instant::now().checked_sub(Duration::from_millis(milliseconds)).unwrap();
            drop(requests.answer(StartedRequest { at, ..requests.begin(kind) }));
        };
        // Longer than a busy machine may take for the other one.
        ago(RequestKind::Read, 300_000);
        ago(RequestKind::Lookup, 20);
        let (kind, time) = requests.longest().unwrap();
        assert_eq!(kind, RequestKind::Read);
        assert!((300..3_000).contains(&time.as_secs()), "{time:?}");
    }

    #[test]
    fn who_was_handed_over_waits_until_it_is_answered() {
        let requests = Requests::default();
        let started = requests.hand_over(requests.begin(RequestKind::Read));
        let lookup = requests.hand_over(requests.begin(RequestKind::Lookup));
        assert_eq!((requests.waiting(), requests.listed().len(), requests.listed()[0].0), (2, 2, RequestKind::Read));
        drop(requests.answer(started));
        assert_eq!((requests.waiting(), requests.listed().len()), (1, 1));
        drop(requests.answer(lookup));
        assert_eq!((requests.waiting(), requests.listed().len()), (0, 0));
    }
}
