//! A deflate stream of the input.

use super::path::EntryPath;
use super::stamp::Label;
use crate::resources::Resources;
use crate::rope::{Content, Identity, ReadError};
use crate::sync::Arc;
use crate::sync::atomic::AtomicBool;

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
    /// Whether the pass that builds an index computes the SHA-256 of the content. All members of an input share it.
    pub(super) hashes: Arc<AtomicBool>,
    /// Caches and counters.
    pub(super) resources: Arc<Resources>,
}

impl Stream {
    pub(super) fn damaged(&self, reason: impl Into<Arc<str>>) -> ReadError {
        ReadError::damaged(&self.entry.label(), reason)
    }
}
