//! Damage of streams: how much of a stream can be read, and the error of the rest.
//!
//! Damage that a decoder meets has a *place*: everything before it can be read, in any order and by any reader. The place is
//! the offset of the first byte that cannot be decoded. It depends on the stream alone.
//!
//! A wrong checksum or size has no place. A pass over the whole stream finds it. From then on nothing of the stream can
//! be read, in this session and, if there is an index, in later ones.

use super::path::EntryPath;
use super::stamp::Label;
use super::stream::Stream;
use crate::index::RecordKind;
use crate::resources::Resources;
use crate::rope::{Content, Identity, ReadError, check_range};

/// What is wrong with a stream.
#[derive(Clone, Debug)]
pub(super) struct StreamDamage {
    /// The content up to this offset can be read.
    pub(super) readable: u64,
    /// Why the rest cannot be read.
    pub(super) error: ReadError,
}

impl StreamDamage {
    /// Fails unless the content up to `end` can be read.
    pub(super) fn check(&self, end: u64) -> Result<(), ReadError> {
        if end <= self.readable { Ok(()) } else { Err(self.error.clone()) }
    }
}

/// Why decoding ended early.
#[derive(Clone, Debug)]
pub(super) struct DecodeError {
    pub(super) error: ReadError,
    pub(super) extent: DamageExtent,
}

/// How much of a stream an error concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DamageExtent {
    /// Everything from this offset of the content on.
    From(u64),
    /// The whole stream, since a checksum or a size is wrong.
    Whole,
    /// The compressed bytes cannot be read.
    Input,
}

impl From<ReadError> for DecodeError {
    fn from(error: ReadError) -> Self {
        Self { error, extent: DamageExtent::Input }
    }
}

impl DecodeError {
    pub(super) fn from_here(stream: &Stream, output: u64, reason: &str) -> Self {
        let error = stream.damaged(format!("{reason}, at byte {output} of the content"));
        Self { error, extent: DamageExtent::From(output) }
    }

    pub(super) fn whole(stream: &Stream, reason: impl Into<std::sync::Arc<str>>) -> Self {
        Self { error: stream.damaged(reason), extent: DamageExtent::Whole }
    }
}

/// The damage without a place that an earlier session has found in a stream.
pub(super) fn known(resources: &Resources, identity: &Identity, entry: &EntryPath) -> Result<(), ReadError> {
    let reason: Option<String> = resources.index.get(RecordKind::Damage, identity);
    reason.map_or(Ok(()), |reason| Err(ReadError::damaged(&entry.label(), reason)))
}

/// Has later sessions know damage without a place.
pub(super) fn remember(resources: &Resources, identity: &Identity, error: &ReadError) {
    if let ReadError::Damaged { reason, .. } = error {
        resources.index.put(RecordKind::Damage, identity, &&**reason);
    }
}

/// A content whose reads all fail: a member that cannot be read, or the stored bytes of a damaged one.
#[derive(Debug)]
pub(super) struct UnreadableContent {
    pub(super) size: u64,
    pub(super) error: ReadError,
}

impl Content for UnreadableContent {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        check_range(offset, buffer.len(), self.size)?;
        self.check()
    }

    fn check(&self) -> Result<(), ReadError> {
        Err(self.error.clone())
    }
}

#[cfg(test)]
#[path = "damage_tests.rs"]
mod tests;
