//! Artifacts as input of `verify`: the parts of a component belong together, and are checked as they are installed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::parts::{Part, Parts, PartsKind};
use super::report::{Findings, Tools};
use super::rules::Rule;
use super::views::check_parts;
use crate::artifact::{
    ArtifactName, FoundArtifacts, GENERIC, MANIFEST, Manifest, ManifestError, find, name_of_archive, shards,
};
use crate::opened::{DirectoryListing, LocatedStatement, Named, NamedPath};
use crate::resources::Resources;
use crate::source::{Input, Origins, SourceError};
use crate::split::{STATEMENT, component_of_statement, statement_of_component};
use crate::view::REPORTS;

/// The components of the artifacts among the inputs; `None` if these are not artifacts.
pub(super) fn open(named: &[NamedPath], tools: Tools<'_>) -> anyhow::Result<Option<Vec<Parts>>> {
    let mut artifacts = BTreeMap::new();
    let mut lacking = Vec::new();
    for NamedPath { path, named } in named {
        match named {
            Named::Artifacts(FoundArtifacts::One) => drop(artifacts.insert(name_of(path), path.clone())),
            Named::Artifacts(FoundArtifacts::Several { artifacts: found, others, .. }) if !found.is_empty() => {
                artifacts.extend(found.clone());
                lacking.extend(others.iter().cloned());
            }
            // Directories next to artifacts must be artifacts as well.
            _ if path.is_dir() => lacking.push(path.display().to_string()),
            _ => return Ok(None),
        }
    }
    if artifacts.is_empty() {
        return Ok(None);
    }
    for name in lacking {
        tools.findings.add(Rule::ArtifactManifest, name, format!("{MANIFEST} not found in it"));
    }
    let mut components = BTreeMap::<String, Vec<(String, PathBuf)>>::new();
    for (name, path) in artifacts {
        match ArtifactName::parse(&name) {
            Some(name) => components.entry(name.component).or_default().push((name.family, path)),
            None => tools.findings.add(Rule::ArtifactName, name, "its name is no artifact's: <component>_<family>"),
        }
    }
    for NamedPath { path, .. } in named {
        check_components_of(path, &components, tools.findings)?;
    }
    let open = |(component, families)| open_component(component, families, named, tools);
    components.into_iter().map(open).collect::<Result<_, _>>().map(Some)
}

/// Checks that the components which were split into a directory exist.
fn check_components_of(
    directory: &Path,
    existing: &BTreeMap<String, Vec<(String, PathBuf)>>,
    findings: &Findings,
) -> anyhow::Result<()> {
    for component in components(directory)?.iter().filter(|component| !existing.contains_key(*component)) {
        if let Some(located) = LocatedStatement::read(directory, &statement_of_component(component))? {
            check_parts(&located, directory, [], findings)?;
        }
    }
    Ok(())
}

/// The components with statements in a directory of artifacts.
fn components(directory: &Path) -> anyhow::Result<Vec<String>> {
    let reports = DirectoryListing::read_if_directory(&directory.join(REPORTS))?;
    let names = reports.entries.iter().filter_map(|entry| component_of_statement(entry.name.to_str()?));
    Ok(names.map(str::to_owned).collect())
}

/// The name of an artifact.
fn name_of(path: &Path) -> String {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let of_archive = name_of_archive(path).filter(|_| path.is_file()).map(str::to_owned);
    let name = of_archive.or_else(|| Some(absolute.file_name()?.to_string_lossy().into_owned()));
    name.unwrap_or_default()
}

fn open_component(
    component: String,
    mut families: Vec<(String, PathBuf)>,
    named: &[NamedPath],
    Tools { resources, findings, .. }: Tools<'_>,
) -> anyhow::Result<Parts> {
    // The host part comes first.
    families.sort_by_key(|(family, _)| family != GENERIC);
    let has_generic = families.first().is_some_and(|(family, _)| family == GENERIC);
    let is_alone = |it: &NamedPath| matches!(it.named, Named::Artifacts(FoundArtifacts::One));
    let is_one = families.len() == 1 && named.iter().any(is_alone);
    let directory = families.first().and_then(|(_, path)| path.parent().map(Path::to_owned));
    let located = statement(&component, &families, directory.as_deref())?;
    let is_named = |directory: &PathBuf| named.iter().any(|it| it.path == *directory);
    if let (Some(located), Some(directory)) = (&located, directory.filter(is_named)) {
        let existing = families.iter().map(|(family, _)| ArtifactName::new(&component, family).to_string());
        check_parts(located, &directory, existing, findings)?;
    }
    let mut parts = Vec::new();
    if !has_generic {
        parts.push(missing_host(families.first().map_or(Path::new(""), |(_, path)| path), resources)?);
    }
    for (family, path) in families {
        let label = ArtifactName::new(&component, &family).to_string();
        match Manifest::open_installed(&path, resources) {
            Ok((input, origins)) => parts.push(Part::of_artifact(family, label, input, origins, resources)),
            Err(error) if error.is::<ManifestError>() => findings.add(Rule::ArtifactManifest, label, error),
            Err(error) => return Err(error),
        }
    }
    let is_fragment = is_one || !has_generic;
    let kind = if is_fragment { PartsKind::Fragment } else { PartsKind::of_split(located.as_ref()) };
    let all = parts.into_iter().map(Arc::new).collect();
    let parts = Parts { component: Some(component.clone()), statement: located, ..Parts::new(kind, all) };
    // An artifact that was never split is whole.
    if !has_generic && !is_one && parts.is_split() {
        let reason = format!("there are device parts, but no {}", ArtifactName::new(&component, GENERIC));
        findings.add(Rule::ArtifactHost, component, reason);
    }
    Ok(parts)
}

/// The statement of a component's split: in its parts, or in the directory around them (kpackfs 0.2.0, mounts).
fn statement(
    component: &str,
    families: &[(String, PathBuf)],
    directory: Option<&Path>,
) -> anyhow::Result<Option<LocatedStatement>> {
    for (_, part) in families {
        if let Some(located) = LocatedStatement::read(part, STATEMENT)? {
            return Ok(Some(located));
        }
    }
    let Some(directory) = directory else { return Ok(None) };
    LocatedStatement::read(directory, &statement_of_component(component))
}

/// A missing host part.
fn missing_host(sibling: &Path, resources: &Arc<Resources>) -> anyhow::Result<Part> {
    let mut input = Input::open(sibling, resources)?;
    input.entries.clear();
    Ok(Part::of_artifact(GENERIC.to_owned(), String::new(), input, Origins::default(), resources))
}

/// The artifacts that `--against` names: one, or those in a directory, or those in all of its shards.
pub(super) struct FatArtifacts {
    path: PathBuf,
    artifacts: Vec<(ArtifactName, PathBuf)>,
    /// Whether they are all that was built for these GPUs. A split of a single shard omits components without device code.
    is_one_shard: bool,
    /// Whether the path itself is an artifact.
    is_alone: bool,
}

impl FatArtifacts {
    pub(super) fn of(path: &Path, form: Named) -> anyhow::Result<Self> {
        let (is_alone, is_one_shard, shards) = match form {
            Named::Artifacts(FoundArtifacts::One) => (true, true, Vec::new()),
            Named::Artifacts(found) => (false, true, vec![Some(found)]),
            _ => {
                let shards = shards(path).map_err(SourceError::at(path))?.into_values().map(|shard| find(&shard));
                (false, false, shards.collect::<Result<_, _>>().map_err(SourceError::at(path))?)
            }
        };
        let artifacts = shards.into_iter().filter_map(|found| match found {
            Some(FoundArtifacts::Several { artifacts, .. }) => Some(artifacts),
            Some(FoundArtifacts::One) | None => None,
        });
        let named = artifacts.flatten().filter_map(|(name, path)| Some((ArtifactName::parse(&name)?, path)));
        Ok(Self { path: path.to_owned(), artifacts: named.collect(), is_one_shard, is_alone })
    }

    /// Checks that each of their components is among the input.
    pub(super) fn check_components(&self, existing: &BTreeSet<&str>, chosen: &[String], findings: &Findings) {
        let mut wanted = BTreeMap::<&String, bool>::new();
        for (name, _) in &self.artifacts {
            *wanted.entry(&name.component).or_default() |= !self.is_one_shard || name.family != GENERIC;
        }
        let is_chosen = |component: &String| chosen.is_empty() || chosen.contains(component);
        for (component, _) in wanted.into_iter().filter(|(component, is_wanted)| *is_wanted && is_chosen(component)) {
            if !existing.contains(component.as_str()) {
                let reason = format!("no artifact of it is there, but {} has some", self.path.display());
                findings.add(Rule::AgainstComponent, component, reason);
            }
        }
    }

    /// The artifacts of a component, as installed.
    pub(super) fn of_component(&self, component: &str, resources: &Arc<Resources>) -> anyhow::Result<Vec<Input>> {
        let of_component = self.artifacts.iter().filter(|(name, _)| name.component == component);
        let places = of_component.map(|(_, path)| path).chain(self.is_alone.then_some(&self.path));
        let inputs: Vec<_> =
            places.map(|place| Ok(Manifest::open_installed(place, resources)?.0)).collect::<anyhow::Result<_>>()?;
        if inputs.is_empty() {
            return Err(ManifestError::missing(&self.path.join(component)).into());
        }
        Ok(inputs)
    }
}
