//! Container images as input and output. Layouts are made by `layout.rs`.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "allowed in test functions only, not in their helpers"
)]

#[path = "../common/mod.rs"]
mod common;

mod archives;
mod blobs;
mod forms;
mod hostile;
mod layout;
mod read;
mod report;
mod split;
mod unpacked;
mod write;
