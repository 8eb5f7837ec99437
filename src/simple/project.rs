//! A project of an index.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;

use super::wheel::{Distinction, IndexedWheel};

/// Two wheels that an installer cannot tell apart.
#[derive(Debug, thiserror::Error)]
#[error(
    "{} and {}: an index can have one of them only, since both are {name} {version} for the same systems",
    first.display(),
    second.display()
)]
pub struct SameWheel {
    first: PathBuf,
    second: PathBuf,
    name: String,
    version: String,
}

/// A project: its wheels of all versions.
#[derive(Debug)]
pub(super) struct Project {
    /// The normalised name.
    pub(super) name: String,
    /// By their file names.
    wheels: BTreeMap<String, IndexedWheel>,
    /// Their inputs, by what tells wheels apart.
    inputs: HashMap<Distinction, PathBuf>,
}

impl Project {
    pub(super) fn new(name: String) -> Self {
        Self { name, wheels: BTreeMap::new(), inputs: HashMap::new() }
    }

    /// Adds a wheel, unless there is one that installers cannot tell from it.
    pub(super) fn add(&mut self, wheel: IndexedWheel) -> Result<(), SameWheel> {
        let second = wheel.input.clone();
        if let Some(first) = self.inputs.insert(wheel.distinction(), second.clone()) {
            let (name, version) = (self.name.clone(), wheel.name.version.clone());
            return Err(SameWheel { first, second, name, version });
        }
        self.wheels.insert(wheel.name.to_string(), wheel);
        Ok(())
    }

    /// The wheels, sorted by their file names.
    pub(super) fn wheels(&self) -> impl Iterator<Item = &IndexedWheel> {
        self.wheels.values()
    }

    /// All versions.
    pub(super) fn versions(&self) -> BTreeSet<&str> {
        self.wheels().map(|wheel| wheel.name.version.as_str()).collect()
    }

    /// Whether size and digest of all wheels are known.
    pub(super) fn is_complete(&self) -> bool {
        self.wheels().all(|wheel| wheel.sums.is_some())
    }
}

/// The version of the API that pages conform to: 1.1 requires the size of each file (PEP 700).
pub(super) fn version(is_complete: bool) -> &'static str {
    if is_complete { "1.1" } else { "1.0" }
}
