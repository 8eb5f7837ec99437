//! The device packages that a host package names for a GPU.

use std::collections::{BTreeMap, BTreeSet};

use super::cause::Cause;
use crate::coverage::CauseKind;
use crate::gpu::{BundleKey, TargetId};
use crate::wheel::{Metadata, normalise, part_in};

/// The packages with the code for a GPU, by the METADATA of their host package.
pub(super) struct WantedPackages {
    /// Normalised names with versions. Empty if there is none for this GPU.
    pub(super) packages: BTreeSet<(String, String)>,
    /// The extra of the GPU.
    pub(super) extra: Option<String>,
    /// The GPUs and families with packages.
    pub(super) offered: Vec<String>,
}

impl WantedPackages {
    pub(super) fn of(host: &Metadata, device: &TargetId) -> Self {
        let devices = host.devices();
        let offered = devices.keys().filter(|key| *key != "all").cloned().collect();
        let target = normalise(device.processor());
        if let Some((packages, extra)) = devices.get(&target).zip(host.own_extras().of_split(&target)) {
            return Self { packages: packages.clone(), extra: Some(extra), offered };
        }
        Self { packages: of_families(&devices, device), extra: None, offered }
    }

    /// That a host package names none for this GPU. `None` if it names none at all.
    pub(super) fn lacking(&self, name: &str, version: &str, device: &TargetId) -> Option<Cause> {
        let (gpu, offered) = (device.processor(), self.offered.join(", "));
        let reason = format!("{name} {version} has no package for {gpu}; it has some for {offered}");
        (!self.offered.is_empty()).then(|| Cause::new(CauseKind::PackageNone, reason, None))
    }
}

/// Code of its family, or for the family's generic ISA, serves a GPU without a package of its own.
fn of_families(
    devices: &BTreeMap<String, BTreeSet<(String, String)>>,
    device: &TargetId,
) -> BTreeSet<(String, String)> {
    let chain = BundleKey::of(device).packaging_chain();
    let is_above = |it: &&(String, String)| part_in(&it.0).is_some_and(|key| chain.contains(&key));
    devices.values().flatten().filter(is_above).cloned().collect()
}

/// The requirement of a package in exactly this version.
pub(super) fn exact((name, version): &(String, String)) -> String {
    format!("{name}=={version}")
}
