//! The deflate stream of a rewritten member. Its length and CRC-32 are stored in the index.

use std::sync::Arc;

use crate::binary::Rewritten;
use crate::deflate::{Deflation, splice};
use crate::index::RecordKind;
use crate::resources::Resources;
use crate::rope::{Content, Identity, LazyContent, ReadError};

/// A deflate stream, and the CRC-32 of its content.
pub(super) type SplicedStream = (Arc<dyn Content>, u32);

/// The spliced deflate stream of `rewritten`; `None` if there is none. If its length is in the index, the first reader
/// makes it. `entry` names it in messages.
pub(super) fn spliced(
    entry: &str,
    rewritten: &Arc<Rewritten>,
    resources: &Arc<Resources>,
) -> Result<Option<SplicedStream>, ReadError> {
    let identity = rewritten.identity().map(|identity| Identity::describe("spliced").add(&identity.0).finish());
    let indexed: Option<Option<(u64, u32)>> = identity.and_then(|it| resources.index.get(RecordKind::Spliced, &it));
    if let Some(known) = indexed {
        let later = |(size, crc32)| -> SplicedStream {
            let (name, rewritten, resources) = (Arc::from(entry), Arc::clone(rewritten), Arc::clone(resources));
            let work = move || {
                let made = make(&name, &rewritten, &resources)?;
                let made = made.filter(|made: &Deflation| made.crc32 == crc32);
                made.map(|made| made.stream).ok_or(ReadError::Changed { entry: Arc::clone(&name) })
            };
            (Arc::new(LazyContent::new(entry, size, identity, work)), crc32)
        };
        return Ok(known.map(later));
    }
    let made = make(&entry.into(), rewritten, resources)?;
    if let Some(identity) = identity {
        let known = made.as_ref().map(|made| (made.stream.size(), made.crc32));
        resources.index.put(RecordKind::Spliced, &identity, &known);
    }
    Ok(made.map(|Deflation { stream, crc32, .. }| -> SplicedStream {
        (Arc::new(LazyContent::done(entry, identity, stream)), crc32)
    }))
}

fn make(entry: &Arc<str>, rewritten: &Rewritten, resources: &Resources) -> Result<Option<Deflation>, ReadError> {
    splice(rewritten.original(), rewritten.edits(), &resources.counters)
        .map_err(|error| ReadError::damaged(entry, error.to_string()))
}
