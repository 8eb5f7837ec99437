//! Wheels or parts of a split laid over each other, as one tree. Files of wheels are where pip installs them.

use std::collections::btree_map::Entry as Slot;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use super::error::WheelsError;
use crate::gpu::BundleKey;
use crate::source::{DeviceWheel, Entry, EntryKind, EntryPath, HostWheel, Input, InputKind, OnePath};
use crate::wheel::{self, Added, Metadata, WheelLabel, normalise};

/// One of several wheels.
pub(super) struct JoinedWheel {
    pub(super) path: PathBuf,
    pub(super) input: Input,
    pub(super) metadata: Metadata,
    /// The normalised name of its distribution.
    pub(super) name: String,
}

impl JoinedWheel {
    pub(super) fn label(&self) -> WheelLabel<'_> {
        WheelLabel { metadata: Some(&self.metadata), path: &self.path }
    }
}

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

/// One wheel as it is, or several as one tree.
pub(super) fn as_one(mut wheels: Vec<JoinedWheel>) -> Result<Input, WheelsError> {
    if wheels.len() == 1
        && let Some(only) = wheels.pop()
    {
        return Ok(only.input);
    }
    let mut overlay = host(&wheels).map(WheelOverlay::on).unwrap_or_default();
    wheels.into_iter().try_for_each(|wheel| overlay.add(wheel))?;
    overlay.finish()
}

/// The host wheel, whose extras require all others.
fn host(wheels: &[JoinedWheel]) -> Option<&JoinedWheel> {
    wheels.iter().find(|host| {
        let added = host.metadata.added();
        wheels.iter().all(|wheel| wheel.name == host.name || added.has(&wheel.name))
    })
}

/// Wheels over each other.
#[derive(Default)]
struct WheelOverlay {
    /// The name of the host wheel, and the device wheels that it requires, if all wheels are these.
    host: Option<(String, Added)>,
    /// The host wheel's.
    dist_info: Option<EntryPath>,
    entries: BTreeMap<EntryPath, (Entry, usize)>,
    wheels: Vec<OverlaidWheel>,
    whole: Option<Input>,
    devices: Vec<DeviceWheel>,
    shared: BTreeSet<EntryPath>,
    conflicts: BTreeMap<EntryPath, OnePath>,
}

struct OverlaidWheel {
    path: PathBuf,
    part: Option<BundleKey>,
}

impl WheelOverlay {
    fn on(host: &JoinedWheel) -> Self {
        let dist_info = host.input.dist_info().cloned();
        Self { host: Some((host.name.clone(), host.metadata.added())), dist_info, ..Self::default() }
    }

    /// The directory of what is not installed next to the packages: the data directory of the host wheel.
    fn data(&self) -> Vec<u8> {
        let stem = self.dist_info.as_ref().and_then(|it| it.as_bytes().strip_suffix(b".dist-info"));
        [stem.unwrap_or_default(), b".data"].concat()
    }

    /// Adds a wheel. Fails if it and another one install different files at one path, unless they are device wheels of
    /// GPUs that have nothing in common: an installation for one of these has one of the files.
    fn add(&mut self, wheel: JoinedWheel) -> Result<(), WheelsError> {
        let JoinedWheel { path, mut input, name, metadata } = wheel;
        let is_host = self.host.as_ref().is_some_and(|(host, _)| *host == name);
        let part = self.host.as_ref().filter(|_| !is_host).and_then(|(_, added)| added.part(&name).cloned());
        self.wheels.push(OverlaidWheel { path: path.clone(), part: part.clone() });
        let (mut files, data) = (Vec::new(), self.data());
        for entry in std::mem::take(&mut input.entries) {
            let installed = wheel::moved(&entry.path, &data);
            if is_gone(&entry, &installed) {
                continue;
            }
            let entry = Entry { path: installed, ..entry };
            if part.is_some() && !matches!(entry.kind, EntryKind::Directory) {
                files.push(entry.clone());
            }
            self.insert(entry)?;
        }
        let location = input.location.clone();
        match &mut self.whole {
            Some(whole) => {
                whole.warnings.append(&mut input.warnings);
                whole.tables.append(&mut input.tables);
                if is_host {
                    whole.location.clone_from(&location);
                }
            }
            None => self.whole = Some(Input { kind: InputKind::Wheels(None), file: None, ..input }),
        }
        files.sort_by(|one, other| one.path.cmp(&other.path));
        files.dedup_by(|one, other| one.path == other.path);
        let requires = self.other_requirements(&metadata);
        self.devices.extend(part.map(|part| DeviceWheel { location, part: part.to_string(), requires, files }));
        Ok(())
    }

    /// The requirements of a wheel on distributions that are none of these.
    fn other_requirements(&self, metadata: &Metadata) -> Vec<String> {
        let Some((host, added)) = &self.host else { return Vec::new() };
        let is_other = |requirement: &String| {
            let name = normalise(wheel::required_name(requirement));
            name != *host && !added.has(&name)
        };
        let lines = metadata.requirements().map(|it| it.split_whitespace().collect::<Vec<_>>().join(" "));
        lines.filter(is_other).collect()
    }

    /// Adds an entry of the last wheel.
    fn insert(&mut self, entry: Entry) -> Result<(), WheelsError> {
        let number = self.wheels.len().saturating_sub(1);
        let Some((first, of)) = self.entries.get(&entry.path) else {
            self.entries.insert(entry.path.clone(), (entry, number));
            return Ok(());
        };
        let (Some(one), Some(other)) = (self.wheels.get(*of), self.wheels.get(number)) else { return Ok(()) };
        if let Some(reason) = first.kind.difference(&entry.kind)? {
            let (first, second) = (one.path.clone(), other.path.clone());
            let conflict = OnePath { first, second, installed: entry.path.clone(), reason };
            if !are_apart(one.part.as_ref(), other.part.as_ref()) {
                return Err(conflict.into());
            }
            self.conflicts.entry(entry.path).or_insert(conflict);
        } else if one.part.is_none() != other.part.is_none() {
            self.shared.insert(entry.path);
        }
        Ok(())
    }

    /// The wheels as one input.
    fn finish(self) -> Result<Input, WheelsError> {
        let mut whole = self.whole.ok_or_else(|| WheelsError::NotAWheel(PathBuf::new()))?;
        whole.entries = self.entries.into_values().map(|(entry, _)| entry).collect();
        let Some((_, dist_info)) = self.host.zip(self.dist_info) else { return Ok(whole) };
        whole.entries.retain(|entry| !entry.path.is_in_dist_info() || entry.path.below(&dist_info).is_some());
        let (devices, shared, conflicts) = (self.devices, self.shared, self.conflicts);
        whole.kind = InputKind::Wheels(Some(Arc::new(HostWheel { dist_info, devices, shared, conflicts })));
        Ok(whole)
    }
}

/// Whether an entry is not installed: data directories themselves are not.
fn is_gone(entry: &Entry, installed: &EntryPath) -> bool {
    let is_data = || entry.path.name().ends_with(b".data") && entry.path.depth() == 1;
    installed.is_root() || matches!(entry.kind, EntryKind::Directory) && is_data()
}

/// Whether no GPU needs both device parts.
fn are_apart(one: Option<&BundleKey>, other: Option<&BundleKey>) -> bool {
    let (Some(one), Some(other)) = (one, other) else { return false };
    !one.packaging_chain().contains(other) && !other.packaging_chain().contains(one)
}
