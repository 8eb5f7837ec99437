//! Device distributions: those that a host distribution names, and their names.

use std::collections::{BTreeMap, BTreeSet};

use crate::gpu::BundleKey;
use crate::wheel::{Metadata, accepts, normalise};

/// The device distributions that each extra of a host distribution installs, with their versions. Those for one target
/// are under its name, and those for all targets under "all".
pub fn devices(metadata: &Metadata) -> BTreeMap<String, BTreeSet<(String, String)>> {
    let mut devices = BTreeMap::<String, BTreeSet<(String, String)>>::new();
    for (extra, name, version) in metadata.pins_of_extras() {
        let Some(target) = extra.strip_prefix("device-") else { continue };
        devices.entry(target.to_owned()).or_default().insert((name, version.to_owned()));
    }
    devices
}

/// Whether a device distribution is that of a target, according to its name. Others are those of the target's families.
pub(super) fn is_of_target(target: &str, name: &str) -> bool {
    name.strip_suffix(target).is_some_and(|rest| rest.ends_with('-'))
}

/// The bundle key in the name of a device distribution: `gfx942`, or `gfx12_0` for `gfx12-0`.
pub fn key(name: &str) -> Option<BundleKey> {
    let (before, last) = name.rsplit_once('-')?;
    let (_, first) = before.rsplit_once('-').unwrap_or(("", before));
    let keys = [format!("{first}_{last}"), format!("{first}-{last}"), last.to_owned()];
    let mut keys = keys.iter().filter(|key| key.starts_with("gfx")).filter_map(|key| key.parse::<BundleKey>().ok());
    keys.clone().find(BundleKey::is_known).or_else(|| keys.next_back())
}

/// The device distributions of a host distribution that are not in `existing`.
pub(super) fn missing_devices<'a>(host: &Metadata, existing: impl IntoIterator<Item = &'a Metadata>) -> Vec<String> {
    let existing: Vec<_> = existing.into_iter().map(|it| (normalise(&it.name), &it.version)).collect();
    let wanted: BTreeSet<_> = devices(host).into_values().flatten().collect();
    let is_missing =
        |(name, wanted): &(String, String)| !existing.iter().any(|(own, found)| own == name && accepts(wanted, found));
    wanted.into_iter().filter(is_missing).map(|(name, version)| format!("{name}=={version}")).collect()
}

#[cfg(test)]
mod tests {
    use super::key;

    #[test]
    fn device_distributions_are_named_after_bundle_keys() {
        for (name, expected) in [
            ("amd-torch-device-gfx942", Some("gfx942")),
            ("amd-torch-device-gfx12-0", Some("gfx12_0")),
            ("amd-torch-device-gfx115x", Some("gfx115x")),
            ("x-gfx803", Some("gfx803")),
            ("gfx942", None),
            ("amd-torch-device", None),
        ] {
            assert_eq!(key(name).map(|key| key.to_string()).as_deref(), expected, "{name}");
        }
    }
}
