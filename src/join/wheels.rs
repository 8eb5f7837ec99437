//! Several wheels: those that belong together as one tree, or each as an input of its own, a host wheel with its device wheels.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::WheelsError;
use super::overlay::{JoinedWheel, as_one};
use crate::resources::Resources;
use crate::source::{EntryPath, Input};
use crate::wheel::{self, Metadata, WheelName, normalise};

/// Wheels that belong together as one tree, in which each file is where it is installed. Fails if one of them is
/// unrelated to the others.
pub fn open_wheels(paths: &[PathBuf], resources: &Arc<Resources>) -> Result<Input, WheelsError> {
    let wheels = open_all(paths, resources)?;
    check(&wheels)?;
    as_one(wheels)
}

/// Opens each wheel. One may be unpacked, as the host part of a split is.
fn open_all(paths: &[PathBuf], resources: &Arc<Resources>) -> Result<Vec<JoinedWheel>, WheelsError> {
    paths.iter().map(|path| open(path, resources)).collect()
}

/// Several wheels.
#[derive(Debug)]
pub enum SeveralWheels {
    /// They belong together, and are one tree.
    Together(Box<Input>),
    /// They do not, and why. Each is an input, a host wheel together with its device wheels.
    Apart(Vec<Input>, WheelsError),
}

/// Opens several wheels. Variant wheels that are copies of another one are left out.
pub fn open_several(paths: &[PathBuf], resources: &Arc<Resources>) -> Result<SeveralWheels, WheelsError> {
    let wheels = without_copies(open_all(paths, resources)?);
    match check(&wheels) {
        Ok(()) => Ok(SeveralWheels::Together(Box::new(as_one(wheels)?))),
        Err(reason @ (WheelsError::Twice { .. } | WheelsError::Unrelated(_))) => {
            Ok(SeveralWheels::Apart(apart(wheels)?, reason))
        }
        Err(error) => Err(error),
    }
}

/// Opens several wheels, of which only host wheels and their device wheels belong together. An index lists copies too.
pub fn open_apart(paths: &[PathBuf], resources: &Arc<Resources>) -> Result<Vec<Input>, WheelsError> {
    apart(open_all(paths, resources)?)
}

/// The wheels without variant wheels whose files are those of another one, as `split --generate-variant-wheel` makes them. The same
/// device wheels belong to both (PEP 825).
fn without_copies(wheels: Vec<JoinedWheel>) -> Vec<JoinedWheel> {
    let (variants, mut kept): (Vec<_>, Vec<_>) =
        wheels.into_iter().partition(|wheel| wheel.file_name().is_some_and(|name| name.variant.is_some()));
    for variant in variants {
        match kept.iter_mut().find(|other| variant.is_copy_of(other)) {
            Some(other) => {
                let (path, of) = (variant.path.display(), other.path.display());
                other.input.warnings.push(format!("{path}: left out, since its files are those of {of}"));
            }
            None => kept.push(variant),
        }
    }
    kept
}

impl JoinedWheel {
    fn file_name(&self) -> Option<WheelName> {
        WheelName::parse(self.path.file_name()?.to_str()?).ok()
    }

    /// Path, size and CRC-32 of its files without metadata. `None` for an unpacked wheel.
    fn payload(&self) -> Option<Vec<(&EntryPath, u64, u32)>> {
        let files = self.input.files().filter(|(path, _)| !path.is_in_dist_info());
        files.map(|(path, content)| Some((path, content.size(), content.member()?.packed().crc32))).collect()
    }

    /// Whether another wheel has the same name but for the variant, and the same files.
    fn is_copy_of(&self, other: &Self) -> bool {
        let name = |wheel: &Self| wheel.file_name().map(|name| WheelName { variant: None, ..name });
        name(self) == name(other) && self.payload().is_some_and(|own| other.payload() == Some(own))
    }
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
fn check(wheels: &[JoinedWheel]) -> Result<(), WheelsError> {
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
    let unrelated = wheels.iter().find(|wheel| wheels.len() > 1 && !related.contains(&wheel.name));
    match unrelated.map(|wheel| WheelsError::Unrelated(wheel.path.clone())).or(other_version) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}
