//! Where files are once they are installed: wheels and artifacts keep some of them elsewhere.

use std::collections::btree_map::Entry as Slot;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use crate::resources::Resources;
use crate::rope::{Content, ReadError, check_range, equal};
use crate::source::{Entry, EntryKind, EntryPath, Input, InputKind, SourceError, open_file};

/// What is installed beside the packages, with the names of both schemes ("Binary distribution format", The .data
/// directory).
const PACKAGES: [&[u8]; 2] = [b"purelib", b"platlib"];
/// What is installed elsewhere.
const ELSEWHERE: [&[u8]; 3] = [b"data", b"headers", b"scripts"];
/// Stands for the places where those are. No distribution has an empty name.
const OUTSIDE: &[u8] = b".data";

/// The `*.data` directories of wheels in a part.
#[derive(Debug, Default)]
pub(super) struct DataDirectories {
    /// Their names.
    names: BTreeSet<Vec<u8>>,
    /// Whether these are a wheel's, so that what is in them will be installed elsewhere. In an installation that was done,
    /// and only RECORDs may still have the names.
    is_wheel: bool,
}

impl DataDirectories {
    /// Those of all wheels that are unpacked here. Of a wheel by itself it is every one that looks like it, as pip sees it.
    pub(super) fn of(input: &Input) -> Self {
        let first = |entry: &Entry, end: &[u8]| {
            let name = entry.path.components().next()?;
            Some(name.strip_suffix(end)?.to_vec())
        };
        let own: BTreeSet<_> = input.entries.iter().filter_map(|entry| first(entry, b".dist-info")).collect();
        let data = input.entries.iter().filter(|entry| entry.path.depth() > 1);
        let data = data.filter_map(|entry| first(entry, b".data"));
        let is_wheel = input.dist_info().is_some();
        let full = |name: Vec<u8>| [&name, &b".data"[..]].concat();
        let names = data.filter(|_| is_wheel).chain(own.iter().cloned()).map(full).collect();
        Self { names, is_wheel }
    }

    /// Where an entry is once it is installed. `None` for the directories themselves.
    pub(super) fn installed(&self, path: &EntryPath) -> Option<EntryPath> {
        if self.is_wheel { self.outside_of_data(path) } else { Some(path.clone()) }
    }

    /// Where what a RECORD names is.
    pub(super) fn outside_of_data(&self, path: &EntryPath) -> Option<EntryPath> {
        let mut components = path.components();
        let first = components.next().unwrap_or_default();
        if !self.names.contains(first) {
            return Some(path.clone());
        }
        let scheme = components.next()?;
        let rest = path.below(&EntryPath::root().child(first).child(scheme)).filter(|rest| !rest.is_root())?;
        if PACKAGES.contains(&scheme) {
            Some(rest)
        } else if ELSEWHERE.contains(&scheme) {
            Some(EntryPath::root().child(OUTSIDE).child(scheme).child(rest.as_bytes()))
        } else {
            Some(path.clone())
        }
    }
}

/// Whether a file is not installed beside the packages.
pub(super) fn is_outside(path: &EntryPath) -> bool {
    path.components().next() == Some(OUTSIDE)
}

/// Moves all entries to where they are installed, and tells which of them are in the way of each other. Gives where those
/// that moved were before.
pub(super) fn install(
    input: &mut Input,
    installed: impl Fn(&EntryPath) -> Option<EntryPath>,
    say: impl Fn(&EntryPath, String),
) -> HashMap<EntryPath, EntryPath> {
    let mut entries = BTreeMap::<EntryPath, Entry>::new();
    let mut origins = HashMap::new();
    for entry in std::mem::take(&mut input.entries) {
        let Some(place) = installed(&entry.path) else { continue };
        match entries.entry(place.clone()) {
            Slot::Vacant(slot) => {
                if place != entry.path {
                    origins.insert(place.clone(), entry.path.clone());
                }
                slot.insert(Entry { path: place, ..entry });
            }
            Slot::Occupied(there) => {
                if !is_same(&there.get().kind, &entry.kind) {
                    let other = origins.get(&place).unwrap_or(&place);
                    say(&entry.path, format!("{other} is installed at the same place"));
                }
            }
        }
    }
    input.entries = entries.into_values().collect();
    origins
}

/// Whether it does not matter which of two entries is installed.
fn is_same(first: &EntryKind, second: &EntryKind) -> bool {
    match (first, second) {
        (EntryKind::Directory, EntryKind::Directory) => true,
        (EntryKind::Symlink(first), EntryKind::Symlink(second)) => first == second,
        (EntryKind::File { content: first, .. }, EntryKind::File { content: second, .. }) => {
            equal(&**first, &**second).unwrap_or(false)
        }
        _ => false,
    }
}

/// Installers that save space install symlinks to their caches: these are files.
pub(super) fn follow_links_to_caches(input: &mut Input, resources: &Arc<Resources>) {
    let is_installation = matches!(input.kind, InputKind::Tree)
        && input.entries.iter().any(|entry| entry.path.depth() == 1 && entry.path.as_bytes().ends_with(b".dist-info"));
    if !is_installation {
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

/// The file that a symlink leads to. An installation may have more of them than a process may have files open, so each is
/// opened when it is read.
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

    fn is_prompt(&self, _: u64, _: usize) -> bool {
        false
    }
}
