//! Serving a view through FUSE: `filesystem` answers requests, `adapter` translates them from and to the protocol.
//!
//! It does not know splits, wheels and archives: it serves the tree of a view.

mod adapter;
mod buffers;
mod directory_readahead;
mod failure;
mod filesystem;
mod limiter;
mod listing;
mod nodes;
mod passthrough;

pub(crate) use adapter::{Adapter, KernelPages};
pub(crate) use filesystem::Filesystem;
