//! The files of a wheel as its RECORD lists them, for the ID of the wheel's split.

use serde::{Deserialize, Serialize};

use crate::source::{Entry, EntryPath, Input};
use crate::split::FieldSum;
use crate::wheel::{Claims, Stated, installed, is_elsewhere, is_of_installer};

/// The files of a wheel. A wheel, the wheel unpacked, and an installation of it have the same: paths are those of an
/// installation, and files that an installer adds or puts elsewhere do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ListedFiles {
    /// A SHA-256 over the path, the digest and the size of each file.
    pub(crate) sum: [u8; 32],
    /// Whether RECORD states the digests of all of them. There are wheels whose RECORD has sizes only.
    pub(crate) has_digests: bool,
}

impl ListedFiles {
    /// The files that a RECORD of `input` lists.
    pub(crate) fn of(claims: &Claims, input: &Input) -> Self {
        let root = EntryPath::root();
        let dist_info = input.dist_info().unwrap_or(&root);
        let own = claims.rows().filter_map(|(path, stated)| {
            // A path above the packages is no path of a wheel.
            let written = EntryPath::new(path).ok()?;
            let place = installed(&written);
            (!is_elsewhere(&place) && !is_of_installer(dist_info, &place)).then_some((place, written, stated))
        });
        let mut rows: Vec<_> = own.collect();
        rows.sort_by(|one, other| one.0.cmp(&other.0));
        let has_digests = rows.iter().all(|(.., stated)| *stated != Stated::Nothing);
        let mut sum = FieldSum::default();
        for (place, written, stated) in rows {
            sum.add("file").add(place.as_bytes());
            match stated.claim().filter(|_| has_digests) {
                Some(claim) => drop(sum.add(claim.sha256).number(claim.size)),
                None => drop(sum.add("").number(input.entry(&written).map_or(0, Entry::size))),
            }
        }
        Self { sum: sum.finish(), has_digests }
    }
}
