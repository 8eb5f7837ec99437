//! Damaged input: what a mount serves, and what commands say (docs/FAULTS.md).
//!
//! Damage with a place leaves what ends before it, for all orders and numbers of readers, with and without a cache, and
//! after a remount. Damage without a place is served until a pass over the whole content finds it. Commands that write
//! or check always find both.

#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod bundles;
#[path = "../common/mod.rs"]
mod common;
#[path = "../hostile/elf.rs"]
#[allow(dead_code, reason = "other fields are for the suite of hostile input")]
mod elf;
mod frames;
mod inputs;
mod members;
#[allow(dead_code, reason = "other suites use the rest")]
#[path = "../faults/mounts.rs"]
mod mounts;
#[path = "../hostile/plain_bundle.rs"]
mod plain_bundle;
mod sessions;
mod streams;
mod support;
