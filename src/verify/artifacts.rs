//! Artifacts as what is checked: the parts of a component belong together, each as it is installed.

use std::collections::btree_map::Entry as Slot;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::VerifyError;
use super::report::{Check, Findings};
use super::subject::{Kind, Part, Parts};
use crate::artifact::{ArtifactName, Found, GENERIC, MANIFEST, Manifest, ManifestError, find, shards};
use crate::index::Resources;
use crate::rope::equal;
use crate::source::{Entry, EntryKind, EntryPath, Input, SourceError};

/// The components of the artifacts that `paths` are or hold; `None` if they are none.
pub(super) fn open(
    paths: &[PathBuf],
    resources: &Arc<Resources>,
    findings: &Findings,
) -> Result<Option<Vec<Parts>>, VerifyError> {
    let mut artifacts = BTreeMap::new();
    for path in paths {
        let found = list(path, &mut artifacts, findings)?;
        if !found {
            return Ok(None);
        }
    }
    let mut components = BTreeMap::<String, Vec<(String, PathBuf)>>::new();
    for (name, path) in artifacts {
        match ArtifactName::parse(&name) {
            Some(name) => components.entry(name.component).or_default().push((name.family, path)),
            None => findings.add(Check::Artifact, name, "its name is no artifact's: <component>_<family>"),
        }
    }
    let open = |(component, families)| open_component(component, families, paths, resources, findings);
    components.into_iter().map(open).collect::<Result<_, _>>().map(Some)
}

/// Adds the artifacts that `path` is or holds; `false` if there are none.
fn list(path: &Path, artifacts: &mut BTreeMap<String, PathBuf>, findings: &Findings) -> Result<bool, VerifyError> {
    match find(path).map_err(|source| SourceError::Io { path: path.to_owned(), source })? {
        Some(Found::One) => {
            let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
            let name = absolute.file_name().map(|name| name.to_string_lossy().into_owned());
            artifacts.insert(name.unwrap_or_default(), path.to_owned());
        }
        Some(Found::Several { artifacts: found, others, .. }) if !found.is_empty() => {
            artifacts.extend(found);
            for name in others {
                findings.add(Check::Artifact, name, format!("{MANIFEST} not found in it"));
            }
        }
        None | Some(Found::Several { .. }) => return Ok(false),
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
    // The host part is the first.
    families.sort_by_key(|(family, _)| family != GENERIC);
    let has_generic = families.first().is_some_and(|(family, _)| family == GENERIC);
    let is_one = families.len() == 1 && paths.iter().any(|path| path.join(MANIFEST).is_file());
    let mut parts = Vec::new();
    if !has_generic {
        if !is_one {
            let reason = format!("there are device parts, but no {}", ArtifactName::new(&component, GENERIC));
            findings.add(Check::Artifact, component.as_str(), reason);
        }
        parts.push(nothing(families.first().map_or(Path::new(""), |(_, path)| path), resources)?);
    }
    for (family, path) in families {
        let label = ArtifactName::new(&component, &family).to_string();
        let say = |path: &EntryPath, reason: String| findings.add(Check::Artifact, format!("{label}/{path}"), reason);
        match flattened(&path, resources, say) {
            Ok((input, origins)) => parts.push(Part { name: family, label, input, origins }),
            Err(VerifyError::Manifest(error)) => findings.add(Check::Artifact, label, error),
            Err(error) => return Err(error),
        }
    }
    let kind = if is_one || !has_generic { Kind::Fragment } else { Kind::Split };
    Ok(Parts { kind, component: Some(component), all: parts.into_iter().map(Arc::new).collect() })
}

/// A host part that is not there.
fn nothing(beside: &Path, resources: &Arc<Resources>) -> Result<Part, VerifyError> {
    let mut input = Input::open(beside, resources)?;
    input.entries.clear();
    Ok(Part { name: GENERIC.to_owned(), label: String::new(), input, origins: HashMap::new() })
}

/// An artifact as it is installed, with its prefixes laid over each other, and where each file was before. Tells which
/// files are in the way of each other.
fn flattened(
    path: &Path,
    resources: &Arc<Resources>,
    say: impl Fn(&EntryPath, String),
) -> Result<(Input, HashMap<EntryPath, EntryPath>), VerifyError> {
    let mut input = Input::open(path, resources)?;
    let manifest = Manifest::of(&input)?;
    manifest.keep_installed(&mut input);
    let mut entries = BTreeMap::<EntryPath, Entry>::new();
    let mut origins = HashMap::new();
    for entry in std::mem::take(&mut input.entries) {
        let Some(prefix) = manifest.prefix_of(&entry.path) else { continue };
        let Some(installed) = entry.path.below(prefix).filter(|path| !path.is_root()) else { continue };
        match entries.entry(installed.clone()) {
            Slot::Vacant(slot) => {
                origins.insert(installed.clone(), entry.path.clone());
                slot.insert(Entry { path: installed, ..entry });
            }
            Slot::Occupied(there) => {
                if !is_same(&there.get().kind, &entry.kind) {
                    let other = origins.get(&installed).unwrap_or(&installed);
                    say(&entry.path, format!("{other} is installed at the same place"));
                }
            }
        }
    }
    input.entries = entries.into_values().collect();
    Ok((input, origins))
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

/// The fat artifacts of a component, as they are installed, that `against` is or holds, perhaps in several shards.
pub(super) fn fats(against: &Path, component: &str, resources: &Arc<Resources>) -> Result<Vec<Input>, VerifyError> {
    let io = |source| SourceError::Io { path: against.to_owned(), source };
    let mut places = Vec::new();
    let of_component = |artifacts: BTreeMap<String, PathBuf>| {
        let is_it = |name: &String| ArtifactName::parse(name).is_some_and(|name| name.component == component);
        artifacts.into_iter().filter(move |(name, _)| is_it(name)).map(|(_, path)| path).collect::<Vec<_>>()
    };
    match find(against).map_err(io)? {
        Some(Found::One) => places.push(against.to_owned()),
        Some(Found::Several { artifacts, .. }) => places.extend(of_component(artifacts)),
        None => {
            for shard in shards(against).map_err(io)?.into_values() {
                if let Some(Found::Several { artifacts, .. }) = find(&shard).map_err(io)? {
                    places.extend(of_component(artifacts));
                }
            }
        }
    }
    if places.is_empty() {
        return Err(ManifestError::Missing(against.join(component)).into());
    }
    places.iter().map(|place| Ok(flattened(place, resources, |_, _| {})?.0)).collect()
}
