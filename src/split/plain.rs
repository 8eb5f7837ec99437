//! Files without device code: most files of most inputs.
//!
//! Results of scanning are records of the index. These files share one record, since a record takes more memory than
//! everything else that is kept about a small file.

use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde_bytes::ByteBuf;

use crate::index::RecordKind;
use crate::resources::Resources;
use crate::rope::Identity;

/// Length of an identity.
const LENGTH: usize = 16;

/// Placeholder for files that have or may have device code: no content has this identity.
const OTHER: [u8; LENGTH] = [0; LENGTH];

/// The files without device code, according to an earlier session.
#[derive(Debug, Default)]
pub(super) struct PlainFiles {
    /// Their identities in the order of the input, and [`OTHER`] for each file between them that was looked into.
    known: ByteBuf,
    /// The key of the record.
    place: Option<Identity>,
    /// How many files were asked for.
    at: usize,
    /// The identities once more, as soon as files are not asked for in the same order: the input has others than before.
    unordered: Option<HashSet<[u8; LENGTH]>>,
}

impl PlainFiles {
    /// Loads the result of an earlier session about the input at `location`.
    pub(super) fn get(location: &Path, resources: &Resources) -> Self {
        let place = place(location);
        let known = resources.index.get(RecordKind::Plain, &place).unwrap_or_default();
        Self { known, place: Some(place), ..Self::default() }
    }

    /// Whether the next file of the input is one of these.
    pub(super) fn is_next(&mut self, identity: Option<&Identity>) -> bool {
        let (identities, _) = self.known.as_chunks::<LENGTH>();
        let next = identities.get(self.at);
        self.at += 1;
        match (identity, next) {
            (Some(identity), Some(next)) if *next == identity.0 => true,
            (None, _) => false,
            // As long as the order is the same, this is the file that was looked into.
            (_, Some(&OTHER)) if self.unordered.is_none() => false,
            (Some(_), None) if identities.is_empty() => false,
            (Some(identity), _) => {
                let known = self.unordered.get_or_insert_with(|| identities.iter().copied().collect());
                known.contains(&identity.0)
            }
        }
    }

    /// Records which files of the input have no device code, unless that is the stored result: the identity of each, or
    /// `None` for any other, in the order in which they were looked up.
    pub(super) fn note(&self, found: &[Option<Identity>], resources: &Resources) {
        let known = found.iter().flat_map(|identity| identity.map_or(OTHER, |identity| identity.0));
        let known = ByteBuf::from(known.collect::<Vec<_>>());
        if let Some(place) = self.place.filter(|_| known != self.known) {
            resources.index.put(RecordKind::Plain, &place, &known);
        }
    }
}

/// The key of the record. An index may be about several wheels, each of which has a record.
fn place(location: &Path) -> Identity {
    Identity::describe("files without device code").add(location.as_os_str().as_bytes()).finish()
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
        // One of ten has device code.
        let files: Vec<_> = (0..1000).map(identity).collect();
        let plain = |at: usize| (at % 10 != 7).then(|| files[at]);
        let found: Vec<_> = (0..1000).map(plain).collect();
        let open = || Resources::with_index(0, Index::open(place.path(), &input));
        let resources = open();
        let mut known = PlainFiles::get(&input, &resources);
        assert!(files.iter().all(|file| !known.is_next(Some(file))), "nothing is known");
        known.note(&found, &resources);
        resources.index.save().unwrap();

        let resources = open();
        let mut known = PlainFiles::get(&input, &resources);
        assert!((0..1000).all(|at| known.is_next(Some(&files[at])) == plain(at).is_some()));
        assert!(known.unordered.is_none() && !known.is_next(Some(&identity(1000))));
        known.note(&found, &resources);
        assert!(!resources.index.is_changed(), "nothing new");
    }

    #[test]
    fn what_is_known_does_not_depend_on_the_order() {
        let identity = |number| Identity::describe("test").number(number).finish();
        let known = ByteBuf::from((0..10).flat_map(|number| identity(number).0).collect::<Vec<_>>());
        let known = || PlainFiles { known: known.clone(), ..PlainFiles::default() };
        // A file was removed, one was added, one has changed.
        let mut plain = known();
        assert!((0..4).chain(5..10).all(|number| plain.is_next(Some(&identity(number)))));
        let mut plain = known();
        assert!(!plain.is_next(Some(&identity(99))) && !plain.is_next(None));
        assert!((0..10).all(|number| plain.is_next(Some(&identity(number)))));
        let mut plain = known();
        let found = [0, 1, 98, 3, 4].map(|number| plain.is_next(Some(&identity(number))));
        assert_eq!(found, [true, true, false, true, true]);
        // A file was added before one that was looked into.
        let known = [identity(0).0, OTHER, identity(2).0].concat();
        let mut plain = PlainFiles { known: ByteBuf::from(known), ..PlainFiles::default() };
        assert_eq!([99, 0, 2, 1].map(|number| plain.is_next(Some(&identity(number)))), [false, true, true, false]);
    }
}
