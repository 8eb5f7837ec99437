//! Work counters: what was read, inflated, decompressed and compressed. Performance tests assert them. Also memory in use, by class, and how
//! requests of a mount travel.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Serialize, Serializer};

use super::Requests;

/// A number that threads add to.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `amount` and returns the previous value.
    pub fn add(&self, amount: u64) -> u64 {
        self.0.fetch_add(amount, Ordering::Relaxed)
    }

    /// Raises it to `value` if it is less.
    pub fn raise(&self, value: u64) {
        self.0.fetch_max(value, Ordering::Relaxed);
    }

    /// The value now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Serialize for Counter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.get())
    }
}

/// Work done since the input was opened. Units are bytes unless the name says otherwise.
#[derive(Debug, Default, Serialize)]
pub struct Counters {
    /// Read from the input.
    pub bytes_read: Counter,
    /// Made by inflating wheel members.
    pub bytes_inflated: Counter,
    /// Member bytes that were deflated again.
    pub bytes_deflated: Counter,
    /// Made by decompressing offload bundles.
    pub bytes_decompressed: Counter,
    /// Code object bytes that were compressed.
    pub bytes_compressed: Counter,
    /// Content bytes that were hashed.
    pub bytes_hashed: Counter,
    /// Number of zstd frames made.
    pub frames_made: Counter,
    /// Number of pieces found in a cache.
    pub cache_hits: Counter,
    /// The most code object bytes that were compressed while one read waited for a frame.
    pub read_wait_bytes_max: Counter,
    /// Number of small files pushed to the page cache before they were read.
    pub files_given: Counter,
    /// Number of times that a file was opened for passthrough, so that the kernel reads it without asking.
    pub passthrough_opens: Counter,
    /// Number of read requests answered on the session's thread.
    pub reads_prompt: Counter,
    /// Number of read requests answered by workers.
    pub reads_by_workers: Counter,
    /// Number of entries of rings. 0 if requests travel through `/dev/fuse`.
    pub ring_entries: Counter,
    /// Number of requests that came through rings.
    pub ring_requests: Counter,
    /// Number of entries that went back to the kernel, with a reply. The others of [`Counters::ring_requests`] are in use.
    pub ring_replies: Counter,
    /// Requests of the kernel.
    #[serde(flatten)]
    pub requests: Requests,
}

/// Classes of memory, in the order in which a thread may reserve them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryClass {
    /// Decompressed offload bundles, and compressed bundles while they are read.
    Bundles,
    /// Code objects that are being compressed, and compression contexts.
    Compression,
    /// The cache of compressed code objects.
    Frames,
    /// The cache of inflated pieces of members.
    Spans,
    /// Indexes of deflate streams, decoders, and headers of bundles captured while a member is first inflated.
    Streams,
}

/// Bytes in use now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Gauges {
    /// The budget.
    pub capacity: u64,
    /// See [`MemoryClass::Bundles`].
    pub bundles: u64,
    /// See [`MemoryClass::Compression`].
    pub compression: u64,
    /// See [`MemoryClass::Frames`].
    pub frames: u64,
    /// See [`MemoryClass::Spans`].
    pub spans: u64,
    /// See [`MemoryClass::Streams`].
    pub streams: u64,
    /// What parsers keep of the input: in addition to the budget, and at most half of it.
    pub tables: u64,
}

/// How requests of a mount travel, and why.
#[derive(Clone, Debug, Serialize)]
pub struct TransportState {
    /// `uring` or `dev-fuse`.
    pub kind: &'static str,
    /// Why they do not travel through rings, unless that was asked for.
    pub reason: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Gauges {
        /// All bytes in use.
        pub(crate) fn total(&self) -> u64 {
            self.buffers() + self.frames + self.spans + self.streams
        }

        /// Bytes in use for work. Zero when nothing has happened for a while.
        pub(crate) fn buffers(&self) -> u64 {
            self.bundles + self.compression
        }
    }
}
