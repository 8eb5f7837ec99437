//! Versions of the wheels that are installed in a directory.

use std::collections::BTreeMap;

use crate::memory::{Parser, WholeFile};
use crate::source::{EntryPath, Input, InputKind};
use crate::wheel::{self, Metadata, normalise};

/// Warnings about device wheels in a directory that are not of the version that their host wheel requires.
pub(super) fn mixed_versions(input: &Input) -> Vec<String> {
    let all = if matches!(input.kind, InputKind::Tree) { metadata(input) } else { Vec::new() };
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

/// The METADATA of all distributions. What cannot be read or parsed is not judged here.
fn metadata(input: &Input) -> Vec<Metadata> {
    let is_metadata = |path: &EntryPath| path.depth() == 2 && path.name() == b"METADATA" && path.is_in_dist_info();
    let files = input.files().filter(|(path, _)| is_metadata(path));
    let read = files.filter_map(|(path, content)| Some((path, WholeFile::of(Parser::Metadata, &**content).ok()?)));
    read.filter_map(|(path, text)| Metadata::parse(text.into_bytes(), path).ok()).collect()
}
