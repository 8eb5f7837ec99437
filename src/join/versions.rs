//! Versions of installed wheels that do not fit.

use std::collections::BTreeMap;

use crate::source::{Input, InputKind};
use crate::wheel::{self, Metadata, normalise};

/// Warnings about device wheels in a directory that are not of the version that their host wheel requires.
pub(super) fn mixed_versions(input: &Input) -> Vec<String> {
    let of_tree = Some(input).filter(|input| matches!(input.kind, InputKind::Tree));
    let all: Vec<_> = of_tree.into_iter().flat_map(Metadata::installed).collect();
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
