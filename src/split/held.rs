//! Files of the device wheels of a host wheel. Those that are no archives stay in the wheels that hold them, whatever they
//! are: tuning tables, packages for one GPU, databases.

use std::collections::HashMap;

use anyhow::anyhow;

use super::options::PlanOptions;
use super::plan::{Destination, Plan};
use crate::gpu::BundleKey;
use crate::source::{DeviceWheel, Entry, EntryKind, EntryPath, Input};

/// Places files that only device wheels hold. Databases are in the part of a wheel that holds them. All other files have
/// no part of their own, and are not examined: device code in them is in the part of its GPU already.
pub(super) fn keep(input: &Input, places: &mut [Destination], options: &PlanOptions) -> anyhow::Result<()> {
    let Some(host) = input.host_wheel() else { return Ok(()) };
    let mut holders = HashMap::<&EntryPath, Vec<BundleKey>>::new();
    for wheel in &host.devices {
        let part = part(wheel)?;
        wheel.files.iter().for_each(|file| holders.entry(&file.path).or_default().push(part.clone()));
    }
    for (entry, place) in input.entries.iter().zip(places) {
        let Some(parts) = holders.get(&entry.path) else { continue };
        match place {
            Destination::Host if !host.shared.contains(&entry.path) => *place = Destination::Held,
            Destination::Device(key, handler) | Destination::Unwanted(key, handler) => {
                let Some(first) = parts.first().filter(|_| !parts.contains(key)) else { continue };
                let (key, handler) = (first.clone(), *handler);
                let is_wanted = options.targets.contains(&key);
                *place =
                    if is_wanted { Destination::Device(key, handler) } else { Destination::Unwanted(key, handler) };
            }
            Destination::Host | Destination::Rewritten { .. } | Destination::Held => {}
        }
    }
    Ok(())
}

/// Adds what device wheels hold to the parts of a plan in which everything else has its place.
pub(super) fn assign(input: &Input, plan: &mut Plan) -> anyhow::Result<()> {
    let Some(host) = input.host_wheel() else { return Ok(()) };
    let is_known = |place: &Destination| matches!(place, Destination::Device(..) | Destination::Unwanted(..));
    let has_code = !plan.joined.is_empty() || !plan.archives.is_empty() || plan.places.iter().any(is_known);
    let mut files = Vec::with_capacity(host.devices.len());
    for wheel in &host.devices {
        let key = part(wheel)?;
        plan.of_wheels.insert(key.clone());
        files.push((key, wheel));
    }
    plan.keeps_wheels = !has_code && files.iter().all(|(key, _)| plan.options.targets.contains(key));
    if let Some(conflict) = host.conflicts.values().next().filter(|_| !plan.keeps_wheels) {
        return Err(conflict.clone().into());
    }
    for (key, wheel) in files.into_iter().filter(|(key, _)| plan.options.targets.contains(key)).collect::<Vec<_>>() {
        let held: Vec<_> = wheel.files.iter().filter_map(|file| plan.held_file(input, &key, file)).collect();
        plan.held.entry(key.clone()).or_default().extend(held);
        plan.keys.insert(key);
    }
    // Several device wheels may belong to one part. At one path they have the same file.
    for held in plan.held.values_mut() {
        held.sort_by(|one, other| one.path.cmp(&other.path));
        held.dedup_by(|one, other| one.path == other.path);
    }
    Ok(())
}

impl Plan {
    /// A file of the device wheel of a key, unless the part has it otherwise, or has something else instead of it.
    fn held_file(&self, input: &Input, key: &BundleKey, file: &Entry) -> Option<Entry> {
        if file.path.is_in_dist_info() {
            return self.keeps_wheels.then(|| file.clone());
        }
        let at = input.entries.binary_search_by(|entry| entry.path.cmp(&file.path)).ok()?;
        let is_there = match self.places.get(at)? {
            Destination::Host | Destination::Held => true,
            Destination::Device(of, _) | Destination::Unwanted(of, _) => of != key,
            Destination::Rewritten { .. } => false,
        };
        let has_conflict = || input.host_wheel().is_some_and(|host| host.conflicts.contains_key(&file.path));
        // Parts that hold the same file have one content.
        let entry = if has_conflict() { Some(file) } else { input.entries.get(at) };
        let entry = entry.filter(|entry| is_there && !matches!(entry.kind, EntryKind::Directory));
        entry.map(|entry| Entry { attributes: file.attributes, ..entry.clone() })
    }
}

/// The part that a device wheel is named after.
fn part(wheel: &DeviceWheel) -> anyhow::Result<BundleKey> {
    let DeviceWheel { location, part, .. } = wheel;
    part.parse().map_err(|_| anyhow!("{}: its name ends with {part:?}, which is no device part", location.display()))
}
