//! How the parts of splits are installed: those of one laid over each other; wheels that do not belong together each as
//! an input of its own, a host wheel with its device wheels; and versions of installed wheels that do not fit.

use std::collections::btree_map::Entry as Slot;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use super::wheels::{JoinedWheel, WheelsError, as_one, check, open_all};
use crate::memory::{Parser, WholeFile};
use crate::resources::Resources;
use crate::source::{Entry, EntryPath, Input, InputKind};
use crate::wheel::{self, Metadata, normalise};

/// The parts of a split as one tree, of which the host part comes first. Parts of a wheel are laid over each other as their
/// wheels are.
pub fn lay_over(mut parts: Vec<Input>) -> Result<Input, WheelsError> {
    if parts.len() == 1
        && let Some(only) = parts.pop()
    {
        return Ok(only);
    }
    let metadata: Option<Vec<_>> = parts.iter().map(|part| part.dist_info().and(Metadata::read(part).ok())).collect();
    match metadata {
        Some(metadata) => {
            let wheel = |(input, metadata): (Input, Metadata)| JoinedWheel {
                path: input.location.clone(),
                name: normalise(&metadata.name),
                input,
                metadata,
            };
            as_one(parts.into_iter().zip(metadata).map(wheel).collect())
        }
        None => as_tree(parts),
    }
}

/// Of different files at one path, the first is taken.
fn as_tree(parts: Vec<Input>) -> Result<Input, WheelsError> {
    let (mut whole, mut entries) = (None::<Input>, BTreeMap::<EntryPath, Entry>::new());
    let mut warnings = Vec::new();
    for mut part in parts {
        for entry in std::mem::take(&mut part.entries) {
            match entries.entry(entry.path.clone()) {
                Slot::Vacant(slot) => drop(slot.insert(entry)),
                Slot::Occupied(first) => {
                    if let Some(reason) = first.get().kind.difference(&entry.kind)? {
                        let (path, place) = (&entry.path, part.location.display());
                        warnings.push(format!("{path}: that of {place} is left out: {reason} in an earlier part"));
                    }
                }
            }
        }
        warnings.append(&mut part.warnings);
        match &mut whole {
            Some(whole) => whole.tables.append(&mut part.tables),
            None => whole = Some(part),
        }
    }
    let mut whole = whole.ok_or_else(|| WheelsError::NotAWheel(std::path::PathBuf::new()))?;
    (whole.kind, whole.entries, whole.warnings) = (InputKind::Tree, entries.into_values().collect(), warnings);
    Ok(whole)
}

/// Several wheels.
#[derive(Debug)]
pub enum SeveralWheels {
    /// They belong together, and are one tree.
    Together(Box<Input>),
    /// They do not, and why. Each is an input, a host wheel together with its device wheels.
    Apart(Vec<Input>, WheelsError),
}

/// Opens several wheels.
pub fn open_several(paths: &[PathBuf], resources: &Arc<Resources>) -> Result<SeveralWheels, WheelsError> {
    let wheels = open_all(paths, resources)?;
    match check(&wheels) {
        Ok(()) => Ok(SeveralWheels::Together(Box::new(as_one(wheels)?))),
        Err(reason @ (WheelsError::Twice { .. } | WheelsError::Unrelated(_))) => {
            Ok(SeveralWheels::Apart(apart(wheels)?, reason))
        }
        Err(error) => Err(error),
    }
}

/// Opens several wheels, of which only host wheels and their device wheels belong together.
pub fn open_apart(paths: &[PathBuf], resources: &Arc<Resources>) -> Result<Vec<Input>, WheelsError> {
    apart(open_all(paths, resources)?)
}

fn apart(wheels: Vec<JoinedWheel>) -> Result<Vec<Input>, WheelsError> {
    let hosts = hosts(&wheels);
    let mut sets = BTreeMap::<usize, Vec<JoinedWheel>>::new();
    for (number, wheel) in wheels.into_iter().enumerate() {
        let host = hosts.get(&number).copied().unwrap_or(number);
        sets.entry(host).or_default().push(wheel);
    }
    sets.into_values().map(as_one).collect()
}

/// The host wheel of each device wheel: one whose extras name it.
fn hosts(wheels: &[JoinedWheel]) -> BTreeMap<usize, usize> {
    let mut naming = BTreeMap::<String, Vec<usize>>::new();
    for (number, host) in wheels.iter().enumerate() {
        for name in host.metadata.added().devices().filter(|name| *name != host.name) {
            naming.entry(name.to_owned()).or_default().push(number);
        }
    }
    let host = |(number, device): (usize, &JoinedWheel)| {
        let candidates = naming.get(&device.name)?;
        let labels: Vec<_> = candidates.iter().filter_map(|&host| wheels.get(host)).map(JoinedWheel::label).collect();
        let own = device.label().hosts(&labels);
        Some((number, *candidates.get(*own.first()?)?))
    };
    let mut hosts: BTreeMap<_, _> = wheels.iter().enumerate().filter_map(host).collect();
    // A host wheel is in its own set.
    let own: BTreeSet<_> = hosts.values().copied().collect();
    hosts.retain(|device, _| !own.contains(device));
    hosts
}

/// Warnings about device wheels in a directory that are not of the version that their host wheel requires.
pub(super) fn mixed_versions(input: &Input) -> Vec<String> {
    let all = if matches!(input.kind, InputKind::Tree) { metadata(input) } else { Vec::new() };
    let versions: BTreeMap<_, _> = all.iter().map(|it| (normalise(&it.name), it.version.as_str())).collect();
    let mut warnings = Vec::new();
    for host in &all {
        let added = host.added();
        let mut pins: Vec<_> = host.pins_of_extras().map(|(_, name, version)| (name, version)).collect();
        pins.sort();
        pins.dedup();
        for (name, wanted) in pins.into_iter().filter(|(name, _)| added.has(name)) {
            if let Some(found) = versions.get(&name).filter(|found| !wheel::accepts(wanted, found)) {
                warnings.push(format!(
                    "{name} is version {found}, and {} {} requires {wanted}: their code may not belong together",
                    host.name, host.version
                ));
            }
        }
    }
    warnings
}

/// The METADATA of all distributions. What cannot be read or parsed is not judged here.
fn metadata(input: &Input) -> Vec<Metadata> {
    let is_metadata = |path: &EntryPath| path.depth() == 2 && path.name() == b"METADATA" && path.is_in_dist_info();
    let files = input.files().filter(|(path, _)| is_metadata(path));
    let read = files.filter_map(|(path, content)| Some((path, WholeFile::of(Parser::Metadata, &**content).ok()?)));
    read.filter_map(|(path, text)| Metadata::parse(text.into_bytes(), path).ok()).collect()
}
