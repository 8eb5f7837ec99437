//! Installed paths of files: wheels and artifacts have some of them at other paths.

use std::collections::btree_map::Entry as Slot;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use crate::resources::Resources;
use crate::rope::{Content, ReadError, check_range};
use crate::source::{Entry, EntryKind, EntryPath, Input, InputKind, SourceError, open_file};
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

/// Where entries were before they were installed.
#[derive(Debug, Default)]
pub(super) struct Origins {
    /// The original paths of moved entries, by installed path.
    pub(super) moved: HashMap<EntryPath, EntryPath>,
    /// The original paths of entries that are left out, since another one was installed at the same place, with its path.
    pub(super) conflicts: Vec<(EntryPath, EntryPath)>,
}

/// Moves all entries to their installed paths.
pub(super) fn install(input: &mut Input, installed: impl Fn(&EntryPath) -> Option<EntryPath>) -> Origins {
    let mut entries = BTreeMap::<EntryPath, Entry>::new();
    let mut origins = Origins::default();
    for entry in std::mem::take(&mut input.entries) {
        let Some(place) = installed(&entry.path) else { continue };
        match entries.entry(place.clone()) {
            Slot::Vacant(slot) => {
                if place != entry.path {
                    origins.moved.insert(place.clone(), entry.path.clone());
                }
                slot.insert(Entry { path: place, ..entry });
            }
            Slot::Occupied(existing) => {
                if !matches!(existing.get().kind.difference(&entry.kind), Ok(None)) {
                    let other = origins.moved.get(&place).unwrap_or(&place).clone();
                    origins.conflicts.push((entry.path, other));
                }
            }
        }
    }
    input.entries = entries.into_values().collect();
    origins
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
    for entry in &mut input.entries {
        let EntryKind::Symlink(target) = &entry.kind else { continue };
        let place = input.location.join(entry.path.as_path());
        if !target.starts_with(b"/") {
            continue;
        }
        if let Ok(content) = open_file(&place, resources) {
            let content = Arc::new(Linked { place, size: content.size(), resources: Arc::clone(resources) });
            entry.kind = EntryKind::File { content, link_group: None };
        }
    }
}

/// The target of a symlink. An installation may have more of them than the limit on open files, so each is opened when
/// it is read.
#[derive(Debug)]
struct Linked {
    place: PathBuf,
    size: u64,
    resources: Arc<Resources>,
}

impl Content for Linked {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        check_range(offset, buffer.len(), self.size)?;
        let failed = |error: SourceError| ReadError::damaged(&self.place.to_string_lossy().into(), error.to_string());
        let content = open_file(&self.place, &self.resources).map_err(failed)?;
        if content.size() != self.size {
            return Err(ReadError::Changed { entry: self.place.to_string_lossy().into() });
        }
        content.read_at(offset, buffer)
    }

    fn is_nonblocking(&self, _: u64, _: usize) -> bool {
        false
    }
}
