//! Which entries remain when archives are left out, and where new archives can be.

use std::collections::{BTreeSet, HashMap};

use super::joined::Archives;
use crate::loader::{DOT_KPACK, archive_root};
use crate::source::{Entry, EntryKind, EntryPath};

/// Whether an archive is one of those that a marker names.
pub(super) fn is_of(path: &EntryPath, archives: &Archives) -> bool {
    archive_root(path).is_some_and(|root| root == archives.root)
        && path.name().strip_prefix(archives.stem.as_bytes()).is_some_and(|rest| rest.starts_with(b"_"))
}

/// The places of directories of archives where symlinks stay.
pub(super) fn blocked(
    entries: &[Entry],
    gone: &BTreeSet<EntryPath>,
    installed: impl Fn(&EntryPath) -> EntryPath,
) -> BTreeSet<EntryPath> {
    let stays = |entry: &&Entry| matches!(entry.kind, EntryKind::Symlink(_)) && !gone.contains(&entry.path);
    let places = entries.iter().filter(stays).map(|entry| installed(&entry.path));
    places.filter(|place| place.name() == DOT_KPACK.as_bytes()).collect()
}

/// Archives, directories that contain nothing else, and the symlinks to both. `links` has the symlinks to each path.
pub(super) fn without(
    entries: &[Entry],
    archives: &BTreeSet<EntryPath>,
    links: &HashMap<EntryPath, Vec<EntryPath>>,
) -> BTreeSet<EntryPath> {
    let mut children = HashMap::<EntryPath, usize>::new();
    for entry in entries {
        if let Some(parent) = entry.path.parent() {
            *children.entry(parent).or_default() += 1;
        }
    }
    let mut gone = BTreeSet::new();
    let mut next: Vec<_> = archives.iter().cloned().collect();
    while let Some(path) = next.pop() {
        if !gone.insert(path.clone()) {
            continue;
        }
        next.extend(links.get(&path).into_iter().flatten().cloned());
        let Some(parent) = path.parent().filter(|parent| !parent.is_root()) else { continue };
        if let Some(left) = children.get_mut(&parent) {
            *left -= 1;
            next.extend((*left == 0).then_some(parent));
        }
    }
    gone
}
