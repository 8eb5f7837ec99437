//! Mounts by kpackfs.

use std::path::{Path, PathBuf};

use crate::source::{DirectoryListing, SourceError};
use crate::split::{DEVICE, HOST, RESERVED};
use crate::view::REPORTS;

/// A mount of several wheels has the views of each in `DISTRIBUTION/VERSION/TAGS` (docs/views.md).
const DEPTH: usize = 3;

/// Whether a directory is a mount, or the views of one wheel in a mount of several. Copies have no reports, because these
/// are not listed.
pub(super) fn is_mount(path: &Path) -> bool {
    let has_status = |directory: &Path| directory.join(REPORTS).join("status.json").exists();
    let is_several = |directory: &Path| has_status(directory) && !directory.join(HOST).exists();
    let is_in_one = || path.canonicalize().is_ok_and(|real| real.ancestors().nth(DEPTH).is_some_and(is_several));
    has_status(path) || is_in_one()
}

/// Whether a directory shows nothing of its own, if all entries of a split or of a mount are named: the directory of the
/// statement, and that of links to the device parts.
pub fn shows_nothing_of_its_own(path: &Path) -> bool {
    let has_links_only =
        || DirectoryListing::read(path).is_ok_and(|listing| listing.entries.iter().all(|entry| entry.is_symlink));
    path.ends_with(REPORTS) || path.ends_with(DEVICE) && has_links_only()
}

/// The directories with the views of each wheel in a mount of several, with their names in it.
pub(super) fn splits_in(path: &Path) -> Result<Vec<(String, PathBuf)>, SourceError> {
    let mut found = vec![(String::new(), path.to_owned())];
    for depth in 0..DEPTH {
        let mut below = Vec::new();
        for (name, directory) in &found {
            let names = DirectoryListing::read_if_directory(directory)?.directory_names().into_iter();
            for child in names.filter(|child| depth > 0 || !RESERVED.contains(&child.as_str())) {
                let place = directory.join(&child);
                below.push((if name.is_empty() { child } else { format!("{name}/{child}") }, place));
            }
        }
        found = below;
    }
    Ok(found)
}
