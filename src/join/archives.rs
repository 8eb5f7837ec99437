//! The archives of an input. An archive is opened when a search path leads to it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::claims::ClaimedSizes;
use super::{Unasked, sets};
use crate::fatbin::StoredObject;
use crate::gpu::TargetId;
use crate::kpack::{ArchiveReader, TocEntry};
use crate::loader::{is_archive, linked_archives, named_target};
use crate::resources::Resources;
use crate::rope::{Content, ReadError};
use crate::source::{Entry, EntryKind, EntryPath, Input};

/// All archives.
pub(super) struct InputArchives {
    list: Vec<InputArchive>,
    /// Their numbers, by the path in an installation.
    numbers: HashMap<EntryPath, Vec<usize>>,
}

/// An archive.
pub(super) struct InputArchive {
    /// Its path in the input.
    pub(super) path: EntryPath,
    /// Its path in an installation.
    installed: EntryPath,
    pub(super) content: Arc<dyn Content>,
    reader: OnceLock<Result<ArchiveReader, String>>,
    /// Binaries that stay split and may need it.
    needed: Mutex<BTreeSet<EntryPath>>,
    /// The entries that wrappers ask for: name and target.
    asked: Mutex<HashSet<(String, String)>>,
    /// What was read of it: entries with the same bytes share one code object.
    stored: Mutex<HashMap<StoredPlace, StoredObject>>,
}

/// The location of a code object in an archive, its size in the table of contents, and whether it is compressed.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct StoredPlace {
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) size: u64,
    pub(super) is_compressed: bool,
}

impl InputArchives {
    pub(super) fn of(input: &Input, installed: impl Fn(&EntryPath) -> EntryPath) -> Self {
        let linked = linked_archives(input);
        let archive = |entry: &Entry| match &entry.kind {
            EntryKind::File { content, .. } if is_archive(&entry.path, content) || linked.contains(&entry.path) => {
                Some(InputArchive {
                    path: entry.path.clone(),
                    installed: installed(&entry.path),
                    content: Arc::clone(content),
                    reader: OnceLock::new(),
                    needed: Mutex::default(),
                    asked: Mutex::default(),
                    stored: Mutex::default(),
                })
            }
            _ => None,
        };
        let list: Vec<_> = input.entries.iter().filter_map(archive).collect();
        let mut numbers = HashMap::<_, Vec<_>>::new();
        for (number, archive) in list.iter().enumerate() {
            numbers.entry(archive.installed.clone()).or_default().push(number);
        }
        Self { list, numbers }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) fn get(&self, number: usize) -> Option<&InputArchive> {
        self.list.get(number)
    }

    /// The numbers of the archives at a path in an installation. A wheel may have a file twice.
    pub(super) fn at(&self, installed: &EntryPath) -> &[usize] {
        self.numbers.get(installed).map_or(&[], Vec::as_slice)
    }

    /// Whether a file of the input is an archive.
    pub(super) fn has(&self, path: &EntryPath) -> bool {
        self.list.binary_search_by(|archive| archive.path.cmp(path)).is_ok()
    }

    /// The archives that a binary with unreadable markers may need: those in `.kpack` directories at or above it.
    pub(super) fn around(&self, binary: &EntryPath) -> BTreeSet<usize> {
        let is_around = |archive: &InputArchive| {
            let directory = archive.installed.parent().filter(|directory| directory.name() == b".kpack");
            directory.and_then(|directory| directory.parent()).is_some_and(|root| binary.below(&root).is_some())
        };
        self.list.iter().enumerate().filter(|(_, archive)| is_around(archive)).map(|(number, _)| number).collect()
    }

    /// Records that a binary which stays split needs archives.
    pub(super) fn need(&self, numbers: &BTreeSet<usize>, binary: &EntryPath) {
        for archive in numbers.iter().filter_map(|number| self.list.get(*number)) {
            archive.needed.lock().insert(binary.clone());
        }
    }

    /// Records the requests of wrappers.
    pub(super) fn note(&self, asked: &[(usize, String, String)]) {
        for (number, key, target) in asked {
            let Some(archive) = self.list.get(*number) else { continue };
            let mut known = archive.asked.lock();
            known.insert((key.clone(), target.clone()));
        }
    }

    /// Decides which archives stay. `is_fat` says whether there is a fat binary at a path of the installation.
    pub(super) fn settle(&self, is_fat: impl Fn(&EntryPath) -> bool, resources: &Arc<Resources>) -> Settled {
        let mut settled = Settled::default();
        for archive in &self.list {
            // No split binary leads to an archive that was not opened.
            if archive.reader.get().is_none() {
                let Some(binary) = archive.fat_binary(&is_fat) else { continue };
                let path = &archive.path;
                settled.warnings.push(format!("{path}: not used, since {binary} contains its own code"));
            }
            let reader = match archive.reader.get() {
                Some(Ok(reader)) => reader,
                Some(Err(reason)) => {
                    settled.left.push((archive.path.clone(), reason.clone()));
                    continue;
                }
                None => continue,
            };
            let claims = ClaimedSizes::of(reader).warning();
            settled.warnings.extend(claims.map(|claims| format!("{}: {claims}", archive.path)));
            if let Some(binary) = archive.needed.lock().first() {
                settled.left.push((archive.path.clone(), format!("it stays for {binary}")));
                continue;
            }
            let asked = archive.asked.lock();
            let others =
                reader.entries().filter(|(key, target, _)| !asked.contains(&((*key).into(), (*target).into())));
            let others: Vec<_> = others.collect();
            match archive.taken_over(&others, resources) {
                Ok(unasked) => {
                    settled.used.insert(archive.path.clone());
                    settled.unasked.extend(unasked);
                }
                Err(reason) => settled.left.push((archive.path.clone(), reason)),
            }
        }
        settled
    }
}

/// The most names in a message.
const MOST_NAMES: usize = 5;

/// Some of these names, and the number of the others.
pub fn some_of(names: &BTreeSet<&str>) -> String {
    let mut listed: Vec<_> = names.iter().take(MOST_NAMES).map(|name| (*name).to_owned()).collect();
    if names.len() > MOST_NAMES {
        listed.push(format!("{} others", names.len() - MOST_NAMES));
    }
    let last = listed.pop().unwrap_or_default();
    if listed.is_empty() { last } else { format!("{} and {last}", listed.join(", ")) }
}

/// The decision about the archives.
#[derive(Default)]
pub(super) struct Settled {
    /// Archives that are no longer needed.
    pub(super) used: BTreeSet<EntryPath>,
    /// Code objects in them that no split binary asks for.
    pub(super) unasked: Vec<Unasked>,
    /// Archives that stay, and why.
    pub(super) left: Vec<(EntryPath, String)>,
    /// Warnings about archives.
    pub(super) warnings: Vec<String>,
}

impl InputArchive {
    /// Entries as code objects for a new archive of this name.
    fn taken_over(
        &self,
        entries: &[(&str, &str, &TocEntry)],
        resources: &Arc<Resources>,
    ) -> Result<Vec<Unasked>, String> {
        if entries.is_empty() {
            return Ok(Vec::new());
        }
        let names = some_of(&entries.iter().map(|(key, ..)| *key).collect());
        let stays = |reason: &str| format!("it stays, since no split binary asks for {names} in it, and {reason}");
        let name = self.name().ok_or_else(|| stays("it is not called NAME_TARGET.kpack"))?;
        let unasked = |&(key, target, entry): &(&str, &str, &TocEntry)| -> Result<Unasked, String> {
            if target != name.2.to_string() {
                return Err(stays("it is for several targets"));
            }
            let object = sets::object(self, key, target, entry, resources).map_err(|error| stays(&error))?;
            let (root, stem) = (name.0.clone(), name.1.clone());
            Ok(Unasked { archive: self.path.clone(), root, stem, key: key.to_owned(), object })
        };
        entries.iter().map(unasked).collect()
    }

    /// A fat binary that has replaced a split one with code in this archive.
    fn fat_binary(&self, is_fat: impl Fn(&EntryPath) -> bool) -> Option<EntryPath> {
        let (root, ..) = self.name()?;
        let keys = self.reader().ok()?.toc().toc.keys();
        let names: BTreeSet<_> = keys.filter_map(|key| key.rsplit_once('#')).map(|(name, _)| name.as_bytes()).collect();
        let names = names.into_iter().filter_map(|name| EntryPath::new(name).ok());
        names.map(|name| root.child(name.as_bytes())).find(is_fat)
    }

    /// The directory of `.kpack`, the first part of the archive's name, and its target.
    fn name(&self) -> Option<(EntryPath, String, TargetId)> {
        let directory = self.installed.parent().filter(|parent| parent.name() == b".kpack")?;
        let name = std::str::from_utf8(self.installed.name()).ok()?;
        let target = named_target(name)?;
        let stem = name.strip_suffix(".kpack")?.strip_suffix(target)?.strip_suffix('_')?;
        Some((directory.parent()?, stem.to_owned(), target.parse().ok()?)).filter(|_| !stem.is_empty())
    }

    /// The code object at a place. `label` is its name in messages if it is the first one there.
    pub(super) fn stored(
        &self,
        place: StoredPlace,
        label: &str,
        resources: &Arc<Resources>,
    ) -> Result<StoredObject, ReadError> {
        if let Some(stored) = self.stored.lock().get(&place) {
            return Ok(stored.clone());
        }
        let StoredPlace { offset, length, size, is_compressed } = place;
        let made = if is_compressed {
            StoredObject::frame(&self.content, (offset, length), size, label, resources)?
        } else {
            StoredObject::plain(&self.content, offset, size)?
        };
        // Another thread may have been faster.
        Ok(self.stored.lock().entry(place).or_insert(made).clone())
    }

    /// The opened archive.
    pub(super) fn reader(&self) -> Result<&ArchiveReader, String> {
        let open = || ArchiveReader::open(Arc::clone(&self.content)).map_err(|error| error.to_string());
        self.reader.get_or_init(open).as_ref().map_err(|error| format!("{}: {error}", self.path))
    }
}
