//! The device distributions that a host distribution names.

use std::collections::{BTreeMap, BTreeSet};

use crate::wheel::{Metadata, accepts, normalise, part_in};

/// The device distributions that each extra of a host distribution installs, with their versions. Those for one target
/// are under its name, and those for all targets under "all".
pub fn devices(metadata: &Metadata) -> BTreeMap<String, BTreeSet<(String, String)>> {
    let mut devices = BTreeMap::<String, BTreeSet<(String, String)>>::new();
    let own = metadata.own_extras();
    for (extra, name, version) in metadata.pins_of_extras() {
        let target = extra.strip_prefix("device-").unwrap_or(&extra);
        if part_in(&name).is_some() && own.of_split(target).is_some_and(|of_split| of_split == extra) {
            devices.entry(target.to_owned()).or_default().insert((name, version.to_owned()));
        }
    }
    devices
}

/// Whether a device distribution is that of a target, according to its name. Others are those of the target's families.
pub(super) fn is_of_target(target: &str, name: &str) -> bool {
    part_in(name).is_some_and(|part| normalise(part.as_str()) == target)
}

/// The device distributions of a host distribution that are not in `existing`.
pub(super) fn missing_devices<'a>(host: &Metadata, existing: impl IntoIterator<Item = &'a Metadata>) -> Vec<String> {
    let existing: Vec<_> = existing.into_iter().map(|it| (normalise(&it.name), &it.version)).collect();
    let wanted: BTreeSet<_> = devices(host).into_values().flatten().collect();
    let is_missing =
        |(name, wanted): &(String, String)| !existing.iter().any(|(own, found)| own == name && accepts(wanted, found));
    wanted.into_iter().filter(is_missing).map(|(name, version)| format!("{name}=={version}")).collect()
}
