//! Several wheels that belong together, as the tree into which pip installs them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::overlay::WheelOverlay;
use crate::resources::Resources;
use crate::rope::ReadError;
use crate::source::{Input, OnePath, SourceError};
use crate::wheel::{self, Metadata, WheelError, WheelLabel, normalise};

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
