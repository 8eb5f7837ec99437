//! Data on disk between runs: the index of an input, the frame store, and the cache directory of both.
//!
//! All of it can be deleted at any time. Records are bytes under an identity. Only the rooms that store them know what
//! they mean.

mod cache_dir;
mod file;
mod frames;
mod pending;
mod persistent;
mod records;

pub use cache_dir::{CacheEntry, list, remove_orphans};
pub use frames::{FrameStore, FramesUsage, Location, frames_usage, remove_frames};
pub use persistent::Index;
pub use records::{RecordKind, RecordsError};
