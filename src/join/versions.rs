//! Versions of installed wheels that do not fit.

use std::collections::BTreeMap;

use crate::memory::{Parser, ParserMemory};
use crate::source::{EntryPath, Input, InputKind};
use crate::wheel::{self, Metadata, normalise};

/// Warnings about device wheels in a tree that are not of the version that their host wheel requires, which is in the same directory.
pub(super) fn mixed_versions(input: &Input) -> Vec<String> {
    let of_tree = Some(input).filter(|input| matches!(input.kind, InputKind::Tree));
    let paths = of_tree.into_iter().flat_map(Input::files).map(|(path, _)| path);
    let metadata = paths.filter(|path| path.name() == b"METADATA").filter_map(EntryPath::parent);
    let mut sites = BTreeMap::<_, Vec<_>>::new();
    for info in metadata.filter(|info| info.name().ends_with(b".dist-info")) {
        sites.entry(info.parent()).or_default().push(info);
    }
    let of_site = |(site, infos): (&Option<EntryPath>, &Vec<_>)| {
        let place = site.as_ref().filter(|site| !site.is_root()).map(|site| format!("{site}: ")).unwrap_or_default();
        mixed_versions_of(input, infos).into_iter().map(move |warning| format!("{place}{warning}"))
    };
    sites.iter().flat_map(of_site).collect()
}

/// The same about all distributions of a directory. METADATA may be long, so that of hosts is read again rather than kept.
fn mixed_versions_of(input: &Input, infos: &[EntryPath]) -> Vec<String> {
    let (table, mut versions, mut hosts) = (ParserMemory::new(Parser::Metadata), BTreeMap::new(), Vec::new());
    for info in infos {
        let Ok(metadata) = Metadata::read_at(input, info) else { continue };
        hosts.extend(metadata.pins_of_extras().next().map(|_| info));
        let (name, version) = (normalise(&metadata.name), metadata.version);
        if table.grow((name.len() + version.len()) as u64).is_err() {
            return Vec::new();
        }
        versions.insert(name, version);
    }
    let mut warnings = Vec::new();
    for host in hosts.into_iter().filter_map(|info| Metadata::read_at(input, info).ok()) {
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
