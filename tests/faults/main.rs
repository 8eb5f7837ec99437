//! Faults of what a mount depends on: the input, the cache folder, limits, readers. Each read returns the right bytes
//! or an error in bounded time, and no effect outlasts the fault. `docs/FAULTS.md` has a row for each test.

#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

mod cache;
#[path = "../common/mod.rs"]
mod common;
mod hangs;
mod input;
mod limits;
mod memory;
mod mounts;
#[path = "../common/namespaces.rs"]
mod namespaces;
mod readers;
mod remount;
mod rings;
