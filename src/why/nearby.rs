//! Archives in the directories that a runtime searches, whatever their names are.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use rocm_kpack::Marker;
use rocm_kpack::search::PLACEHOLDER;

use super::libraries::LibraryFile;
use crate::gpu::TargetId;
use crate::loader::DOT_KPACK;

/// The archives in the directories that a runtime searches.
#[derive(Default)]
pub(super) struct NearbyArchives {
    /// The targets in the names of those to which the marker leads, for any target.
    pub(super) targets: BTreeSet<TargetId>,
    /// Their paths.
    pub(super) paths: Vec<PathBuf>,
    /// The names of the others.
    pub(super) others: Vec<String>,
}

pub(super) fn nearby_archives(marker: &Marker, library: &LibraryFile) -> NearbyArchives {
    let mut found = NearbyArchives::default();
    let directory = library.path.parent().unwrap_or(Path::new(""));
    let mut seen = BTreeSet::new();
    for search_path in &marker.kpack_search_paths {
        let place = directory.join(search_path);
        let (Some(place), Some(pattern)) = (place.parent(), place.file_name().and_then(|name| name.to_str())) else {
            continue;
        };
        let listed = library.found_at(place).and_then(|place| fs::read_dir(place).ok());
        let entries = listed.into_iter().flatten().filter_map(Result::ok);
        // A dangling link is not an archive.
        let existing = entries.filter(|entry| library.found_at(&entry.path()).is_some_and(|it| it.exists()));
        for name in existing.filter_map(|it| it.file_name().into_string().ok()) {
            let target =
                pattern.split_once(PLACEHOLDER).and_then(|(start, end)| name.strip_prefix(start)?.strip_suffix(end));
            match target.and_then(|target| target.parse().ok()) {
                Some(target) => {
                    found.targets.insert(target);
                    found.paths.push(place.join(&name));
                }
                None if name.ends_with(DOT_KPACK) && seen.insert(name.clone()) => found.others.push(name),
                None => {}
            }
        }
    }
    found.others.sort();
    found
}
