//! A package for a group of processors: the joined device parts of several shards.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, bail};

use super::artifacts::ArtifactPart;
use super::kpm::{Listing, listed};
use super::split_part::{is_device_code, is_in_archive_directory};
use crate::artifact::{ArtifactName, Combined, Kpm, Manifest};
use crate::kpack::ArchiveRope;
use crate::memory::{Parser, WholeFile};
use crate::rope::ReadError;
use crate::source::{Attributes, EntryPath};
use crate::tree::{Body, NodeKind, Origin};
use crate::view::items::{Item, add_directories, is_same};

/// The device parts of a group while they are being joined.
#[derive(Default)]
pub(crate) struct Package {
    name: ArtifactName,
    is_strict: bool,
    wants_kpm: bool,
    root: Option<Attributes>,
    manifest: Manifest,
    /// By path: the item, and its name in messages.
    items: BTreeMap<EntryPath, (Item, String)>,
    /// By path: the attributes, and the name in messages.
    directories: BTreeMap<EntryPath, (Attributes, String)>,
    archives: BTreeMap<EntryPath, Arc<ArchiveRope>>,
    /// The shards' manifests, by path.
    kpms: BTreeMap<EntryPath, Kpm>,
    pub(crate) notes: Vec<String>,
}

impl Package {
    pub(crate) fn new(combined: &Combined, is_strict: bool, wants_kpm: bool) -> Self {
        Self { name: combined.name.clone(), is_strict, wants_kpm, ..Self::default() }
    }

    pub(crate) fn add(&mut self, part: &ArtifactPart) -> anyhow::Result<()> {
        self.root.get_or_insert(part.root);
        for item in &part.items {
            if let NodeKind::Directory(_) = item.kind {
                self.directories.entry(item.path.clone()).or_insert_with(|| (item.attributes, part.label(&item.path)));
            } else if is_in_archive_directory(&part.manifest, &item.path) && item.path.name().ends_with(b".kpm") {
                self.add_kpm(part, item)?;
            } else if is_device_code(&part.manifest, &item.path) {
                self.add_item(part, item)?;
            } else {
                self.notes
                    .push(format!("{}: left out: it is neither an archive nor of a database", part.label(&item.path)));
            }
        }
        Ok(())
    }

    fn add_item(&mut self, part: &ArtifactPart, item: &Item) -> anyhow::Result<()> {
        if let Some((existing, first)) = self.items.get(&item.path) {
            if is_same(existing, item)? {
                return Ok(());
            }
            let (first, second) = (first.clone(), part.label(&item.path));
            let conflict = conflict(&first, &second, &self.name);
            if self.is_strict {
                bail!(conflict);
            }
            self.notes.push(format!("{conflict}; the first is used"));
            return Ok(());
        }
        self.manifest.prefixes.extend(part.manifest.prefix_of(&item.path).cloned());
        self.items.insert(item.path.clone(), (item.clone(), part.label(&item.path)));
        if let Some(archive) = part.archives.get(&item.path) {
            self.archives.insert(item.path.clone(), Arc::clone(archive));
        }
        Ok(())
    }

    fn add_kpm(&mut self, part: &ArtifactPart, item: &Item) -> anyhow::Result<()> {
        let NodeKind::File { body, .. } = &item.kind else { return Ok(()) };
        let content = body.content()?;
        let label = || part.label(&item.path);
        let bytes =
            WholeFile::of(Parser::Kpm, &*content).map_err(|it| ReadError::damaged(&label().into(), it.to_string()))?;
        let kpm = Kpm::parse(&bytes).with_context(label)?;
        self.manifest.prefixes.extend(part.manifest.prefix_of(&item.path).cloned());
        match self.kpms.entry(item.path.clone()) {
            std::collections::btree_map::Entry::Vacant(slot) => drop(slot.insert(kpm)),
            std::collections::btree_map::Entry::Occupied(mut slot) => slot.get_mut().merge(kpm).with_context(label)?,
        }
        Ok(())
    }

    /// The part; `None` if nothing is left of it.
    pub(crate) fn finish(mut self) -> anyhow::Result<Option<ArtifactPart>> {
        let Some(root) = self.root.filter(|_| !self.items.is_empty()) else { return Ok(None) };
        self.check_directories()?;
        self.manifest.prefixes.sort();
        self.manifest.prefixes.dedup();
        let kpms = self.kpm_items(root)?;
        let mut items: Vec<_> = self.items.into_values().map(|(item, _)| item).chain(kpms).collect();
        add_directories(&mut items, |path| self.directories.get(path).map(|(attributes, _)| *attributes));
        let origin = self.name.to_string();
        Ok(Some(ArtifactPart {
            name: self.name,
            origin,
            root,
            manifest: self.manifest,
            items,
            archives: self.archives,
            split: None,
        }))
    }

    /// Refuses a file or symlink of one shard at the path of another one's directory.
    fn check_directories(&self) -> anyhow::Result<()> {
        // The part that contains a file also has the directories above it.
        for (path, (_, directory)) in &self.directories {
            if let Some((_, file)) = self.items.get(path) {
                let name = &self.name;
                bail!(
                    "{file} and {directory}: a file and a directory would have one place in {name}; take one out of its shard"
                );
            }
        }
        Ok(())
    }

    fn kpm_items(&mut self, root: Attributes) -> anyhow::Result<Vec<Item>> {
        let listing = |(path, kpm)| (path, Listing { kpm, archives: Vec::new() });
        let mut listings: BTreeMap<EntryPath, Listing> =
            std::mem::take(&mut self.kpms).into_iter().map(listing).collect();
        if self.wants_kpm {
            for (path, (item, label)) in &self.items {
                let Some(directory) = path.parent().filter(|it| it.name() == b".kpack") else { continue };
                let NodeKind::File { body, .. } = &item.kind else { continue };
                let listed = listed(path, body, self.archives.get(path)).with_context(|| label.clone())?;
                let prefix = directory.parent().map(|prefix| prefix.to_string()).unwrap_or_default();
                let manifest = directory.child(format!("{}.kpm", self.name.component).as_bytes());
                let listing = listings
                    .entry(manifest)
                    .or_insert_with(|| Listing { kpm: Kpm::new(&self.name.component, &prefix), archives: Vec::new() });
                listing.archives.push(listed);
            }
        }
        let item = |(path, listing): (EntryPath, Listing)| {
            let attributes = Attributes { mode: 0o644, ..root };
            let kind = NodeKind::file(Body::Made(Arc::new(listing)));
            Item { path, attributes, kind, origin: Origin::default() }
        };
        Ok(listings.into_iter().map(item).collect())
    }
}

/// What is said of two different files that have one path in a package.
pub(super) fn conflict(first: &str, second: &str, package: &ArtifactName) -> String {
    format!("{first} and {second}: they differ and would be the same file of {package}")
}
