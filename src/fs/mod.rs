//! Serving a view through FUSE: `filesystem` answers requests, `adapter` translates them from and to the protocol.
//! `uring` does the same for requests that travel through `io_uring`. `unmounted` answers without a mount.
//!
//! It does not know splits, wheels and archives: it serves the tree of a view.

mod adapter;
mod attributes;
mod buffers;
mod directory_readahead;
mod failure;
mod filesystem;
mod limiter;
mod listing;
mod nodes;
mod passthrough;
mod passthrough_choice;
mod unmounted;
mod uring;

pub(crate) use adapter::{Adapter, KernelPages};
pub(crate) use filesystem::Filesystem;
pub(crate) use nodes::{FileKind, NodeAttributes};
pub use passthrough_choice::PassthroughChoice;
pub(crate) use unmounted::{Unmounted, ViewedNode};
#[doc(hidden)]
pub use uring::{HEADER, Operation, RingError, RingRequest};
pub(crate) use uring::{Rings, check as check_rings};
