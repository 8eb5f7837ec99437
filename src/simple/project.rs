//! A project of an index.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::wheel::{Distinction, IndexedWheel};
use crate::text::some_of;

/// Two wheels that an installer cannot tell apart.
#[derive(Debug, thiserror::Error)]
#[error(
    "{first} and {second}: an index can have one of them only, since both are {name} {version} for the same systems"
)]
pub struct SameWheel {
    first: String,
    second: String,
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
    /// What messages call them, by what tells wheels apart.
    labels: HashMap<Distinction, String>,
}

impl Project {
    pub(super) fn new(name: String) -> Self {
        Self { name, wheels: BTreeMap::new(), labels: HashMap::new() }
    }

    /// Adds a wheel, unless there is one that installers cannot tell from it.
    pub(super) fn add(&mut self, wheel: IndexedWheel) -> Result<(), SameWheel> {
        let second = wheel.label();
        if let Some(first) = self.labels.insert(wheel.distinction(), second.clone()) {
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

    /// A warning for each version of which not all wheels have the same extras.
    pub(super) fn warnings(&self) -> impl Iterator<Item = String> {
        let mut versions = BTreeMap::<_, Vec<_>>::new();
        for wheel in self.wheels() {
            versions.entry(wheel.distinction().0).or_default().push(wheel);
        }
        versions.into_values().filter_map(|wheels| {
            let version = &wheels.first()?.name.version;
            let extras: BTreeSet<_> = wheels.iter().flat_map(|wheel| &wheel.extras).collect();
            let is_of_all = |extra: &&String| wheels.iter().all(|wheel| wheel.extras.contains(*extra));
            let of_some: Vec<_> = extras.into_iter().filter(|extra| !is_of_all(extra)).collect();
            (!of_some.is_empty()).then(|| {
                format!(
                    "{} {version}: only some of its wheels have the extras {}; uv lock takes those of one wheel for all systems, and \
                     leaves out device wheels of the others",
                    self.name,
                    some_of(of_some)
                )
            })
        })
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
