//! Installed paths of files: wheels and artifacts have some of them at other paths.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::resources::Resources;
use crate::source::{Attributes, Entry, EntryKind, EntryPath, Input, InputKind, in_root, open_one_of, root_of};
use crate::wheel;

/// The `*.data` directories of the wheels in a part. Installations have none, but their RECORDs and merged views may.
#[derive(Debug, Default)]
pub(super) struct DataDirectories(BTreeSet<Vec<u8>>);

impl DataDirectories {
    /// The data directories of all wheels that are unpacked here. For a wheel, all directories with such a name count,
    /// as in pip.
    pub(super) fn of(input: &Input) -> Self {
        let first = |entry: &Entry, end: &[u8]| {
            let name = entry.path.components().next()?;
            Some(name.strip_suffix(end)?.to_vec())
        };
        let own = input.entries.iter().filter_map(|entry| first(entry, b".dist-info"));
        let is_wheel = input.dist_info().is_some();
        let data = input.entries.iter().filter(|entry| is_wheel && entry.path.depth() > 1);
        let data = data.filter_map(|entry| first(entry, b".data"));
        Self(own.chain(data).map(|name| [&name, &b".data"[..]].concat()).collect())
    }

    /// The installed path of a file. `None` for the data directories themselves.
    pub(super) fn installed(&self, path: &EntryPath) -> Option<EntryPath> {
        if !self.0.contains(path.components().next().unwrap_or_default()) {
            return Some(path.clone());
        }
        Some(wheel::installed(path)).filter(|installed| path.depth() > 1 && !installed.is_root())
    }
}

/// Whether distributions are installed in a directory.
pub(super) fn has_distributions(input: &Input) -> bool {
    input.entries.iter().any(|entry| entry.path.is_dist_info())
}

/// Installers that save space install symlinks to their caches. They are treated as files.
pub(super) fn follow_links_to_caches(input: &mut Input, resources: &Arc<Resources>) {
    if !matches!(input.kind, InputKind::Tree) || !has_distributions(input) {
        return;
    }
    let files = Arc::default();
    for entry in &mut input.entries {
        let EntryKind::Symlink(target) = &entry.kind else { continue };
        if !target.starts_with(b"/") {
            continue;
        }
        let place = in_root(&input.location.join(entry.path.as_path()), root_of(&input.location));
        let Some(place) = place else { continue };
        if let (Ok(content), Ok(found)) = (open_one_of(&files, &place, resources), place.metadata()) {
            entry.kind = EntryKind::File { content, link_group: None };
            entry.attributes = Attributes::of(&found);
        }
    }
}
