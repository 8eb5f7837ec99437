//! Container images as input and output. Layouts are made by `layout.rs`.

mod archives;
mod blobs;
mod forms;
mod hostile;
pub(crate) mod layout;
mod read;
mod report;
mod split;
pub(crate) mod unpacked;
mod write;
