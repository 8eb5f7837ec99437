//! Tests the runtime library as its users use it: through C, with archives of every kind, from many threads.

#![allow(missing_docs, reason = "tests")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "not allowed in helpers of tests")]

mod allocations;
mod archives;
#[path = "../../../fuzz/bodies/runtime_archive.rs"]
mod body;
mod interface;
mod malformed;
mod parallel;
mod search;
