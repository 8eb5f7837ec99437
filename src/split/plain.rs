//! Files without device code: most files of most inputs.
//!
//! Results of scanning are records of the index. These files share one record, since a record takes more memory than
//! everything else that is kept about a small file.

use serde_bytes::ByteBuf;

use crate::index::RecordKind;
use crate::resources::Resources;
use crate::rope::Identity;

/// Length of an identity.
const LENGTH: usize = 16;

/// The files without device code, according to an earlier session.
#[derive(Debug, Default)]
pub(super) struct PlainFiles {
    /// Their identities, sorted.
    known: ByteBuf,
}

impl PlainFiles {
    /// Loads the result of an earlier session.
    pub(super) fn get(resources: &Resources) -> Self {
        Self { known: resources.index.get(RecordKind::Plain, &place()).unwrap_or_default() }
    }

    pub(super) fn contains(&self, identity: &Identity) -> bool {
        let (identities, _) = self.known.as_chunks::<LENGTH>();
        identities.binary_search(&identity.0).is_ok()
    }

    /// Records that exactly these files of the input have no device code, unless that is the stored result.
    pub(super) fn note(&self, mut found: Vec<Identity>, resources: &Resources) {
        found.sort_unstable();
        found.dedup();
        let known = ByteBuf::from(found.iter().flat_map(|identity| identity.0).collect::<Vec<_>>());
        if known != self.known {
            resources.index.put(RecordKind::Plain, &place(), &known);
        }
    }
}

/// The key of the record. An index is about one input, so there is one record.
fn place() -> Identity {
    Identity::describe("files without device code").finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Index;

    #[test]
    fn all_files_without_device_code_are_one_record() {
        let place = tempfile::tempdir().unwrap();
        let input = place.path().join("x.whl");
        std::fs::write(&input, "input").unwrap();
        let identity = |number| Identity::describe("test").number(number).finish();
        let resources = Resources::with_index(0, Index::open(place.path(), &input));
        PlainFiles::get(&resources).note((0..1000).map(identity).collect(), &resources);
        resources.index.save().unwrap();
        let resources = Resources::with_index(0, Index::open(place.path(), &input));
        let plain = PlainFiles::get(&resources);
        assert!((0..1000).all(|number| plain.contains(&identity(number))) && !plain.contains(&identity(1000)));
        plain.note((0..1000).rev().map(identity).collect(), &resources);
        assert!(!resources.index.is_changed(), "nothing new");
    }
}
