//! Directories outside of an installation, to which its symlinks lead: a package or a `.kpack` directory on another disk,
//! or in the store of a package manager. They belong to the installation as if they were in it.

use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::slice;
use std::sync::Arc;

use super::installed::has_distributions;
use crate::loader::{DOT_KPACK, is_archive_link, resolve};
use crate::resources::Resources;
use crate::source::{Entry, EntryKind, EntryPath, Input, SourceError};

/// Symlinks to directories outside of an input, each with the real path of its directory.
#[derive(Clone, Debug, Default)]
pub(super) struct LinkedDirectories(Vec<(EntryPath, PathBuf)>);

impl LinkedDirectories {
    /// Replaces symlinks by the directories outside of the input to which they lead: those called `.kpack`, and in an
    /// installation those of packages.
    pub(super) fn follow(input: &mut Input, resources: &Arc<Resources>) -> Result<Self, SourceError> {
        let real = input.location.canonicalize().unwrap_or_else(|_| input.location.clone());
        Self::follow_below(input, &[real], resources)
    }

    /// The same for a directory that is in `above`, with those that were followed to it. A symlink to one of these would
    /// lead here again without end.
    fn follow_below(input: &mut Input, above: &[PathBuf], resources: &Arc<Resources>) -> Result<Self, SourceError> {
        let is_installation = has_distributions(input);
        let is_named = |link: &EntryPath| link.name() == DOT_KPACK.as_bytes() || is_installation && link.depth() == 1;
        let is_followed = |place: &PathBuf| place.is_dir() && !above.contains(place);
        let found = input.links_out(is_named).filter(|(_, place)| is_followed(place));
        let mut links = Self(found.map(|(link, place)| (link.clone(), place)).collect());
        if links.0.is_empty() {
            return Ok(links);
        }
        let mut below_links = Vec::new();
        for (link, place) in &links.0 {
            let mut target = Input::open(place, resources)?;
            // In a package elsewhere, `.kpack` may be a symlink again. In that directory there is no other one.
            if link.name() != DOT_KPACK.as_bytes() {
                let above = [above, slice::from_ref(place)].concat();
                let further = Self::follow_below(&mut target, &above, resources)?.0.into_iter();
                below_links.extend(further.map(|(below, place)| (link.child(below.as_bytes()), place)));
            }
            input.entries.retain(|entry| entry.path != *link);
            let directory = Entry { path: link.clone(), kind: EntryKind::Directory, attributes: target.root };
            let below =
                target.entries.into_iter().map(|entry| Entry { path: link.child(entry.path.as_bytes()), ..entry });
            input.entries.extend(std::iter::once(directory).chain(below));
        }
        links.0.append(&mut below_links);
        input.entries.sort_by(|one, other| one.path.cmp(&other.path));
        input.recognise();
        Ok(links)
    }

    /// The path to which `relative` leads from `directory`, as [`resolve`]. A loader resolves symlinks first, so that a
    /// path above a linked directory leads to what is around that directory outside of the input.
    pub(super) fn resolve(&self, directory: &EntryPath, relative: &str) -> Option<EntryPath> {
        let found = resolve(directory, relative);
        let Some((link, place)) = self.0.iter().find(|(link, _)| directory.below(link).is_some()) else { return found };
        if found.as_ref().is_some_and(|found| found.below(link).is_some()) {
            return found;
        }
        let real = normal(&place.join(directory.below(link)?.as_path()).join(relative));
        self.0.iter().find_map(|(link, place)| {
            let below = real.strip_prefix(place).ok()?;
            EntryPath::new(below.as_os_str().as_bytes()).ok().map(|below| link.child(below.as_bytes()))
        })
    }
}

/// A path without `..`, by its text alone. It begins with a resolved directory, and what was joined to that has no `..`
/// behind a symlink: markers of splits, and rows that installers write to RECORD, have each `..` at their beginning.
pub(super) fn normal(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut path, component| {
        match component {
            Component::ParentDir => drop(path.pop()),
            _ => path.push(component),
        }
        path
    })
}

/// Symlinks to archives of an installation that lead to nothing. Loaders pass over such links, and other trees may contain
/// them.
pub(super) fn dangling(input: &Input) -> Vec<EntryPath> {
    if !has_distributions(input) {
        return Vec::new();
    }
    let links = input.entries.iter().filter(|entry| is_archive_link(entry)).map(|entry| &entry.path);
    links.filter(|path| !input.leads(path)).cloned().collect()
}
