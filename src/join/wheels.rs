//! Several wheels that belong together, as the tree into which pip installs them.
//! They are laid over each other, with each file where it is installed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::gpu::BundleKey;
use crate::resources::Resources;
use crate::rope::ReadError;
use crate::source::{DeviceWheel, Entry, EntryKind, EntryPath, HostWheel, Input, InputKind, OnePath, SourceError};
use crate::wheel::{self, Added, Metadata, WheelError, WheelLabel, normalise};

/// Why several inputs cannot be used together.
#[derive(Debug, thiserror::Error)]
pub enum WheelsError {
    /// One of them cannot be listed.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// One of them cannot be used.
    #[error("{}: {source}", path.display())]
    Wheel { path: PathBuf, source: WheelError },
    /// One of them is not a wheel.
    #[error("{}: of several inputs each has to be a wheel, packed or not, and this is none", .0.display())]
    NotAWheel(PathBuf),
    /// Two are wheels of the same distribution.
    #[error("{} and {}: both are {name}; name one of them", first.display(), second.display())]
    Twice { first: PathBuf, second: PathBuf, name: String },
    /// One requires another version of one of the others.
    #[error("{}: it requires {name} {wanted}, and {} is version {found}", path.display(), other.display())]
    Version {
        /// The wheel.
        path: PathBuf,
        /// The required distribution.
        name: String,
        /// The required version.
        wanted: String,
        /// The wheel of that distribution.
        other: PathBuf,
        /// Its version.
        found: String,
    },
    /// One is unrelated to the others.
    #[error("{}: it neither requires one of the other wheels in exactly one version, nor does one of them require it so; name those that belong together, or write an index of all (split --format index)", .0.display())]
    Unrelated(PathBuf),
    /// Two install different files at one path.
    #[error(transparent)]
    OnePath(#[from] OnePath),
    /// Bytes cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

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

/// Wheels that belong together as one tree, in which each file is where it is installed. Fails if one of them is
/// unrelated to the others.
pub fn open_wheels(paths: &[PathBuf], resources: &Arc<Resources>) -> Result<Input, WheelsError> {
    let wheels = open_all(paths, resources)?;
    check(&wheels)?;
    as_one(wheels)
}

/// Opens each wheel. One may be unpacked, as the host part of a split is.
pub(super) fn open_all(paths: &[PathBuf], resources: &Arc<Resources>) -> Result<Vec<JoinedWheel>, WheelsError> {
    paths.iter().map(|path| open(path, resources)).collect()
}

/// One wheel as it is, or several as one tree.
pub(super) fn as_one(mut wheels: Vec<JoinedWheel>) -> Result<Input, WheelsError> {
    if wheels.len() == 1
        && let Some(only) = wheels.pop()
    {
        return Ok(only.input);
    }
    let host = host(&wheels).map(|host| (host.name.clone(), host.metadata.added()));
    let mut overlay = WheelOverlay::new(host);
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

fn open(path: &Path, resources: &Arc<Resources>) -> Result<JoinedWheel, WheelsError> {
    let path = path.to_owned();
    if !path.is_dir() && path.extension().is_none_or(|extension| extension != "whl") {
        return Err(WheelsError::NotAWheel(path));
    }
    let input = Input::open(&path, resources)?;
    if input.dist_info().is_none() {
        return Err(WheelsError::NotAWheel(path));
    }
    match Metadata::read(&input) {
        Ok(metadata) => Ok(JoinedWheel { name: normalise(&metadata.name), path, input, metadata }),
        Err(source) => Err(WheelsError::Wheel { path, source }),
    }
}

/// Checks that versions match, and that each wheel is related to another one.
pub(super) fn check(wheels: &[JoinedWheel]) -> Result<(), WheelsError> {
    let mut existing = BTreeMap::<&str, &JoinedWheel>::new();
    for wheel in wheels {
        if let Some(first) = existing.insert(&wheel.name, wheel) {
            let (first, second) = (first.path.clone(), wheel.path.clone());
            return Err(WheelsError::Twice { first, second, name: wheel.metadata.name.clone() });
        }
    }
    let mut related = BTreeSet::new();
    let mut other_version = None;
    for wheel in wheels {
        let of_extras = wheel.metadata.pins_of_extras().map(|(_, name, version)| (name, version));
        for (name, wanted) in wheel.metadata.pins().chain(of_extras) {
            let Some(other) = existing.get(name.as_str()).filter(|other| other.name != wheel.name) else { continue };
            related.extend([wheel.name.clone(), name.clone()]);
            if other_version.is_none() && !wheel::accepts(wanted, &other.metadata.version) {
                other_version = Some(WheelsError::Version {
                    path: wheel.path.clone(),
                    name,
                    wanted: wanted.to_owned(),
                    other: other.path.clone(),
                    found: other.metadata.version.clone(),
                });
            }
        }
    }
    let unrelated = wheels.iter().find(|wheel| !related.contains(&wheel.name));
    match unrelated.map(|wheel| WheelsError::Unrelated(wheel.path.clone())).or(other_version) {
        Some(error) => Err(error),
        None => Ok(()),
    }
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
    fn new(host: Option<(String, Added)>) -> Self {
        Self { host, ..Self::default() }
    }

    /// Adds a wheel. Fails if it and another one install different files at one path, unless they are device wheels of
    /// GPUs that have nothing in common: an installation for one of these has one of the files.
    fn add(&mut self, wheel: JoinedWheel) -> Result<(), WheelsError> {
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
