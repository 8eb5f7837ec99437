//! The parts of several shards, joined to packages: host code of one shard, device code of all.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::artifacts::{ArtifactError, ArtifactPart, Artifacts};
use super::items::{Item, ItemKind, add_directories};
use super::kpm::{Listing, listed};
use super::tree::Body;
use crate::artifact::{ArtifactName, Combined, Kpm, KpmError, Manifest, PackagingConfig, recombine, shards};
use crate::database::{Databases, named_arch};
use crate::index::Resources;
use crate::kpack::{Archive, KpackError};
use crate::rope::{ReadError, equal};
use crate::source::{Attributes, EntryPath, SourceError};
use crate::split::{Options, Progress};

/// Why shards cannot be joined.
#[derive(Debug, thiserror::Error)]
pub enum RecombineError {
    /// They cannot be listed.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// An artifact of a shard cannot be used.
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
    /// The primary shard is missing, or has no host code.
    #[error("{}: no generic artifacts found in the primary shard {shard:?}; there are {}", place.display(), there.join(", "))]
    NoPrimary {
        /// Where the shards are.
        place: PathBuf,
        /// The primary shard.
        shard: String,
        /// The shards there are.
        there: Vec<String>,
    },
    /// `error_on_duplicate_device_code`.
    #[error(
        "{first} and {second}: both are device code for {name}; take it out of one shard (--exclude-targets), or set \
         error_on_duplicate_device_code to false to use the first"
    )]
    Duplicate {
        /// The component and the processor.
        name: ArtifactName,
        /// A file.
        first: String,
        /// A file of another shard.
        second: String,
    },
    /// Two files claim one place in a package.
    #[error("{first} and {second}: they differ and would be the same file of {name}")]
    Conflict {
        /// The package.
        name: ArtifactName,
        /// A file.
        first: String,
        /// Another one.
        second: String,
    },
    /// `verify_generic_artifacts_match`.
    #[error("{first} and {second}: {reason}; verify_generic_artifacts_match wants all shards to have the same host code")]
    GenericMismatch {
        /// A file of the primary shard.
        first: String,
        /// That of another one.
        second: String,
        /// What differs.
        reason: &'static str,
    },
    /// `error_on_missing_architecture`.
    #[error("{}: group {group} of {} wants {name}, which no shard there has", place.display(), config.display())]
    Missing {
        /// Where the shards are.
        place: PathBuf,
        /// The packaging configuration.
        config: PathBuf,
        /// The component and the processor.
        name: ArtifactName,
        /// The group.
        group: String,
    },
    /// A `.kpm` manifest cannot be used.
    #[error("{file}: {source}")]
    Kpm {
        /// The manifest.
        file: String,
        /// Why not.
        source: KpmError,
    },
    /// An archive cannot be used.
    #[error("{file}: {source}")]
    Archive {
        /// The archive.
        file: String,
        /// Why not.
        source: KpackError,
    },
    /// Bytes cannot be had.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// All parts of all shards.
#[derive(Debug)]
pub struct Shards {
    place: PathBuf,
    /// Sorted by shard.
    parts: Vec<(String, ArtifactPart)>,
    names: Vec<String>,
    /// What the user should know.
    pub notes: Vec<String>,
}

/// Packages.
#[derive(Debug, Default)]
pub struct Recombined {
    /// A generic part for each component, and a part for each group.
    pub parts: Vec<ArtifactPart>,
    /// What the user should know.
    pub notes: Vec<String>,
}

impl Shards {
    /// Opens the directories in `place`; each is a shard, of split or of fat artifacts. Only these components, or all if
    /// there are none.
    pub fn open(
        place: &Path,
        components: &[String],
        options: &Options,
        resources: &Arc<Resources>,
        progress: &Progress,
    ) -> Result<Self, RecombineError> {
        let found = shards(place).map_err(|source| SourceError::Io { path: place.to_owned(), source })?;
        let mut all = Self { place: place.to_owned(), parts: Vec::new(), names: Vec::new(), notes: Vec::new() };
        for (name, location) in found {
            let mut artifacts = Artifacts::shard(&location, components, options, resources, progress)?;
            // A package without one of its artifacts would look complete.
            if !artifacts.failures.is_empty() {
                return Err(artifacts.failures.swap_remove(0).into());
            }
            all.notes.extend(artifacts.notes);
            all.parts.extend(artifacts.parts.into_iter().map(|part| (name.clone(), part)));
            all.names.push(name);
        }
        Ok(all)
    }

    /// Joins them as the configuration at `config_path` says. With `kpm`, packages get manifests of their archives.
    pub fn recombine(
        &self,
        config: &PackagingConfig,
        config_path: &Path,
        kpm: bool,
    ) -> Result<Recombined, RecombineError> {
        let names: Vec<_> = self.parts.iter().map(|(shard, part)| (shard.as_str(), &part.name)).collect();
        let decision = recombine(config, &names);
        let part = |number: usize| self.parts.get(number).map(|(_, part)| part);
        if decision.generic.is_empty() {
            let (place, there) = (self.place.clone(), self.names.clone());
            return Err(RecombineError::NoPrimary { place, shard: config.primary_shard.clone(), there });
        }
        let mut result = Recombined { parts: Vec::new(), notes: self.notes.clone() };
        for duplicate in &decision.duplicates {
            let (Some(first), Some(second)) = (part(duplicate.first), part(duplicate.second)) else { continue };
            let error = duplicate_error(first, second);
            if config.validation.error_on_duplicate_device_code {
                return Err(error);
            }
            result.notes.push(format!("{error}"));
        }
        for missing in &decision.missing {
            let (place, config_path) = (self.place.clone(), config_path.to_owned());
            let (name, group) = (missing.name.clone(), missing.group.clone());
            let error = RecombineError::Missing { place, config: config_path, name, group };
            if config.validation.error_on_missing_architecture {
                return Err(error);
            }
            // Many components skip some processors; one that no component has is probably misspelt.
            if !self.parts.iter().any(|(_, part)| part.name.family == missing.name.family) {
                result.notes.push(error.to_string());
            }
        }
        for ungrouped in decision.ungrouped.iter().filter_map(|&number| part(number)) {
            result.notes.push(format!("{}: left out: no group has it", ungrouped.origin));
        }
        for generic in decision.generic.iter().filter_map(|&number| part(number)) {
            if config.validation.verify_generic_artifacts_match {
                self.compare_generic(generic)?;
            }
            result.parts.push(without_archives(generic, &mut result.notes));
        }
        for combined in &decision.groups {
            let parts: Vec<_> = combined.parts.iter().filter_map(|&number| part(number)).collect();
            let strict = config.validation.error_on_duplicate_device_code;
            let mut package = Package::new(combined, strict, kpm);
            for part in parts {
                package.add(part)?;
            }
            result.notes.append(&mut package.notes);
            result.parts.extend(package.finish()?);
        }
        Ok(result)
    }

    fn compare_generic(&self, primary: &ArtifactPart) -> Result<(), RecombineError> {
        let others = self.parts.iter().map(|(_, part)| part).filter(|part| part.name == primary.name);
        for other in others.filter(|other| other.origin != primary.origin) {
            let mismatch = |path: &EntryPath, reason| {
                let (first, second) = (primary.label(path), other.label(path));
                Err(RecombineError::GenericMismatch { first, second, reason })
            };
            let mut theirs: BTreeMap<_, _> = other.items.iter().map(|item| (&item.path, item)).collect();
            for item in &primary.items {
                match theirs.remove(&item.path) {
                    None => return mismatch(&item.path, "only the first exists"),
                    Some(their) if their.attributes.mode != item.attributes.mode => {
                        return mismatch(&item.path, "their permissions differ");
                    }
                    Some(their) if !is_same(item, their)? => return mismatch(&item.path, "they differ"),
                    Some(_) => {}
                }
            }
            if let Some((path, _)) = theirs.pop_first() {
                return mismatch(path, "only the second exists");
            }
        }
        Ok(())
    }
}

/// Names a file that both have, or what both are.
fn duplicate_error(first: &ArtifactPart, second: &ArtifactPart) -> RecombineError {
    let is_file = |item: &&Item| !matches!(item.kind, ItemKind::Directory);
    let has = |path: &EntryPath| second.items.iter().any(|item| item.path == *path);
    let common = first.items.iter().filter(is_file).find(|item| has(&item.path)).map(|item| item.path.clone());
    let label = |part: &ArtifactPart| common.as_ref().map_or_else(|| part.origin.clone(), |path| part.label(path));
    RecombineError::Duplicate { name: first.name.clone(), first: label(first), second: label(second) }
}

/// Host code, without the archives that a splitter may have left there.
fn without_archives(part: &ArtifactPart, notes: &mut Vec<String>) -> ArtifactPart {
    let mut part = part.clone();
    let (items, archives): (Vec<_>, Vec<_>) =
        std::mem::take(&mut part.items).into_iter().partition(|item| !is_in_archive_directory(&part, &item.path));
    for item in archives.iter().filter(|item| !matches!(item.kind, ItemKind::Directory)) {
        notes.push(format!("{}: left out of the host code", part.label(&item.path)));
    }
    part.items = items;
    part
}

fn is_in_archive_directory(part: &ArtifactPart, path: &EntryPath) -> bool {
    part.installed(path).components().next() == Some(b".kpack")
}

/// A group of device parts on the way to one part.
struct Package {
    name: ArtifactName,
    is_strict: bool,
    wants_kpm: bool,
    root: Option<Attributes>,
    manifest: Manifest,
    /// By path: the item, and what messages call it.
    items: BTreeMap<EntryPath, (Item, String)>,
    directories: BTreeMap<EntryPath, Attributes>,
    archives: BTreeMap<EntryPath, Arc<Archive>>,
    /// The manifests that shards have, by path.
    kpms: BTreeMap<EntryPath, Kpm>,
    notes: Vec<String>,
}

impl Package {
    fn new(combined: &Combined, is_strict: bool, wants_kpm: bool) -> Self {
        Self {
            name: combined.name.clone(),
            is_strict,
            wants_kpm,
            root: None,
            manifest: Manifest::default(),
            items: BTreeMap::new(),
            directories: BTreeMap::new(),
            archives: BTreeMap::new(),
            kpms: BTreeMap::new(),
            notes: Vec::new(),
        }
    }

    fn add(&mut self, part: &ArtifactPart) -> Result<(), RecombineError> {
        self.root.get_or_insert(part.root);
        for item in &part.items {
            if let ItemKind::Directory = item.kind {
                self.directories.entry(item.path.clone()).or_insert(item.attributes);
            } else if is_in_archive_directory(part, &item.path) && item.path.name().ends_with(b".kpm") {
                self.add_kpm(part, item)?;
            } else if is_device_code(part, &item.path) {
                self.add_item(part, item)?;
            } else {
                self.notes.push(format!("{}: left out: it is neither an archive nor of a database", part.label(&item.path)));
            }
        }
        Ok(())
    }

    fn add_item(&mut self, part: &ArtifactPart, item: &Item) -> Result<(), RecombineError> {
        if let Some((there, first)) = self.items.get(&item.path) {
            if is_same(there, item)? {
                return Ok(());
            }
            let (first, second) = (first.clone(), part.label(&item.path));
            let error = RecombineError::Conflict { name: self.name.clone(), first, second };
            if self.is_strict {
                return Err(error);
            }
            self.notes.push(format!("{error}; the first is used"));
            return Ok(());
        }
        self.manifest.prefixes.extend(part.manifest.prefix_of(&item.path).cloned());
        self.items.insert(item.path.clone(), (item.clone(), part.label(&item.path)));
        if let Some(archive) = part.archives.get(&item.path) {
            self.archives.insert(item.path.clone(), Arc::clone(archive));
        }
        Ok(())
    }

    fn add_kpm(&mut self, part: &ArtifactPart, item: &Item) -> Result<(), RecombineError> {
        let ItemKind::File(body, _) = &item.kind else { return Ok(()) };
        let content = body.content()?;
        let mut bytes = vec![0; usize::try_from(content.size()).unwrap_or_default()];
        content.read_at(0, &mut bytes)?;
        let failed = |source| RecombineError::Kpm { file: part.label(&item.path), source };
        let kpm = Kpm::parse(&bytes).map_err(failed)?;
        self.manifest.prefixes.extend(part.manifest.prefix_of(&item.path).cloned());
        match self.kpms.entry(item.path.clone()) {
            std::collections::btree_map::Entry::Vacant(slot) => drop(slot.insert(kpm)),
            std::collections::btree_map::Entry::Occupied(mut slot) => slot.get_mut().merge(kpm).map_err(failed)?,
        }
        Ok(())
    }

    /// The part, unless nothing is left of it.
    fn finish(mut self) -> Result<Option<ArtifactPart>, RecombineError> {
        let Some(root) = self.root.filter(|_| !self.items.is_empty()) else { return Ok(None) };
        self.manifest.prefixes.sort();
        self.manifest.prefixes.dedup();
        let kpms = self.kpm_items(root)?;
        let mut items: Vec<_> = self.items.into_values().map(|(item, _)| item).chain(kpms).collect();
        add_directories(&mut items, |path| self.directories.get(path).copied());
        let origin = self.name.to_string();
        Ok(Some(ArtifactPart { name: self.name, origin, root, manifest: self.manifest, items, archives: self.archives }))
    }

    fn kpm_items(&mut self, root: Attributes) -> Result<Vec<Item>, RecombineError> {
        let mut listings: BTreeMap<EntryPath, Listing> = BTreeMap::new();
        for (path, kpm) in std::mem::take(&mut self.kpms) {
            listings.insert(path, Listing { kpm, archives: Vec::new() });
        }
        if self.wants_kpm {
            for (path, (item, label)) in &self.items {
                let Some(directory) = path.parent().filter(|it| it.name() == b".kpack") else { continue };
                let ItemKind::File(body, _) = &item.kind else { continue };
                let failed = |source| RecombineError::Archive { file: label.clone(), source };
                let listed = listed(path, body, self.archives.get(path)).map_err(failed)?;
                let prefix = directory.parent().map(|prefix| prefix.to_string()).unwrap_or_default();
                let manifest = directory.child(format!("{}.kpm", self.name.component).as_bytes());
                let listing = listings.entry(manifest).or_insert_with(|| Listing {
                    kpm: Kpm::new(&self.name.component, &prefix),
                    archives: Vec::new(),
                });
                listing.archives.push(listed);
            }
        }
        let item = |(path, listing): (EntryPath, Listing)| {
            let attributes = Attributes { mode: 0o644, ..root };
            let body = Body::Made(Arc::new(listing));
            Item { path, attributes, kind: ItemKind::File(body, None) }
        };
        Ok(listings.into_iter().map(item).collect())
    }
}

/// Whether a file of a device part is an archive or of a database. Whatever is in a directory of a processor, or is
/// named after one, belongs to it; what is left is host code.
fn is_device_code(part: &ArtifactPart, path: &EntryPath) -> bool {
    let installed = part.installed(path);
    is_in_archive_directory(part, path) || Databases::all().classify(&installed).is_some() || named_arch(&installed).is_some()
}

fn is_same(first: &Item, second: &Item) -> Result<bool, ReadError> {
    match (&first.kind, &second.kind) {
        (ItemKind::Directory, ItemKind::Directory) => Ok(true),
        (ItemKind::Symlink(first), ItemKind::Symlink(second)) => Ok(first == second),
        (ItemKind::File(first, _), ItemKind::File(second, _)) => equal(&*first.content()?, &*second.content()?),
        _ => Ok(false),
    }
}
