//! An open bundle, from which code objects can be read.

use std::sync::Arc;

use super::{CodeObject, Compressed, Pinned};
use crate::memory::{OpenStream, Pooled};
use crate::rope::{ReadError, in_pieces, read_all};

/// The source of a code object's bytes.
#[derive(Default)]
pub(crate) enum OpenBundle {
    /// The bundle, decompressed in memory as far as it was asked for.
    InMemory(Pinned),
    /// A stream of it; `None` while it is being read.
    Stream(Option<Pooled<OpenStream>>),
    /// There is no compressed bundle.
    #[default]
    None,
}

impl OpenBundle {
    /// Opens a bundle, so that it is decompressed once for all code objects that are read in their order. Waits for
    /// memory: the caller must hold no other bundle, and no memory of other classes.
    pub(crate) fn of(bundle: Option<&Arc<Compressed>>) -> Result<Self, ReadError> {
        Ok(match bundle {
            None => Self::None,
            Some(bundle) if bundle.is_decompressed_in_memory() => Self::InMemory(bundle.pin_whole()?.into()),
            Some(bundle) => Self::Stream(Some(bundle.stream())),
        })
    }

    /// Whether the bytes before `end` can be read. Of a bundle that is decompressed in memory, there may be only the
    /// beginning.
    pub(crate) fn reaches(&self, end: u64) -> bool {
        match self {
            Self::InMemory(held) => end <= held.len() as u64,
            Self::Stream(_) | Self::None => true,
        }
    }

    /// Whether more of it can be decompressed in memory without starting again.
    pub(crate) fn can_be_extended(&self) -> bool {
        matches!(self, Self::InMemory(held) if held.can_be_extended())
    }

    /// Whether decompressing it in memory has failed.
    pub(crate) fn is_failed(&self) -> bool {
        matches!(self, Self::InMemory(held) if held.is_failed())
    }

    /// Why the bytes before `end` cannot be read, if that is known.
    pub(crate) fn error_before(&self, end: u64) -> Option<&ReadError> {
        match self {
            Self::InMemory(held) => held.error_before(end),
            Self::Stream(_) | Self::None => None,
        }
    }

    /// Passes the bytes of a code object of this bundle in pieces, from beginning to end.
    pub(crate) fn read(&mut self, object: &CodeObject, mut take: impl FnMut(&[u8])) -> Result<(), ReadError> {
        let (Self::Stream(Some(stream)), Some(bundle)) = (self, &object.bundle) else {
            return read_all(&*object.content, take);
        };
        bundle.seek(stream, object.offset)?;
        let pass = |piece: &[u8]| {
            take(piece);
            Ok(())
        };
        in_pieces(object.content.size(), |piece| bundle.read_stream(stream, piece), pass)
    }
}
