//! Wheels that do not belong together: each is an input of its own, a host wheel together with its device wheels.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use super::wheels::{JoinedWheel, WheelsError, as_one, check, open_all};
use crate::resources::Resources;
use crate::source::Input;

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
