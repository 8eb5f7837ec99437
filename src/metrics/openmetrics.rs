//! Metrics in the text form of OpenMetrics 1.0, as Prometheus and others collect them. The names are promised
//! (`docs/metrics.md`).

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use super::requests::BUCKETS;
use super::{Counters, Gauges};

/// Values at one moment.
pub trait MetricsSource: fmt::Debug + Send + Sync + 'static {
    /// Work done so far.
    fn counters(&self) -> &Counters;
    /// Memory in use.
    fn gauges(&self) -> Gauges;
    /// Worker threads.
    fn threads(&self) -> u64;
}

/// The text, without the line `# EOF` that ends it.
#[expect(clippy::expect_used, reason = "writing to a string does not fail")]
pub fn openmetrics(source: &Arc<impl MetricsSource>) -> String {
    let mut registry = Registry::with_prefix("kpackfs");
    registry.register_collector(Box::new(MetricsCollector(Arc::clone(source))));
    let mut text = String::new();
    text::encode_registry(&mut text, &registry).expect("a string");
    text
}

#[derive(Debug)]
struct MetricsCollector<S>(Arc<S>);

impl<S: MetricsSource> Collector for MetricsCollector<S> {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let counters = self.0.counters();
        for (name, help, unit, value) in totals(counters) {
            encoder
                .encode_descriptor(name, help, unit.as_ref(), MetricType::Counter)?
                .encode_counter::<NoLabelSet, _, f64>(&value, None)?;
        }
        self.encode_requests(&mut encoder)?;
        self.encode_gauges(&mut encoder)
    }
}

impl<S: MetricsSource> MetricsCollector<S> {
    fn encode_requests(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let requests = &self.0.counters().requests;
        let mut kinds = encoder.encode_descriptor("requests", "Requests of the kernel.", None, MetricType::Counter)?;
        for (kind, count) in requests.by_kind() {
            kinds.encode_family(&[("kind", kind)])?.encode_counter::<NoLabelSet, _, f64>(&count, None)?;
        }
        let (counts, sum) = requests.times();
        let buckets: Vec<_> = BUCKETS.into_iter().chain([f64::INFINITY]).zip(counts).collect();
        let help = "Time from a request to its answer.";
        encoder
            .encode_descriptor("request", help, Some(&Unit::Seconds), MetricType::Histogram)?
            .encode_histogram::<NoLabelSet>(sum, counts.iter().sum(), &buckets, None)
    }

    fn encode_gauges(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let (gauges, counters) = (self.0.gauges(), self.0.counters());
        let classes = [
            ("bundles", gauges.bundles),
            ("compression", gauges.compression),
            ("frames", gauges.frames),
            ("spans", gauges.spans),
            ("streams", gauges.streams),
            ("tables", gauges.tables),
        ];
        let mut memory =
            encoder.encode_descriptor("memory", "Memory in use.", Some(&Unit::Bytes), MetricType::Gauge)?;
        for (class, bytes) in classes {
            memory.encode_family(&[("class", class)])?.encode_gauge(&signed(bytes))?;
        }
        let others = [
            ("memory_capacity", "The budget for all of this memory.", Some(Unit::Bytes), gauges.capacity),
            (
                "read_wait_max",
                "Code compressed while one read waited, at most.",
                Some(Unit::Bytes),
                counters.read_wait_bytes_max.get(),
            ),
            ("requests_waiting", "Requests that worker threads have to answer.", None, counters.requests.waiting()),
            ("ring_entries", "Requests that io_uring has room for.", None, counters.ring_entries.get()),
            ("threads", "Worker threads.", None, self.0.threads()),
        ];
        for (name, help, unit, value) in others {
            encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?.encode_gauge(&signed(value))?;
        }
        Ok(())
    }
}

/// Counters of work: name, help, unit and value.
fn totals(counters: &Counters) -> [(&'static str, &'static str, Option<Unit>, u64); 14] {
    let bytes = || Some(Unit::Bytes);
    [
        ("input_read", "Read from the input.", bytes(), counters.bytes_read.get()),
        ("inflated", "Inflated from members of wheels.", bytes(), counters.bytes_inflated.get()),
        ("deflated", "Deflated for new wheels.", bytes(), counters.bytes_deflated.get()),
        ("decompressed", "Decompressed from offload bundles.", bytes(), counters.bytes_decompressed.get()),
        ("compressed", "Code objects that were compressed.", bytes(), counters.bytes_compressed.get()),
        ("hashed", "Content of which digests were computed.", bytes(), counters.bytes_hashed.get()),
        ("frames_made", "Compressed code objects that were made.", None, counters.frames_made.get()),
        ("cache_hits", "Pieces that were found in a cache.", None, counters.cache_hits.get()),
        ("files_pushed", "Files given to the kernel before it asked.", None, counters.files_given.get()),
        ("passthrough_opens", "Files opened for the kernel to read directly.", None, counters.passthrough_opens.get()),
        ("reads_at_once", "Reads answered on the session's thread.", None, counters.reads_prompt.get()),
        ("reads_by_workers", "Reads answered by worker threads.", None, counters.reads_by_workers.get()),
        ("ring_requests", "Requests that came through io_uring.", None, counters.ring_requests.get()),
        ("ring_replies", "Replies that went back through io_uring.", None, counters.ring_replies.get()),
    ]
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;
    use crate::metrics::RequestKind;

    #[derive(Debug, Default)]
    struct Nothing(Counters);

    impl MetricsSource for Nothing {
        fn counters(&self) -> &Counters {
            &self.0
        }

        fn gauges(&self) -> Gauges {
            Gauges { capacity: 7, ..Gauges::default() }
        }

        fn threads(&self) -> u64 {
            3
        }
    }

    fn text() -> String {
        let source = Nothing::default();
        source.0.bytes_read.add(5);
        let started = source.0.requests.begin(RequestKind::Read);
        drop(source.0.requests.answer(started));
        openmetrics(&Arc::new(source))
    }

    #[test]
    fn values_are_told() {
        let text = text();
        for line in [
            "# TYPE kpackfs_input_read_bytes counter",
            "# UNIT kpackfs_input_read_bytes bytes",
            "kpackfs_input_read_bytes_total 5",
            "kpackfs_requests_total{kind=\"read\"} 1",
            "kpackfs_request_seconds_count 1",
            "kpackfs_request_seconds_bucket{le=\"+Inf\"} 1",
            "kpackfs_memory_bytes{class=\"bundles\"} 0",
            "kpackfs_memory_capacity_bytes 7",
            "kpackfs_threads 3",
        ] {
            assert!(text.lines().any(|existing| existing == line), "{line}: {text}");
        }
    }

    #[test]
    fn the_document_names_exactly_what_there_is() {
        let document = fs::read_to_string("docs/metrics.md").unwrap();
        let documented: BTreeSet<_> =
            document.lines().filter_map(|line| line.strip_prefix("| `kpackfs_")?.split('`').next()).collect();
        let text = text();
        let existing: BTreeSet<_> =
            text.lines().filter_map(|line| line.strip_prefix("# TYPE kpackfs_")?.split(' ').next()).collect();
        assert_eq!(documented, existing);
    }
}
