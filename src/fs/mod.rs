//! Serving a view through FUSE: `filesystem` answers requests, `adapter` translates them from and to the protocol.
//!
//! fuser speaks the protocol. Mounting and unmounting are implemented here: fuser 0.18 may unmount another filesystem
//! when its session ends, loses the subtype for root, and does not escape the source name.
//!
//! It does not know splits, wheels and archives: it serves the tree of a view.

mod adapter;
mod announce;
mod autosave;
mod buffers;
mod directory_readahead;
mod error;
mod failure;
mod filesystem;
mod limiter;
mod listing;
mod mount;
mod nodes;
mod passthrough;
pub mod signals;
mod sys;

pub use announce::ReadyFile;
pub use autosave::autosave;
pub use error::FsError;
pub use mount::{
    MountEntry, MountOptions, Mounted, ServeOptions, Served, Unmounter, enter_namespace, find_mount, list_all_mounts,
    list_mounts, mount, serve, umount,
};

/// The type of our mounts in `/proc/mounts` and `findmnt -t`.
pub const FILESYSTEM_TYPE: &str = "fuse.kpackfs";
