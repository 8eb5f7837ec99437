//! The sizes of a split's parts as files: archives, wheels, and installations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde::Serialize;

use super::Summary;
use crate::gpu::BundleKey;
use crate::kpack::{ArchiveRope, make_archives};
use crate::metrics::Progress;
use crate::opened::thin_gpus;
use crate::rope::{Materialize, ReadError};
use crate::source::InputKind;
use crate::split::Plan;
use crate::view::{ServedBy, users_of};
use crate::wheelparts::{PlannedInput, WheelPart, WheelSet};

/// Sizes in bytes. `None` if a size is unknown without work or does not exist.
#[derive(Debug, Serialize)]
pub(crate) struct Sizes {
    /// The size of the input wheel.
    pub input_wheel_size: Option<u64>,
    /// The host wheel, and the variant wheel if there is one.
    pub host_wheels: Vec<WheelSize>,
    /// The device parts, by key.
    pub parts: BTreeMap<String, PartSize>,
    /// The sizes for a user of each GPU.
    pub users: BTreeMap<String, UserSize>,
}

/// A wheel.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct WheelSize {
    /// Its file name.
    pub name: String,
    /// Its size.
    pub size: Option<u64>,
}

/// A device part.
#[derive(Debug, Serialize)]
pub(crate) struct PartSize {
    /// All archives together.
    pub archive_size: Option<u64>,
    /// Its wheel, if the input is a wheel.
    pub wheel: Option<WheelSize>,
}

/// The size of an installation for one GPU.
#[derive(Debug, Serialize)]
pub(crate) struct UserSize {
    /// Keys of its device parts.
    pub keys: Vec<String>,
    /// How they serve it.
    pub served_by: ServedBy,
    /// Bytes of the host wheel and the device wheels.
    pub download_size: Option<u64>,
    /// Bytes of the files of the host part and the device parts.
    pub installed_size: Option<u64>,
}

/// The parts of a split whose sizes are determined.
pub(crate) struct SizedParts {
    pub(crate) input_wheel_size: Option<u64>,
    hosts: Vec<Arc<WheelPart>>,
    /// By key.
    devices: BTreeMap<String, SizedDevice>,
    /// By GPU: the keys of the device parts of its installation, and how they serve it.
    pub(crate) users: BTreeMap<String, (Vec<String>, ServedBy)>,
}

struct SizedDevice {
    archives: Vec<Arc<ArchiveRope>>,
    /// Set if the input is a wheel.
    wheel: Option<Arc<WheelPart>>,
}

impl SizedParts {
    pub(crate) fn of(PlannedInput { input, plan, wheels }: PlannedInput<'_>) -> Self {
        let input_wheel_size = match input.kind {
            InputKind::Wheel(_) => input.file.as_ref().map(|file| file.size()),
            InputKind::Tree | InputKind::Binary | InputKind::UnpackedWheel(_) | InputKind::Wheels(_) => None,
        };
        let mut sized = Self { input_wheel_size, ..Self::of_plans(&[plan], wheels) };
        // Generic code in a thin wheel serves further GPUs, whose own wheel may have more.
        if let Some(thin) = thin_gpus(input) {
            sized.users.retain(|gpu, _| thin.targets().iter().any(|target| BundleKey::of(target).as_str() == gpu));
        }
        sized
    }

    /// The parts of plans whose outputs are laid over each other when they are installed, such as artifacts.
    pub(crate) fn of_plans(plans: &[&Plan], wheels: Option<&WheelSet>) -> Self {
        let keys: BTreeSet<_> = plans.iter().flat_map(|plan| &plan.keys).collect();
        let part = |key: &BundleKey| {
            let archives = plans.iter().flat_map(|plan| &plan.archives).filter(|archive| archive.key == *key);
            let archives = archives.map(|planned| Arc::clone(&planned.archive)).collect();
            SizedDevice { archives, wheel: wheels.and_then(|wheels| wheels.devices.get(key)).cloned() }
        };
        let user = |key: &BundleKey| {
            let chain = key.packaging_chain().into_iter().filter(|key| keys.contains(key));
            chain.map(|key| key.to_string()).collect()
        };
        let mut gpus = BTreeMap::new();
        for (key, served_by) in plans.iter().flat_map(|plan| users_of(plan)) {
            gpus.entry(key).and_modify(|known: &mut ServedBy| *known = served_by.min(*known)).or_insert(served_by);
        }
        Self {
            input_wheel_size: None,
            hosts: wheels.iter().flat_map(|wheels| &wheels.hosts).cloned().collect(),
            devices: keys.iter().map(|key| (key.to_string(), part(key))).collect(),
            users: gpus.iter().map(|(key, how)| (key.to_string(), (user(key), *how))).collect(),
        }
    }

    /// The sizes after [`Sizes::make`] if they `are_made`, and otherwise those that need no work, whatever an earlier run has
    /// recorded.
    pub(crate) fn sizes(&self, summary: &Summary, are_made: bool) -> Sizes {
        let wheel = |part: &Arc<WheelPart>| WheelSize::of(part, are_made);
        let host_wheels: Vec<_> = self.hosts.iter().filter_map(wheel).collect();
        let archive = |archive: &Arc<ArchiveRope>| {
            let made = archive.made().filter(|_| are_made || archive.has_plain_size());
            made.map(|content| content.size())
        };
        let part = |device: &SizedDevice| PartSize {
            archive_size: device.archives.iter().map(archive).sum(),
            wheel: device.wheel.as_ref().and_then(wheel),
        };
        let parts: BTreeMap<_, _> = self.devices.iter().map(|(key, device)| (key.clone(), part(device))).collect();
        let user = |(keys, served_by): &(Vec<String>, ServedBy)| {
            let wheel = |key: &String| parts.get(key)?.wheel.as_ref()?.size;
            let files = |key: &String| {
                let databases = summary.device.get(key).map_or(0, |part| part.database_size);
                Some(parts.get(key)?.archive_size? + databases)
            };
            let sum = |host: Option<u64>, of: &dyn Fn(&String) -> Option<u64>| {
                Some(host? + keys.iter().map(of).sum::<Option<u64>>()?)
            };
            UserSize {
                download_size: sum(host_wheels.first().and_then(|wheel| wheel.size), &wheel),
                installed_size: sum(Some(summary.host_size), &files),
                keys: keys.clone(),
                served_by: *served_by,
            }
        };
        let users = self.users.iter().map(|(gpu, keys)| (gpu.clone(), user(keys))).collect();
        Sizes { input_wheel_size: self.input_wheel_size, host_wheels, parts, users }
    }
}

impl Sizes {
    /// Does the work for all sizes: compresses every code object once, and splices rewritten members of a wheel. Little
    /// of the result is kept except the sizes.
    pub(crate) fn make(plan: &Plan, wheels: Option<&WheelSet>, progress: &Progress) -> Result<(), ReadError> {
        let archives: Vec<_> = plan.archives.iter().map(|planned| &*planned.archive).collect();
        let of_archives: u64 = archives.iter().map(|archive| archive.original_size()).sum();
        let hosts = || wheels.iter().flat_map(|wheels| &wheels.hosts);
        let of_hosts: u64 = hosts().map(|part| part.rewritten_size()).sum();
        progress.expect(of_archives + of_hosts);
        // First, since these read all of the binaries again that planning has read.
        for part in hosts() {
            part.wheel()?;
            progress.advance(part.rewritten_size());
        }
        make_archives(&archives, &progress.done)?;
        // Archives share code objects, which are made once.
        progress.done.store(of_archives + of_hosts, Ordering::Relaxed);
        for archive in archives {
            archive.make()?;
        }
        let devices = || wheels.iter().flat_map(|wheels| wheels.devices.values());
        WheelSet::hash_archives(devices())?;
        devices().try_for_each(|part| part.wheel().map(drop))
    }
}

impl UserSize {
    /// Its parts, and how they serve the GPU unless one is its own: "host + gfx11 (code of its family)".
    pub(crate) fn parts(&self) -> String {
        let parts = std::iter::once("host").chain(self.keys.iter().map(String::as_str)).collect::<Vec<_>>().join(" + ");
        match self.served_by {
            ServedBy::Own => parts,
            ServedBy::Generic => format!("{parts} (generic code)"),
            ServedBy::Family => format!("{parts} (code of its family)"),
        }
    }
}

impl WheelSize {
    fn of(part: &Arc<WheelPart>, is_made: bool) -> Option<Self> {
        let is_known = is_made || part.archives().all(ArchiveRope::has_plain_size);
        Some(Self { name: part.file_name().ok()?, size: part.known_size().filter(|_| is_known) })
    }
}
