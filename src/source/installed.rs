//! Entries at the paths where they are installed.

use std::collections::btree_map::Entry as Slot;
use std::collections::{BTreeMap, HashMap};

use super::entry::Entry;
use super::input::Input;
use super::path::EntryPath;

/// Where entries were before they were installed.
#[derive(Debug, Default)]
pub(crate) struct Origins {
    /// The original paths of moved entries, by installed path.
    pub(crate) moved: HashMap<EntryPath, EntryPath>,
    /// The original paths of entries that are left out, since another one was installed at the same place, with its path.
    pub(crate) conflicts: Vec<(EntryPath, EntryPath)>,
}

impl Input {
    /// Moves all entries to their installed paths.
    pub(crate) fn install(&mut self, installed: impl Fn(&EntryPath) -> Option<EntryPath>) -> Origins {
        let mut entries = BTreeMap::<EntryPath, Entry>::new();
        let mut origins = Origins::default();
        for entry in std::mem::take(&mut self.entries) {
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
        self.entries = entries.into_values().collect();
        origins
    }
}
