//! The device packages that a host package names for a GPU.

use std::collections::{BTreeMap, BTreeSet};

use crate::gpu::{BundleKey, TargetId};
use crate::verify::{devices_of, key_of_device};
use crate::wheel::{Metadata, normalise};

/// The packages with the code for a GPU, by the METADATA of their host package.
pub(super) struct WantedPackages {
    /// Normalised names with versions. Empty if there is none for this GPU.
    pub(super) packages: BTreeSet<(String, String)>,
    /// What to install: the host package with an extra, or the packages themselves.
    pub(super) requirements: Vec<String>,
    /// The extra of the GPU.
    pub(super) extra: Option<String>,
    /// The GPUs and families with packages.
    pub(super) offered: Vec<String>,
}

impl WantedPackages {
    pub(super) fn of(host: &Metadata, device: &TargetId) -> Self {
        let devices = devices_of(host);
        let offered = devices.keys().filter(|key| *key != "all").cloned().collect();
        let target = normalise(device.processor());
        if let Some(packages) = devices.get(&target) {
            let extra = format!("device-{target}");
            let requirement = format!("{}[{extra}]=={}", host.name, host.version);
            return Self { packages: packages.clone(), requirements: vec![requirement], extra: Some(extra), offered };
        }
        let packages = of_families(&devices, device);
        let requirements = packages.iter().map(exact).collect();
        Self { packages, requirements, extra: None, offered }
    }
}

/// Code of its family, or for the family's generic ISA, serves a GPU without a package of its own.
fn of_families(
    devices: &BTreeMap<String, BTreeSet<(String, String)>>,
    device: &TargetId,
) -> BTreeSet<(String, String)> {
    let chain = BundleKey::of(device).packaging_chain();
    let is_above = |it: &&(String, String)| key_of_device(&it.0).is_some_and(|key| chain.contains(&key));
    devices.values().flatten().filter(is_above).cloned().collect()
}

/// The requirement of a package in exactly this version.
pub(super) fn exact((name, version): &(String, String)) -> String {
    format!("{name}=={version}")
}
