//! The parts of artifacts: `<component>_generic/` and `<component>_<processor>/`, each with its own manifest.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};

use super::part_inputs::PartInputs;
use super::split_part::{has_device_code_only, has_statement, without_host_code};
use super::stated::{LackingPart, ShardPart, lacking_parts, of_other_splits};
use crate::artifact::{ArtifactName, FoundArtifacts, GENERIC, MANIFEST, Manifest, find, name_of_archive};
use crate::gpu::{BundleKey, TargetId};
use crate::kpack::{ArchiveRope, BundleJobs};
use crate::metrics::Progress;
use crate::resources::Resources;
use crate::source::{Attributes, EntryPath, Input, SourceError};
use crate::split::{HOST, Packaging, Plan, PlanOptions, SplitFacts, SplitId};
use crate::tree::NodeKind;
use crate::view::items::{Item, add_directories, device_parts, host_part};
use crate::view::{TreeManifest, part_manifests};

/// Nothing in a directory of artifacts is fat.
#[derive(Debug, thiserror::Error)]
#[error("{}: there is nothing to split: all artifacts in it are generic or have been split already", .0.display())]
pub struct NothingToSplit(PathBuf);

/// A part of an artifact.
#[derive(Clone, Debug)]
pub struct ArtifactPart {
    /// The name of its directory.
    pub name: ArtifactName,
    /// Its name in messages.
    pub origin: String,
    pub(crate) root: Attributes,
    pub(crate) manifest: Manifest,
    /// Sorted by path, including directories, without the manifest.
    pub(crate) items: Vec<Item>,
    pub(crate) archives: BTreeMap<EntryPath, Arc<ArchiveRope>>,
    /// The split that it is of; `None` if it was made of several.
    pub split: Option<PartSplit>,
}

/// What a part says about its split.
#[derive(Clone, Debug)]
pub struct PartSplit {
    /// The ID of the split.
    pub id: SplitId,
    /// The part's manifest, unless it is left out.
    pub manifest: Option<TreeManifest>,
}

/// A fat artifact, and the plan for it.
#[derive(Debug)]
pub struct SplitArtifact {
    /// The artifact, without files that its manifest does not name.
    pub input: Input,
    /// The plan.
    pub plan: Plan,
    manifest: Manifest,
}

/// Artifacts that have been opened.
#[derive(Debug, Default)]
pub struct Artifacts {
    /// All parts.
    pub parts: Vec<ArtifactPart>,
    /// The artifacts that had to be split.
    pub split: Vec<SplitArtifact>,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// Artifacts that could not be used.
    pub failures: Vec<anyhow::Error>,
    /// The artifacts as they were listed.
    pub inputs: PartInputs,
    pub(super) lacking: Vec<LackingPart>,
    /// The components of a shard, also those that are not taken.
    pub(super) components: BTreeSet<String>,
}

impl Artifacts {
    /// The parts of the artifact at `location`, or of all artifacts that were found in that directory and are neither split
    /// nor generic.
    pub fn split(
        location: &Path,
        found: &FoundArtifacts,
        options: &PlanOptions,
        jobs: &Arc<BundleJobs>,
        progress: &Progress,
    ) -> anyhow::Result<Self> {
        let mut artifacts = Self::default();
        match found {
            FoundArtifacts::One => {
                let mut options = options.clone();
                if options.group.is_none() {
                    options.group = Some(name_of(location)?.component);
                }
                artifacts.add_fat(location, options, jobs, progress);
                if let Some(error) = artifacts.failures.pop() {
                    return Err(error);
                }
            }
            FoundArtifacts::Several { artifacts: found, others, archives } => {
                if options.group.is_some() {
                    bail!(
                        "{}: --artifact-prefix and --group name one artifact; these get their names from their directories",
                        location.display()
                    );
                }
                artifacts.note_others(location, others, archives);
                for (name, place) in found {
                    match kind(name, found) {
                        Some((name, ArtifactRole::Fat)) => {
                            let options = PlanOptions { group: Some(name.component), ..options.clone() };
                            artifacts.add_fat(place, options, jobs, progress);
                        }
                        Some((name, ArtifactRole::Device)) => {
                            let (place, generic) = (place.display(), ArtifactName::new(&name.component, GENERIC));
                            artifacts
                                .notes
                                .push(format!("{place}: left out: it is split already, {generic} is next to it"));
                        }
                        Some((_, ArtifactRole::Generic)) => {}
                        None => artifacts.failures.push(unnamed(place)),
                    }
                }
                if artifacts.parts.is_empty() && artifacts.failures.is_empty() {
                    return Err(NothingToSplit(location.to_owned()).into());
                }
            }
        }
        Ok(artifacts)
    }

    /// The parts of a shard, of these components or of all. Split artifacts are taken unchanged.
    pub fn shard(
        location: &Path,
        components: &[String],
        options: &PlanOptions,
        jobs: &Arc<BundleJobs>,
        progress: &Progress,
    ) -> anyhow::Result<Self> {
        let mut artifacts = Self::default();
        let Some(FoundArtifacts::Several { artifacts: found, others, archives }) =
            find(location).map_err(SourceError::at(location))?
        else {
            let place = location.display();
            artifacts.notes.push(format!("{place}: left out: it is no shard: no directory in it has an {MANIFEST}"));
            return Ok(artifacts);
        };
        artifacts.note_others(location, &others, &archives);
        let mut stated = Vec::new();
        for (name, place) in &found {
            let kind = kind(name, &found);
            artifacts.components.extend(kind.iter().map(|(name, _)| name.component.clone()));
            match kind {
                Some((name, _)) if !components.is_empty() && !components.contains(&name.component) => {}
                Some((name, ArtifactRole::Fat)) => {
                    let options = PlanOptions { group: Some(name.component), ..options.clone() };
                    artifacts.add_fat(place, options, jobs, progress);
                }
                Some((name, ArtifactRole::Device)) if !is_wanted(&name, options) => {}
                Some((name, ArtifactRole::Generic | ArtifactRole::Device)) => {
                    match ArtifactPart::take_over(place, name, jobs.resources()) {
                        Ok(taken) => {
                            artifacts.parts.push(taken.part);
                            artifacts.inputs.add(&taken.input);
                            artifacts.notes.extend(taken.note);
                            stated.push(taken.stated);
                        }
                        Err(error) => artifacts.failures.push(error),
                    }
                }
                None => artifacts.notes.push(format!("{}: left out: its name is no artifact's", place.display())),
            }
        }
        artifacts.failures.extend(of_other_splits(&stated));
        let lacking = lacking_parts(&stated, &found);
        artifacts.lacking = lacking.into_iter().filter(|part| is_wanted(&part.name, options)).collect();
        Ok(artifacts)
    }

    fn note_others(&mut self, location: &Path, others: &[String], archives: &[String]) {
        let note = |name: &String| format!("{}: left out: {MANIFEST} not found in it", location.join(name).display());
        self.notes.extend(others.iter().map(note));
        let is_unpacked = |name: &&String| {
            name.split_once(".tar").is_some_and(|(artifact, _)| location.join(artifact).join(MANIFEST).is_file())
        };
        let packed = archives.iter().filter(|name| !is_unpacked(name));
        self.failures.extend(packed.map(|name| no_artifact(&location.join(name))));
    }

    fn add_fat(&mut self, location: &Path, options: PlanOptions, jobs: &Arc<BundleJobs>, progress: &Progress) {
        match SplitArtifact::make(location, options, jobs, progress) {
            Ok((artifact, notes)) => {
                self.parts.extend(artifact.parts());
                self.inputs.add(&artifact.input);
                self.split.push(artifact);
                self.notes.extend(notes);
            }
            Err(error) => self.failures.push(error),
        }
    }
}

/// The role of an artifact in a shard.
enum ArtifactRole {
    Generic,
    /// Device code whose host code is in an artifact next to it.
    Device,
    /// Host and device code.
    Fat,
}

fn kind(name: &str, found: &BTreeMap<String, PathBuf>) -> Option<(ArtifactName, ArtifactRole)> {
    let name = ArtifactName::parse(name)?;
    let has_generic = found.contains_key(&ArtifactName::new(&name.component, GENERIC).to_string());
    let kind = match (name.is_generic(), has_generic) {
        (true, _) => ArtifactRole::Generic,
        (false, true) => ArtifactRole::Device,
        (false, false) => ArtifactRole::Fat,
    };
    Some((name, kind))
}

/// Whether a device part that another tool made is wanted.
fn is_wanted(name: &ArtifactName, options: &PlanOptions) -> bool {
    let target = name.family.parse::<TargetId>();
    target.map_or(true, |target| options.targets.contains(&Packaging::Processors.key_of(&target)))
}

/// The error about an artifact whose directory has another name.
pub(super) fn unnamed(artifact: &Path) -> anyhow::Error {
    let place = artifact.display();
    anyhow!("{place}: an artifact is called <component>_<family>; name the component with --artifact-prefix")
}

/// The error about another tar archive next to artifacts.
pub(super) fn no_artifact(archive: &Path) -> anyhow::Error {
    let place = archive.display();
    anyhow!(
        "{place}: a tar archive that is no artifact, <component>_<family> with {MANIFEST}; name it alone, or unpack it"
    )
}

fn name_of(location: &Path) -> anyhow::Result<ArtifactName> {
    let absolute = location.canonicalize().map_err(SourceError::at(location))?;
    let name = name_of_archive(&absolute).filter(|_| absolute.is_file());
    let name = name.or_else(|| absolute.file_name()?.to_str()).and_then(ArtifactName::parse);
    name.ok_or_else(|| unnamed(location))
}

/// Removes its manifest from an artifact, and files that the manifest does not name. Also returns a note about those files.
fn keep_installed(input: &mut Input, location: &Path) -> anyhow::Result<(Manifest, Option<String>)> {
    let manifest = Manifest::of(input)?;
    let manifest = Manifest { prefixes: manifest.present(input) };
    let note = manifest.keep_installed(input).map(|(count, one)| {
        let place = location.display();
        format!("{place}: files left out: {count}, such as {one}: they lie below no prefix that {MANIFEST} names")
    });
    Ok((manifest, note))
}

impl SplitArtifact {
    /// Lists and plans an artifact. `options.group` is the component. Also returns notes for the user.
    fn make(
        location: &Path,
        options: PlanOptions,
        jobs: &Arc<BundleJobs>,
        progress: &Progress,
    ) -> anyhow::Result<(Self, Vec<String>)> {
        let mut input = Input::open(location, jobs.resources())?;
        let has_statement = has_statement(&input);
        let (manifest, note) = keep_installed(&mut input, location)?;
        let is_generic = name_of(location).is_ok_and(|name| name.is_generic());
        if !is_generic && (has_statement || has_device_code_only(&input, &manifest)) {
            return Err(without_host_code(location, options.group.as_deref().unwrap_or_default()));
        }
        let roots = Some(manifest.prefixes.clone());
        let options = PlanOptions { overlay_roots: roots, packaging: Packaging::Processors, ..options };
        let place = location.display();
        let plan = Plan::make(&input, &options, jobs, progress).with_context(|| place.to_string())?;
        if !plan.unsplit.is_empty() {
            bail!("{place}: it cannot be split, so it is left out: {}", plan.warnings.join("; "));
        }
        let mut notes: Vec<_> = plan.warnings.iter().map(|warning| format!("{place}/{warning}")).collect();
        notes.extend(note);
        notes.extend(empty_selection(&plan, &options).map(|note| format!("{place}: {note}")));
        Ok((Self { input, plan, manifest }, notes))
    }

    /// The generic part, followed by a part for each processor.
    fn parts(&self) -> Vec<ArtifactPart> {
        let Self { input, plan, manifest } = self;
        let split_id = SplitFacts::of_tree(input, plan);
        let name = |part: &str| ArtifactName::new(&plan.group, if part == HOST { GENERIC } else { part }).to_string();
        let manifests = plan.options.manifests.map(|digest| part_manifests(input, plan, &split_id, digest, name));
        let manifests: BTreeMap<_, _> = manifests.into_iter().flatten().collect();
        let part = |family: &str, prefixes: Vec<EntryPath>, items: Vec<Item>| ArtifactPart {
            name: ArtifactName::new(&plan.group, family),
            origin: format!("{} ({family})", input.location.display()),
            root: input.root,
            manifest: Manifest { prefixes },
            archives: BTreeMap::new(),
            split: Some(PartSplit { id: split_id.clone(), manifest: manifests.get(&*name(family)).cloned() }),
            items,
        };
        let known = |path: &EntryPath| input.entry(path).map(|entry| entry.attributes);
        let mut generic = host_part(input, plan);
        let existing: BTreeSet<_> = generic.iter().map(|item| item.path.clone()).collect();
        for prefix in manifest.prefixes.iter().filter(|prefix| !prefix.is_root() && !existing.contains(*prefix)) {
            // The prefix contained nothing but databases.
            generic.extend(input.entry(prefix).map(Item::of));
        }
        add_directories(&mut generic, known);
        let mut parts = vec![part(GENERIC, manifest.prefixes.clone(), generic)];
        for (key, mut items) in device_parts(input, plan) {
            let prefixes: BTreeSet<_> =
                items.iter().filter_map(|item| manifest.prefix_of(&item.path)).cloned().collect();
            add_directories(&mut items, known);
            let of_key = plan.archives.iter().filter(|planned| planned.key == *key);
            let archives = of_key.map(|planned| (planned.path.clone(), Arc::clone(&planned.archive))).collect();
            parts.push(ArtifactPart { archives, ..part(key.as_str(), prefixes.into_iter().collect(), items) });
        }
        parts
    }
}

/// A note if the selection left no device code. An artifact may also have none, because builds for some GPUs skip
/// components.
fn empty_selection(plan: &Plan, options: &PlanOptions) -> Option<String> {
    if plan.binaries.is_empty() || !plan.keys.is_empty() {
        return None;
    }
    let keys: BTreeSet<_> = plan.targets_of_code().into_iter().map(|target| options.packaging.key_of(target)).collect();
    let unwanted: Vec<_> = keys.iter().filter(|key| !options.targets.contains(key)).map(BundleKey::as_str).collect();
    let count = plan.binaries.len();
    Some(if unwanted.is_empty() {
        format!("no code is in its fat binaries, of which there are {count}")
    } else {
        format!("it has code for {} only, which is not wanted: binaries stripped of it: {count}", unwanted.join(", "))
    })
}

/// A part that was split before.
struct UnchangedPart {
    part: ArtifactPart,
    input: Input,
    /// About files that its manifest does not name.
    note: Option<String>,
    stated: ShardPart,
}

impl ArtifactPart {
    /// A part that was split before, unchanged.
    fn take_over(location: &Path, name: ArtifactName, resources: &Arc<Resources>) -> anyhow::Result<UnchangedPart> {
        let mut input = Input::open(location, resources)?;
        let stated = ShardPart::of(&input, &name)?;
        let (manifest, note) = keep_installed(&mut input, location)?;
        let items = input.entries.iter().map(Item::of).collect();
        let origin = location.display().to_string();
        let part = Self { name, origin, root: input.root, manifest, items, archives: BTreeMap::new(), split: None };
        Ok(UnchangedPart { part, input, note, stated })
    }

    /// Bytes of its files, without those that have to be made.
    pub fn known_size(&self) -> u64 {
        let size = |item: &Item| match &item.kind {
            NodeKind::File { body, .. } => body.known_size(),
            NodeKind::Directory(_) | NodeKind::Symlink(_) => None,
        };
        self.items.iter().filter_map(size).sum()
    }

    /// The name of a file of this part in messages.
    pub(crate) fn label(&self, path: &EntryPath) -> String {
        format!("{}: {path}", self.origin)
    }

    /// Its archives that have to be made, with their paths in the part's directory.
    pub fn archives(&self) -> impl Iterator<Item = (&EntryPath, &Arc<ArchiveRope>)> {
        self.archives.iter()
    }
}
