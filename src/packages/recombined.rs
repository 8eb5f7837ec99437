//! The parts of several shards, joined to packages: the host code of one shard, the device code of all.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{anyhow, bail};

use super::artifacts::{ArtifactPart, Artifacts};
use super::package::{Package, conflict};
use super::part_inputs::PartInputs;
use super::split_part::is_in_archive_directory;
use super::stated::LackingPart;
use crate::artifact::{
    ArtifactName, Missing, PackagingConfig, Recombination, is_grouped, is_same_part, recombine, shards,
};
use crate::kpack::BundleJobs;
use crate::metrics::Progress;
use crate::resources::Resources;
use crate::rope::ReadError;
use crate::source::{EntryPath, SourceError};
use crate::split::PlanOptions;
use crate::tree::NodeKind;
use crate::view::items::{Item, is_same};

/// All parts of all shards.
#[derive(Debug, Default)]
pub struct Shards {
    place: PathBuf,
    /// Sorted by shard.
    parts: Vec<(String, ArtifactPart)>,
    names: Vec<String>,
    /// Whether all components were taken.
    is_whole: bool,
    lacking: Vec<LackingPart>,
    /// Notes for the user.
    pub notes: Vec<String>,
    inputs: PartInputs,
}

/// Packages.
#[derive(Debug, Default)]
pub struct Recombined {
    /// A generic part for each component, and a part for each group.
    pub parts: Vec<ArtifactPart>,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// The artifacts of all shards as they were listed.
    pub inputs: PartInputs,
}

impl Shards {
    /// Opens the directories in `place`, each of which is a shard of split or fat artifacts. Takes these components, or
    /// all if none are given.
    pub fn open(
        place: &Path,
        components: &[String],
        options: &PlanOptions,
        resources: &Arc<Resources>,
        progress: &Progress,
    ) -> anyhow::Result<Self> {
        let found = shards(place).map_err(|source| SourceError::Io { path: place.to_owned(), source })?;
        let mut all = Self { place: place.to_owned(), is_whole: components.is_empty(), ..Self::default() };
        let jobs = BundleJobs::new(resources);
        let mut there = BTreeSet::new();
        for (name, location) in found {
            let mut artifacts = Artifacts::shard(&location, components, options, &jobs, progress)?;
            // A package without one of its artifacts would look complete.
            if !artifacts.failures.is_empty() {
                return Err(artifacts.failures.swap_remove(0));
            }
            all.notes.extend(artifacts.notes);
            all.inputs.extend(artifacts.inputs);
            all.lacking.extend(artifacts.lacking);
            all.parts.extend(artifacts.parts.into_iter().map(|part| (name.clone(), part)));
            all.names.push(name);
            there.extend(artifacts.components);
        }
        match components.iter().find(|component| !there.contains(*component)) {
            Some(absent) if !there.is_empty() => {
                let there = there.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
                bail!("{}: there is no component {absent}; there are {there}", place.display())
            }
            _ => Ok(all),
        }
    }

    /// Joins them according to the configuration at `config_path`. With `kpm`, packages get manifests of their
    /// archives.
    pub fn recombine(&self, config: &PackagingConfig, config_path: &Path, kpm: bool) -> anyhow::Result<Recombined> {
        let names: Vec<_> = self.parts.iter().map(|(shard, part)| (shard.as_str(), &part.name)).collect();
        let decision = recombine(config, &names);
        let part = |number: usize| self.parts.get(number).map(|(_, part)| part);
        if decision.generic.is_empty() {
            bail!(
                "{}: no generic artifacts found in the primary shard {:?}; SHARDS, which should have it, has {}",
                self.place.display(),
                config.primary_shard,
                self.names.join(", ")
            );
        }
        self.check_lacking(config)?;
        let mut notes = self.notes.clone();
        notes.extend(self.notes_about(config, config_path, &decision)?);
        let mut result = Recombined { parts: Vec::new(), notes, inputs: self.inputs.clone() };
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
            let package = package.finish()?;
            let of_component = |part: &&ArtifactPart| {
                part.name.is_generic() && package.as_ref().is_some_and(|it| it.name.component == part.name.component)
            };
            if let (Some(generic), Some(package)) = (result.parts.iter().find(of_component), &package) {
                check_overlay(generic, package)?;
            }
            result.parts.extend(package);
        }
        Ok(result)
    }

    /// Fails if a package would lack a part that a split has written.
    fn check_lacking(&self, config: &PackagingConfig) -> anyhow::Result<()> {
        let is_there = |name: &ArtifactName| self.parts.iter().any(|(_, part)| is_same_part(&part.name, name));
        if let Some(LackingPart { name, statement }) =
            self.lacking.iter().find(|part| is_grouped(config, &part.name) && !is_there(&part.name))
        {
            bail!(
                "{statement}: it names {name}, which no shard has; copy that part again, or leave its code out (--exclude-targets {})",
                name.family
            );
        }
        Ok(())
    }

    /// What packages lack or hold twice. Fails if the configuration forbids it.
    fn notes_about(
        &self,
        config: &PackagingConfig,
        config_path: &Path,
        decision: &Recombination,
    ) -> anyhow::Result<Vec<String>> {
        let part = |number: usize| self.parts.get(number).map(|(_, part)| part);
        let mut notes = Vec::new();
        for duplicate in &decision.duplicates {
            let (Some(first), Some(second)) = (part(duplicate.first), part(duplicate.second)) else { continue };
            if holds(first, second)? {
                continue;
            }
            let (first, second, name) = named_duplicate(first, second);
            let both = format!("{first} and {second}: both are device code for {name}");
            if config.validation.error_on_duplicate_device_code {
                bail!(
                    "{both}; take it out of one shard (--exclude-targets), or set error_on_duplicate_device_code to false to use the \
                     first"
                );
            }
            notes.push(format!("{both}; the first is used"));
        }
        for left_out in self.left_out(config, decision) {
            if config.validation.error_on_left_out_host_code {
                bail!(
                    "{left_out}; make that shard the primary one, take this out of it, or set error_on_left_out_host_code to false to \
                     leave it out"
                );
            }
            notes.push(left_out);
        }
        for missing in &decision.missing {
            let (place, config_path) = (self.place.display(), config_path.display());
            let Missing { name, group } = missing;
            let lack = format!("{place}: group {group} of {config_path} wants {name}, which no shard there has");
            if config.validation.error_on_missing_architecture {
                bail!(lack);
            }
            // Many components skip some processors. A processor that none of all components has is probably misspelt.
            if self.is_whole && !self.parts.iter().any(|(_, part)| part.name.family == missing.name.family) {
                notes.push(lack);
            }
        }
        let used = self.parts.iter().filter_map(|(_, part)| config.override_of(&part.name.component));
        let used: HashSet<_> = used.map(|(name, _)| name).collect();
        for unused in config.component_overrides.keys().filter(|name| self.is_whole && !used.contains(name)) {
            let (config, place) = (config_path.display(), self.place.display());
            notes.push(format!("{config}: component_overrides.{unused}: no component of {place} has this name"));
        }
        for ungrouped in decision.ungrouped.iter().filter_map(|&number| part(number)) {
            notes.push(format!("{}: left out: no group has it", ungrouped.origin));
        }
        Ok(notes)
    }

    /// Sentences about the host code of all shards that goes into no package.
    fn left_out(&self, config: &PackagingConfig, decision: &Recombination) -> Vec<String> {
        let part = |number: usize| self.parts.get(number).map(|(_, part)| part);
        let left_out = |&(other, primary): &(usize, Option<usize>)| {
            let (other, primary) = (part(other)?, primary.and_then(part));
            let existing: HashSet<_> =
                primary.into_iter().flat_map(|part| &part.items).map(|item| &item.path).collect();
            let is_lost = |item: &&Item| {
                is_file(item) && !existing.contains(&item.path) && !is_in_archive_directory(&other.manifest, &item.path)
            };
            let mut lost = other.items.iter().filter(is_lost).map(|item| &item.path);
            let one = lost.next()?;
            let (these, them) = match lost.count() {
                0 => (format!("{one} is"), "it"),
                others => (format!("{} files such as {one} are", 1 + others), "them"),
            };
            let lack = match primary {
                Some(_) => format!("does not have {them}"),
                None => "does not have this component".to_owned(),
            };
            let (artifact, shard) = (&other.origin, &config.primary_shard);
            Some(format!(
                "{artifact}: {these} host code that no package would have: the primary shard {shard:?} {lack}"
            ))
        };
        decision.other_generic.iter().filter_map(left_out).collect()
    }

    fn compare_generic(&self, primary: &ArtifactPart) -> anyhow::Result<()> {
        let others = self.parts.iter().map(|(_, part)| part).filter(|part| part.name == primary.name);
        for other in others.filter(|other| other.origin != primary.origin) {
            let mismatch = |path: &EntryPath, reason| {
                let (first, second) = (primary.label(path), other.label(path));
                Err(anyhow!(
                    "{first} and {second}: {reason}; verify_generic_artifacts_match wants all shards to have the same host code"
                ))
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

/// Refuses device code that would be installed over different host code.
fn check_overlay(generic: &ArtifactPart, package: &ArtifactPart) -> anyhow::Result<()> {
    let existing: BTreeMap<_, _> = generic.items.iter().map(|item| (&item.path, item)).collect();
    for item in &package.items {
        let Some(host) = existing.get(&item.path) else { continue };
        if !is_same(host, item)? {
            let (first, second) = (generic.label(&item.path), package.label(&item.path));
            bail!(conflict(&first, &second, &package.name));
        }
    }
    Ok(())
}

/// The name of a file that both have, or else the names of both parts.
fn named_duplicate(first: &ArtifactPart, second: &ArtifactPart) -> (String, String, ArtifactName) {
    let has = |path: &EntryPath| second.items.iter().any(|item| item.path == *path);
    let common =
        first.items.iter().filter(|item| is_file(item)).find(|item| has(&item.path)).map(|item| item.path.clone());
    let label = |part: &ArtifactPart| common.as_ref().map_or_else(|| part.origin.clone(), |path| part.label(path));
    (label(first), label(second), first.name.clone())
}

/// Whether `first` has every file of `second`, with the same bytes.
fn holds(first: &ArtifactPart, second: &ArtifactPart) -> Result<bool, ReadError> {
    let existing: BTreeMap<_, _> = first.items.iter().map(|item| (&item.path, item)).collect();
    for item in second.items.iter().filter(|item| is_file(item)) {
        if !existing.get(&item.path).map_or(Ok(false), |other| is_same(other, item))? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_file(item: &Item) -> bool {
    !matches!(item.kind, NodeKind::Directory(_))
}

/// Host code, without archives that a splitter left in it.
fn without_archives(part: &ArtifactPart, notes: &mut Vec<String>) -> ArtifactPart {
    let mut part = part.clone();
    let (items, archives): (Vec<_>, Vec<_>) = std::mem::take(&mut part.items)
        .into_iter()
        .partition(|item| !is_in_archive_directory(&part.manifest, &item.path));
    for item in archives.iter().filter(|item| is_file(item)) {
        notes.push(format!("{}: left out of the host code", part.label(&item.path)));
    }
    part.items = items;
    part.split = None;
    part
}
