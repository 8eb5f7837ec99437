//! Work counters: what was read, inflated, decompressed and compressed. Performance tests assert them.

use serde::Serialize;

use super::counter::Counter;
use super::requests::Requests;

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
