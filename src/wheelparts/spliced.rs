//! The deflate stream of a rewritten member. Its length and CRC-32 are stored in the index.

use std::sync::Arc;

use crate::binary::Rewritten;
use crate::deflate::{DeflateLevel, Deflation, StreamDigests, describe, splice};
use crate::index::RecordKind;
use crate::resources::Resources;
use crate::rope::{Content, Identity, LazyContent, ReadError};

/// A deflate stream, and the digests of its content.
pub(crate) struct SplicedStream {
    pub(crate) bytes: Arc<dyn Content>,
    pub(crate) crc32: u32,
    /// Only if digests of all entries will be needed.
    pub(crate) sha256: Option<[u8; 32]>,
}

/// The spliced deflate stream of `rewritten`; `None` if there is none. What is new in it is
/// encoded with `level`. If its length is in the index, the first reader
/// makes it. `entry` names it in messages.
pub(crate) fn spliced(
    entry: &str,
    rewritten: &Arc<Rewritten>,
    level: DeflateLevel,
    resources: &Arc<Resources>,
) -> Result<Option<SplicedStream>, ReadError> {
    let identity = rewritten
        .identity()
        .map(|identity| Identity::describe("spliced").add(&identity.0).add(&describe(level)).finish());
    let indexed: Option<Option<(u64, u32)>> = identity.and_then(|it| resources.index.get(RecordKind::Spliced, &it));
    if let Some(known) = indexed {
        let later = |(size, crc32)| -> SplicedStream {
            let (name, rewritten, resources) = (Arc::from(entry), Arc::clone(rewritten), Arc::clone(resources));
            let work = move || {
                let made = make(&name, &rewritten, level, &resources, None)?;
                let made = made.filter(|made: &Deflation| made.crc32 == crc32);
                made.map(|made| made.stream).ok_or(ReadError::Changed { entry: Arc::clone(&name) })
            };
            SplicedStream { bytes: Arc::new(LazyContent::new(entry, size, identity, work)), crc32, sha256: None }
        };
        return Ok(known.map(later));
    }
    let sums = resources.policy.hash_spliced.then(StreamDigests::default);
    let made = make(&entry.into(), rewritten, level, resources, sums)?;
    if let Some(identity) = identity {
        let known = made.as_ref().map(|made| (made.stream.size(), made.crc32));
        resources.index.put(RecordKind::Spliced, &identity, &known);
    }
    Ok(made.map(|Deflation { stream, crc32, sha256, .. }| {
        let bytes: Arc<dyn Content> = Arc::new(LazyContent::done(entry, identity, stream));
        SplicedStream { bytes, crc32, sha256 }
    }))
}

/// The bytes of the stream from which that of `rewritten` is spliced.
pub(crate) fn packed_size(rewritten: &Rewritten) -> u64 {
    rewritten.original.member().map_or(0, |member| member.packed().bytes.size())
}

fn make(
    entry: &Arc<str>,
    rewritten: &Rewritten,
    level: DeflateLevel,
    resources: &Resources,
    sums: Option<StreamDigests>,
) -> Result<Option<Deflation>, ReadError> {
    splice(&rewritten.original, &rewritten.edits, level, sums, &resources.counters)
        .map_err(|error| ReadError::caused_by(entry, &error))
}
