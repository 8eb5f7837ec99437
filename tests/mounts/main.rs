//! Suites that mount, which `scripts/check-rings` repeats over `io_uring`. Each suite is a module.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "clippy allows them in test functions only"
)]

mod artifacts;
mod collect;
#[path = "../common/mod.rs"]
mod common;
mod faults;
mod fs;
mod json;
mod mount;
mod mounting;
mod reflink;
mod rough;
mod unmounted;
mod wheels_mount;
