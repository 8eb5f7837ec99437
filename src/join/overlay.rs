//! Wheels over each other, with each file where it is installed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use super::wheels::{JoinedWheel, WheelsError};
use crate::gpu::BundleKey;
use crate::source::{DeviceWheel, Entry, EntryKind, EntryPath, HostWheel, Input, InputKind, OnePath};
use crate::wheel::{self, Added, Metadata, normalise};

/// Wheels over each other.
#[derive(Default)]
pub(super) struct WheelOverlay {
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
    pub(super) fn new(host: Option<(String, Added)>) -> Self {
        Self { host, ..Self::default() }
    }

    /// Adds a wheel. Fails if it and another one install different files at one path, unless they are device wheels of
    /// GPUs that have nothing in common: an installation for one of these has one of the files.
    pub(super) fn add(&mut self, wheel: JoinedWheel) -> Result<(), WheelsError> {
        let JoinedWheel { path, mut input, name, metadata } = wheel;
        let is_host = self.host.as_ref().is_some_and(|(host, _)| *host == name);
        let part = self.host.as_ref().filter(|_| !is_host).and_then(|(_, added)| added.part(&name).cloned());
        if is_host {
            self.dist_info = input.dist_info().cloned();
        }
        self.wheels.push(OverlaidWheel { path: path.clone(), part: part.clone() });
        let mut files = Vec::new();
        for entry in std::mem::take(&mut input.entries) {
            let installed = wheel::installed(&entry.path);
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
    pub(super) fn finish(self) -> Result<Input, WheelsError> {
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
