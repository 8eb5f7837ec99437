//! Damaged input: what a mount serves, and what commands say. `docs/FAULTS.md` has a row for each kind of damage.

#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

#[path = "../common/mod.rs"]
mod common;
mod members;
#[allow(dead_code, reason = "other suites use the rest")]
#[path = "../faults/mounts.rs"]
mod mounts;
mod streams;
mod support;
