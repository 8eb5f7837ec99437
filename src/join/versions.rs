//! Versions of installed wheels that do not fit.

use std::collections::BTreeMap;

use crate::source::{Input, InputKind};
use crate::wheel::{self, Metadata, normalise};

/// Warnings about device wheels in a tree that are not of the version that their host wheel requires, which is in the same directory.
pub(super) fn mixed_versions(input: &Input) -> Vec<String> {
    let of_tree = Some(input).filter(|input| matches!(input.kind, InputKind::Tree));
    let metadata = of_tree.into_iter().flat_map(Input::files).filter(|(path, _)| path.name() == b"METADATA");
    let infos = metadata.filter_map(|(path, _)| path.parent()).filter(|info| info.name().ends_with(b".dist-info"));
    let mut sites = BTreeMap::<_, Vec<_>>::new();
    for info in infos {
        sites.entry(info.parent()).or_default().extend(Metadata::read_at(input, &info));
    }
    sites.values().flat_map(|all| mixed_versions_of(all)).collect()
}

/// The same about all distributions of a directory.
fn mixed_versions_of(all: &[Metadata]) -> Vec<String> {
    let versions: BTreeMap<_, _> = all.iter().map(|it| (normalise(&it.name), it.version.as_str())).collect();
    let mut warnings = Vec::new();
    for host in all {
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
