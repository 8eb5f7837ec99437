//! All archives of an input, and which of them stay.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::archive::{ClaimedSizes, InputArchive};
use super::joined::OrphanCode;
use super::object::code;
use crate::kpack::TocEntry;
use crate::loader::{archive_root, is_archive, linked_archives};
use crate::resources::Resources;
use crate::source::{EntryPath, Input};
use crate::text::some_of;

/// All archives.
pub(super) struct InputArchives {
    list: Vec<InputArchive>,
    /// Their numbers, by the path in an installation.
    numbers: HashMap<EntryPath, Vec<usize>>,
}

impl InputArchives {
    pub(super) fn of(input: &Input, installed: impl Fn(&EntryPath) -> EntryPath) -> Self {
        let linked = linked_archives(input);
        let archives = input.files().filter(|(path, content)| is_archive(path, content) || linked.contains(*path));
        let archive = |(path, content): (&EntryPath, &Arc<_>)| {
            InputArchive::new(path.clone(), installed(path), input.readers_of(path), Arc::clone(content))
        };
        let list: Vec<_> = archives.map(archive).collect();
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
        let is_around =
            |archive: &InputArchive| archive_root(&archive.installed).is_some_and(|root| binary.below(&root).is_some());
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
            archive.asked.lock().insert((key.clone(), target.clone()));
        }
    }

    /// Those of some archives that no wrapper asks for code.
    pub(super) fn unasked(&self, numbers: &BTreeSet<usize>) -> BTreeSet<usize> {
        let is_unasked = |number: &usize| self.list.get(*number).is_some_and(|it| it.asked.lock().is_empty());
        numbers.iter().copied().filter(is_unasked).collect()
    }

    /// Decides which archives stay. `is_fat` says whether there is a fat binary at a path of the installation.
    pub(super) fn decide(&self, is_fat: impl Fn(&EntryPath) -> bool, resources: &Arc<Resources>) -> ArchiveDecision {
        let mut decision = ArchiveDecision::default();
        for archive in &self.list {
            // No split binary leads to an archive that was not opened.
            if archive.opened().is_none() {
                let Some(binary) = archive.fat_binary(&is_fat) else { continue };
                let path = &archive.path;
                decision.warnings.push(format!("{path}: not used, since {binary} contains its own code"));
                archive.reader().ok();
            }
            let reader = match archive.opened() {
                Some(Ok(reader)) => reader,
                Some(Err(reason)) => {
                    decision.left.push((archive.path.clone(), reason.clone()));
                    continue;
                }
                None => continue,
            };
            let claims = ClaimedSizes::of(reader).warning();
            decision.warnings.extend(claims.map(|claims| format!("{}: {claims}", archive.path)));
            if let Some(binary) = archive.needed.lock().first() {
                decision.left.push((archive.path.clone(), format!("it stays for {binary}")));
                continue;
            }
            let asked = archive.asked.lock();
            let others =
                reader.entries().filter(|(key, target, _)| !asked.contains(&((*key).into(), (*target).into())));
            let others: Vec<_> = others.collect();
            match orphans(archive, &others, resources) {
                Ok(orphans) => {
                    decision.used.insert(archive.path.clone());
                    decision.orphans.extend(orphans);
                }
                Err(reason) => decision.left.push((archive.path.clone(), reason)),
            }
        }
        decision
    }
}

/// The decision about the archives.
#[derive(Default)]
pub(super) struct ArchiveDecision {
    /// Archives that are no longer needed.
    pub(super) used: BTreeSet<EntryPath>,
    /// Code objects in them that no split binary asks for.
    pub(super) orphans: Vec<OrphanCode>,
    /// Archives that stay, and why.
    pub(super) left: Vec<(EntryPath, String)>,
    /// Warnings about archives.
    pub(super) warnings: Vec<String>,
}

/// Entries of an archive as code objects for a new archive of this name.
fn orphans(
    archive: &InputArchive,
    entries: &[(&str, &str, &TocEntry)],
    resources: &Arc<Resources>,
) -> Result<Vec<OrphanCode>, String> {
    if entries.is_empty() {
        return Ok(Vec::new());
    }
    let names = some_of(entries.iter().map(|(key, ..)| key).collect::<BTreeSet<_>>());
    let stays = |reason: &str| format!("it stays, since no split binary asks for {names} in it, and {reason}");
    let name = archive.name().ok_or_else(|| stays("it is not called NAME_TARGET.kpack"))?;
    let orphan = |&(key, target, entry): &(&str, &str, &TocEntry)| -> Result<OrphanCode, String> {
        if target != name.target.to_string() {
            return Err(stays("it is for several targets"));
        }
        let object = code(archive, key, target, entry, resources).map_err(|error| stays(&error))?.named();
        let (root, stem) = (name.root.clone(), name.stem.clone());
        Ok(OrphanCode {
            archive: archive.path.clone(),
            attributes: archive.attributes,
            root,
            stem,
            key: key.to_owned(),
            object,
        })
    };
    entries.iter().map(orphan).collect()
}
