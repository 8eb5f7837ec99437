//! Changes in the METADATA of wheels.

use std::collections::BTreeSet;

use serde::Serialize;

use super::amount::Pair;
use crate::wheel::Metadata;

/// METADATA of two wheels.
#[derive(Debug, Serialize)]
pub(crate) struct MetadataChange {
    /// The distributions.
    pub name: Pair<String>,
    /// Their versions.
    pub version: Pair<String>,
    /// The required versions of Python.
    pub requires_python: Pair<Option<String>>,
    /// Requirements that only the second one has.
    pub requirements_added: Vec<String>,
    /// Requirements that only the first one has.
    pub requirements_removed: Vec<String>,
    /// Extras that only the second one has.
    pub extras_added: Vec<String>,
    /// Extras that only the first one has.
    pub extras_removed: Vec<String>,
}

impl MetadataChange {
    /// `None` unless both are wheels.
    pub(super) fn of(before: Option<&Metadata>, after: Option<&Metadata>) -> Option<Self> {
        let (before, after) = (before?, after?);
        let requirements = |metadata: &Metadata| metadata.requirements().map(one_line).collect::<BTreeSet<_>>();
        let (old, new) = (requirements(before), requirements(after));
        let (old_extras, new_extras) = (before.extras(), after.extras());
        let python = |metadata: &Metadata| metadata.requires_python().map(one_line);
        Some(Self {
            name: Pair { before: before.name.clone(), after: after.name.clone() },
            version: Pair { before: before.version.clone(), after: after.version.clone() },
            requires_python: Pair { before: python(before), after: python(after) },
            requirements_added: new.difference(&old).cloned().collect(),
            requirements_removed: old.difference(&new).cloned().collect(),
            extras_added: new_extras.difference(&old_extras).cloned().collect(),
            extras_removed: old_extras.difference(&new_extras).cloned().collect(),
        })
    }
}

/// A field on one line: each fold becomes a single blank.
fn one_line(value: &str) -> String {
    value.split_whitespace().collect::<Vec<_>>().join(" ")
}
