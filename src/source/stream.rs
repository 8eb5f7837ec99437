//! A deflate stream of the input.

use super::path::EntryPath;
use super::stamp::Label;
use crate::resources::Resources;
use crate::rope::{Content, Identity, ReadError};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, Ordering};

/// A deflate stream and what the zip file claims about it.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    /// The member, for messages.
    pub(super) entry: EntryPath,
    /// The compressed bytes.
    pub(super) packed: Arc<dyn Content>,
    /// Its inflated size in bytes, as claimed.
    pub(super) size: u64,
    /// The CRC-32 of the inflated content, as claimed.
    pub(super) crc32: u32,
    /// The member's identity.
    pub(super) identity: Identity,
    /// Whether a pass over all of a member computes its SHA-256. All members of a zip file share it; `None` of a gzip file, since
    /// nobody asks for the SHA-256 of its streams.
    pub(super) hashes: Option<Arc<AtomicBool>>,
    /// Caches and counters.
    pub(super) resources: Arc<Resources>,
}

impl Stream {
    /// Whether a pass over all of it computes its SHA-256.
    pub(super) fn is_hashed(&self) -> bool {
        self.hashes.as_ref().is_some_and(|hashes| hashes.load(Ordering::Relaxed))
    }

    pub(super) fn damaged(&self, reason: impl Into<Arc<str>>) -> ReadError {
        ReadError::damaged(&self.entry.label(), reason)
    }
}
