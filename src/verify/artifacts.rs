//! Artifacts as input of `verify`: the parts of a component belong together, and are checked as they are installed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::directory::read_directory;
use super::error::VerifyError;
use super::installed::install;
use super::parts::{Part, Parts, PartsKind};
use super::report::Findings;
use super::rules::Rule;
use super::statement::LocatedStatement;
use crate::artifact::{
    ArtifactName, FoundArtifacts, GENERIC, MANIFEST, Manifest, ManifestError, find, name_of_archive, shards,
};
use crate::resources::Resources;
use crate::source::{EntryPath, Input, SourceError};
use crate::split::{STATEMENT, component_of_statement, statement_of_component};
use crate::view::REPORTS;

/// The artifacts of a directory, and whether the directory is a single shard.
type ShardArtifacts = (Vec<(ArtifactName, PathBuf)>, bool);

/// The components of the artifacts in `paths`; `None` if `paths` are not artifacts.
pub(super) fn open(
    paths: &[PathBuf],
    resources: &Arc<Resources>,
    findings: &Findings,
) -> Result<Option<Vec<Parts>>, VerifyError> {
    let mut artifacts = BTreeMap::new();
    let mut others = Vec::new();
    for path in paths {
        if !list(path, &mut artifacts, findings)? {
            others.push(path);
        }
    }
    // Directories next to artifacts must be artifacts as well.
    if artifacts.is_empty() || others.iter().any(|path| !path.is_dir()) {
        return Ok(None);
    }
    for path in others {
        findings.add(Rule::ArtifactManifest, path.display().to_string(), format!("{MANIFEST} not found in it"));
    }
    let mut components = BTreeMap::<String, Vec<(String, PathBuf)>>::new();
    for (name, path) in artifacts {
        match ArtifactName::parse(&name) {
            Some(name) => components.entry(name.component).or_default().push((name.family, path)),
            None => findings.add(Rule::ArtifactName, name, "its name is no artifact's: <component>_<family>"),
        }
    }
    for path in paths {
        check_components_of(path, &components, findings)?;
    }
    let open = |(component, families)| open_component(component, families, paths, resources, findings);
    components.into_iter().map(open).collect::<Result<_, _>>().map(Some)
}

/// Checks that the components which were split into a directory exist.
fn check_components_of(
    directory: &Path,
    existing: &BTreeMap<String, Vec<(String, PathBuf)>>,
    findings: &Findings,
) -> Result<(), VerifyError> {
    for component in components(directory)?.iter().filter(|component| !existing.contains_key(*component)) {
        if let Some(located) = LocatedStatement::read(directory, &statement_of_component(component))? {
            located.check_parts(directory, [], findings)?;
        }
    }
    Ok(())
}

/// The components with statements in a directory of artifacts.
fn components(directory: &Path) -> Result<Vec<String>, VerifyError> {
    let reports = directory.join(REPORTS);
    if !reports.is_dir() {
        return Ok(Vec::new());
    }
    let names = read_directory(&reports)?;
    let names = names.iter().filter_map(|path| component_of_statement(path.file_name()?.to_str()?));
    Ok(names.map(str::to_owned).collect())
}

/// Adds the artifact `path` or those in it. `false` if there are none.
fn list(path: &Path, artifacts: &mut BTreeMap<String, PathBuf>, findings: &Findings) -> Result<bool, VerifyError> {
    match find(path).map_err(|source| SourceError::Io { path: path.to_owned(), source })? {
        Some(FoundArtifacts::One) => {
            let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
            let of_archive = name_of_archive(path).filter(|_| path.is_file()).map(str::to_owned);
            let name = of_archive.or_else(|| Some(absolute.file_name()?.to_string_lossy().into_owned()));
            artifacts.insert(name.unwrap_or_default(), path.to_owned());
        }
        Some(FoundArtifacts::Several { artifacts: found, others, .. }) if !found.is_empty() => {
            artifacts.extend(found);
            for name in others {
                findings.add(Rule::ArtifactManifest, name, format!("{MANIFEST} not found in it"));
            }
        }
        None | Some(FoundArtifacts::Several { .. }) => return Ok(false),
    }
    Ok(true)
}

fn open_component(
    component: String,
    mut families: Vec<(String, PathBuf)>,
    paths: &[PathBuf],
    resources: &Arc<Resources>,
    findings: &Findings,
) -> Result<Parts, VerifyError> {
    // The host part comes first.
    families.sort_by_key(|(family, _)| family != GENERIC);
    let has_generic = families.first().is_some_and(|(family, _)| family == GENERIC);
    let is_one = families.len() == 1 && paths.iter().any(|path| matches!(find(path), Ok(Some(FoundArtifacts::One))));
    let directory = families.first().and_then(|(_, path)| path.parent().map(Path::to_owned));
    let located = statement(&component, &families, directory.as_deref())?;
    if let (Some(located), Some(directory)) = (&located, directory.filter(|directory| paths.contains(directory))) {
        let existing = families.iter().map(|(family, _)| ArtifactName::new(&component, family).to_string());
        located.check_parts(&directory, existing, findings)?;
    }
    let mut parts = Vec::new();
    if !has_generic {
        if !is_one {
            let reason = format!("there are device parts, but no {}", ArtifactName::new(&component, GENERIC));
            findings.add(Rule::ArtifactHost, component.as_str(), reason);
        }
        parts.push(missing_host(families.first().map_or(Path::new(""), |(_, path)| path), resources)?);
    }
    for (family, path) in families {
        let label = ArtifactName::new(&component, &family).to_string();
        let say =
            |path: &EntryPath, reason: String| findings.add(Rule::InstallConflict, format!("{label}/{path}"), reason);
        match flattened(&path, resources, say) {
            Ok((input, origins)) => {
                parts.push(Part::of_artifact(family, label, input, origins, resources));
            }
            Err(VerifyError::Manifest(error)) => findings.add(Rule::ArtifactManifest, label, error),
            Err(error) => return Err(error),
        }
    }
    let has_all = located.as_ref().is_none_or(|located| located.statement.views().is_empty());
    let kind = match (is_one || !has_generic, has_all) {
        (true, _) => PartsKind::Fragment,
        (false, true) => PartsKind::Split,
        (false, false) => PartsKind::Partial,
    };
    let all = parts.into_iter().map(Arc::new).collect();
    Ok(Parts { component: Some(component), statement: located, ..Parts::new(kind, all) })
}

/// The statement of a component's split: in its parts, or in the directory around them (kpackfs 0.2.0, mounts).
fn statement(
    component: &str,
    families: &[(String, PathBuf)],
    directory: Option<&Path>,
) -> Result<Option<LocatedStatement>, VerifyError> {
    for (_, part) in families {
        if let Some(located) = LocatedStatement::read(part, STATEMENT)? {
            return Ok(Some(located));
        }
    }
    directory.map_or(Ok(None), |directory| LocatedStatement::read(directory, &statement_of_component(component)))
}

/// A missing host part.
fn missing_host(sibling: &Path, resources: &Arc<Resources>) -> Result<Part, VerifyError> {
    let mut input = Input::open(sibling, resources)?;
    input.entries.clear();
    Ok(Part::of_artifact(GENERIC.to_owned(), String::new(), input, HashMap::new(), resources))
}

/// An artifact as installed, with its prefixes laid over each other, and the original path of each file. Reports files
/// that are in the way of each other.
fn flattened(
    path: &Path,
    resources: &Arc<Resources>,
    say: impl Fn(&EntryPath, String),
) -> Result<(Input, HashMap<EntryPath, EntryPath>), VerifyError> {
    let mut input = Input::open(path, resources)?;
    let manifest = Manifest::of(&input)?;
    manifest.keep_installed(&mut input);
    let installed = |path: &EntryPath| path.below(manifest.prefix_of(path)?).filter(|path| !path.is_root());
    let origins = install(&mut input, installed, say);
    Ok((input, origins))
}

/// Checks that each component of the directory of artifacts `against` is among the input. A split of a single shard
/// omits components without device code.
pub(super) fn check_components(
    paths: &[PathBuf],
    against: &Path,
    existing: &BTreeSet<&str>,
    components: &[String],
    findings: &Findings,
) -> Result<(), VerifyError> {
    let has_all = paths.iter().any(|path| matches!(find(path), Ok(Some(FoundArtifacts::Several { .. }))));
    if !has_all {
        return Ok(());
    }
    let Some((artifacts, is_one_shard)) = artifacts_in(against)? else { return Ok(()) };
    let mut wanted = BTreeMap::<String, BTreeSet<String>>::new();
    for (name, _) in artifacts {
        wanted.entry(name.component).or_default().insert(name.family);
    }
    let is_wanted = |component: &String| components.is_empty() || components.contains(component);
    let needs_none = |families: &BTreeSet<String>| is_one_shard && families.iter().all(|family| family == GENERIC);
    for (component, families) in wanted {
        if is_wanted(&component) && !existing.contains(component.as_str()) && !needs_none(&families) {
            let reason = format!("no artifact of it is there, but {} has some", against.display());
            findings.add(Rule::AgainstComponent, component, reason);
        }
    }
    Ok(())
}

/// The fat artifacts of a component, as installed, in `against`, which may have several shards.
pub(super) fn fats(against: &Path, component: &str, resources: &Arc<Resources>) -> Result<Vec<Input>, VerifyError> {
    let places = match artifacts_in(against)? {
        None => vec![against.to_owned()],
        Some((artifacts, _)) => {
            let of_component = artifacts.into_iter().filter(|(name, _)| name.component == component);
            of_component.map(|(_, path)| path).collect()
        }
    };
    if places.is_empty() {
        return Err(ManifestError::Missing(against.join(component)).into());
    }
    places.iter().map(|place| Ok(flattened(place, resources, |_, _| {})?.0)).collect()
}

/// The artifacts in a directory, or in all of its shards. `None` if the path itself is an artifact.
fn artifacts_in(path: &Path) -> Result<Option<ShardArtifacts>, SourceError> {
    let io = |source| SourceError::Io { path: path.to_owned(), source };
    let (shards, is_one_shard) = match find(path).map_err(io)? {
        Some(FoundArtifacts::One) => return Ok(None),
        Some(found) => (vec![Some(found)], true),
        None => {
            (shards(path).map_err(io)?.values().map(|shard| find(shard)).collect::<Result<_, _>>().map_err(io)?, false)
        }
    };
    let artifacts = shards.into_iter().filter_map(|found| match found {
        Some(FoundArtifacts::Several { artifacts, .. }) => Some(artifacts),
        Some(FoundArtifacts::One) | None => None,
    });
    let named = artifacts.flatten().filter_map(|(name, path)| Some((ArtifactName::parse(&name)?, path)));
    Ok(Some((named.collect(), is_one_shard)))
}
