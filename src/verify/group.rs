//! Determines by their content which directories and wheels belong together, so that their order does not matter.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::overlaid::{laid_over, overlaid_keys, take_off};
use super::parts::{Part, Parts, PartsKind};
use super::report::{Findings, Tools, enumerate};
use super::rules::Rule;
use crate::gpu::BundleKey;
use crate::loader::is_archive;
use crate::opened::{LocatedStatement, statement_in, thin_gpus};
use crate::resources::Resources;
use crate::rope::Content;
use crate::source::{EntryPath, may_be_binary};
use crate::split::HOST;
use crate::view::MERGED;
use crate::wheel::{Metadata, WheelLabel, accepts, normalise, part_in};

/// A directory or wheel that the user named.
#[derive(Debug)]
pub(super) struct NamedInput {
    pub(super) path: PathBuf,
    /// Whether it is one of the wheels in a directory that the user named as a whole.
    pub(super) is_listed: bool,
}

impl NamedInput {
    /// A wheel of a directory.
    pub(super) fn listed(path: &Path) -> Self {
        Self { path: path.to_owned(), is_listed: true }
    }
}

/// A directory or wheel, with its metadata.
struct PartCandidate {
    part: Arc<Part>,
    /// METADATA, if it is a wheel.
    metadata: Option<Metadata>,
    is_listed: bool,
    /// The real path of the directory that it is in.
    directory: PathBuf,
}

/// Groups each host part with its device parts. A host part without device parts, and a device part without a host
/// part, are separate.
pub(super) fn group(named: &[NamedInput], tools: Tools<'_>) -> anyhow::Result<Vec<Parts>> {
    let findings = tools.findings;
    let open = |input: &NamedInput| PartCandidate::open(input, tools.resources);
    let mut candidates = named.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    let key = |it: &PartCandidate| (it.part.input.location.clone(), it.part.label.clone());
    candidates.sort_by_cached_key(key);
    candidates.dedup_by(|one, other| one.part.input.location == other.part.input.location);
    let (devices, mut hosts): (Vec<_>, Vec<_>) = candidates.into_iter().partition(|it| is_device(&it.part));
    let mut statements = Vec::new();
    for host in &mut hosts {
        let statement = LocatedStatement::of_part(&host.part.input.location)?;
        let arch = statement.as_ref().map(LocatedStatement::arch).transpose()?;
        host.take_off(arch.as_deref(), &devices, tools)?;
        statements.push(statement);
    }
    let members = members(&hosts, &devices);
    let mut groups = Vec::new();
    for ((host, members), statement) in hosts.into_iter().zip(&members).zip(statements) {
        let theirs = members.iter().filter_map(|&at| devices.get(at));
        check_tags(&host, theirs.clone(), findings);
        let theirs = theirs.map(|it| Arc::clone(&it.part));
        let group: Vec<_> = std::iter::once(Arc::clone(&host.part)).chain(theirs).collect();
        let kind = if group.len() > 1 { PartsKind::Split } else { PartsKind::Installation };
        let mut parts = Parts { statement, ..Parts::new(kind, group) };
        parts.is_optional = parts.are_wheels();
        let mut missing = missing_devices(&parts);
        missing.extend(missing_parts(&parts));
        // Without a statement, and without METADATA, nothing says which parts there are.
        if kind == PartsKind::Split && parts.statement.is_none() && host.metadata.is_none() {
            parts.kind = PartsKind::Partial;
        }
        if !missing.is_empty() && host.is_listed {
            say_missing(host.part.label.clone(), &missing, findings);
        } else if let Some(first) = missing.first().filter(|_| kind == PartsKind::Split) {
            // Parts that were named individually may be those for one GPU.
            parts.kind = PartsKind::Partial;
            let (label, count) = (&host.part.label, missing.len());
            let what = if parts.are_wheels() { "wheels" } else { "parts" };
            findings
                .note(format!("{label}: {count} of its device {what} such as {first} are not among what is verified"));
        }
        groups.push(parts);
    }
    let is_unrelated = |(at, _): &(usize, &PartCandidate)| !members.iter().any(|members| members.contains(at));
    for (_, device) in devices.iter().enumerate().filter(is_unrelated) {
        if device.metadata.as_ref().is_none_or(|metadata| metadata.pins().next().is_none()) {
            say_alone(device.part.label.clone(), findings);
        }
        groups.push(Parts::new(PartsKind::Installation, vec![Arc::clone(&device.part)]));
    }
    Ok(groups)
}

/// Reports device wheels that no installer takes with their host wheel.
fn check_tags<'a>(host: &PartCandidate, devices: impl Iterator<Item = &'a PartCandidate>, findings: &Findings) {
    for device in devices.filter(|device| !device.label().fits(host.label())) {
        let reason =
            format!("by their file names, no system takes both this wheel and its host wheel {}", host.part.label);
        findings.add(Rule::DistributionName, device.part.label.clone(), reason);
    }
}

/// The positions of the device parts of each host part. A part next to a host part comes before parts of the same name
/// elsewhere, because a mount shows each part as a directory and as a wheel.
fn members(hosts: &[PartCandidate], devices: &[PartCandidate]) -> Vec<Vec<usize>> {
    let (numbers, labels): (Vec<_>, Vec<_>) =
        hosts.iter().enumerate().filter(|(_, host)| !is_thin(&host.part)).map(|(at, host)| (at, host.label())).unzip();
    let hosts_of = |device: &PartCandidate| -> Vec<usize> {
        device.label().hosts(&labels).into_iter().filter_map(|at| numbers.get(at).copied()).collect()
    };
    let hosts_of: Vec<_> = devices.iter().map(hosts_of).collect();
    let of_host = |(number, host): (usize, &PartCandidate)| {
        let all = devices.iter().enumerate().zip(&hosts_of).filter(|(_, of)| of.contains(&number));
        let all: Vec<_> = all.map(|(device, _)| device).collect();
        let is_near = |device: &PartCandidate| device.directory == host.directory;
        let near: HashSet<_> = all.iter().filter(|(_, it)| is_near(it)).map(|(_, it)| it.part.name.as_str()).collect();
        let is_chosen = |(_, it): &&(usize, &PartCandidate)| is_near(it) || !near.contains(it.part.name.as_str());
        all.iter().filter(is_chosen).map(|(at, _)| *at).collect()
    };
    hosts.iter().enumerate().map(of_host).collect()
}

/// Checks that all device parts exist that the host part's METADATA names.
pub(super) fn check_complete(parts: &Parts, findings: &Findings) {
    let missing = missing_devices(parts);
    if let (PartsKind::Split, Some(host), [_, ..]) = (parts.kind, parts.all.first(), &*missing) {
        say_missing(host.label.clone(), &missing, findings);
    }
}

/// The device distributions that the host part names and that are not among the parts.
fn missing_devices(parts: &Parts) -> Vec<String> {
    let metadata: Vec<_> = parts.all.iter().map(|part| Metadata::read(&part.input).ok()).collect();
    let (Some(Some(host)), devices) = (metadata.first(), metadata.iter().skip(1)) else { return Vec::new() };
    let existing: Vec<_> = devices.flatten().map(|it| (normalise(&it.name), &it.version)).collect();
    let wanted: BTreeSet<_> = host.devices().into_values().flatten().collect();
    let is_missing =
        |(name, wanted): &(String, String)| !existing.iter().any(|(own, found)| own == name && accepts(wanted, found));
    wanted.into_iter().filter(is_missing).map(|(name, version)| format!("{name}=={version}")).collect()
}

/// The device parts that the statement next to a host part names and that are not among the parts.
fn missing_parts(parts: &Parts) -> Vec<String> {
    let stated = parts.statement.as_ref().and_then(|located| located.parts().ok()).unwrap_or_default();
    let is_here = |name: &String| parts.all.iter().any(|part| part.name == *name);
    let names = stated.iter().map(ToString::to_string).filter(|name| BundleKey::is_name(name));
    names.filter(|name| !is_here(name)).collect()
}

/// Reports a device part with archives that was named alone: without its libraries, no runtime looks for them. What
/// requires its host distribution is reported by that.
pub(super) fn check_alone(parts: &Parts, findings: &Findings) {
    let [part] = &*parts.all else { return };
    let is_library_archive = |(path, content): (&EntryPath, &Arc<dyn Content>)| {
        is_archive(path, content) && part.databases.classify(path).is_none()
    };
    if part.input.dist_info().is_none() && is_device(part) && part.files().any(is_library_archive) {
        say_alone(part.input.location.display().to_string(), findings);
    }
}

fn say_alone(label: String, findings: &Findings) {
    let reason = "it belongs to a host part, which is not among what is verified";
    findings.add(Rule::DistributionMissing, label, reason);
}

fn say_missing(label: String, missing: &[String], findings: &Findings) {
    let reason = format!(
        "its METADATA names {}, which {} not among what is verified",
        enumerate(missing),
        if missing.len() == 1 { "is" } else { "are" }
    );
    findings.add(Rule::DistributionMissing, label, reason);
}

impl PartCandidate {
    fn open(NamedInput { path, is_listed }: &NamedInput, resources: &Arc<Resources>) -> anyhow::Result<Self> {
        let part = Arc::new(Part::open(path, path.display().to_string(), resources)?);
        let metadata = Metadata::read(&part.input).ok();
        let location = &part.input.location;
        // A link in `device/` of a mount leads to a part that is next to its host part. Wheels may be links to a store.
        let real = if location.is_dir() { location.canonicalize().ok() } else { None };
        let directory = real.as_ref().unwrap_or(location).parent().unwrap_or(location);
        let directory = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
        Ok(Self { part, metadata, is_listed: *is_listed, directory })
    }

    /// Removes the files of device parts from a host part over which `--arch` laid them, if it is named together with
    /// device parts of its split. Alone, it is verified with these files. `arch` is `None` without a statement.
    fn take_off(&mut self, arch: Option<&[BundleKey]>, devices: &[Self], tools: Tools<'_>) -> anyhow::Result<()> {
        let near: Vec<_> = devices.iter().filter(|it| it.directory == self.directory).map(|it| &*it.part).collect();
        let (Some(part), [_, ..]) = (Arc::get_mut(&mut self.part), &*near) else { return Ok(()) };
        let mut unnamed = Vec::new();
        let is_copy = self.directory.join(MERGED).is_dir();
        let overlaid = arch.map_or_else(|| laid_over(part, &near, is_copy, tools.findings), overlaid_keys);
        for key in overlaid.iter().filter(|key| !near.iter().any(|part| part.name == key.as_str())) {
            let place = self.directory.join(key.as_str());
            if place.is_dir() {
                unnamed.push(Part::open(&place, place.display().to_string(), tools.resources)?);
            }
        }
        take_off(part, &near.into_iter().chain(&unnamed).collect::<Vec<_>>(), &overlaid);
        self.metadata = Metadata::read(&part.input).ok();
        Ok(())
    }

    fn label(&self) -> WheelLabel<'_> {
        WheelLabel { metadata: self.metadata.as_ref(), path: &self.part.input.location }
    }
}

/// Whether a part is a thin wheel. It is self-contained, even if it has nothing but databases, and is no host of device
/// wheels of its version.
fn is_thin(part: &Part) -> bool {
    thin_gpus(&part.input).is_some()
}

/// Whether a part is a device part: it says so, or contains archives or databases, and no other code. A host part that
/// still has databases also has binaries.
pub(super) fn is_device(part: &Part) -> bool {
    if is_thin(part) || is_installed(part) {
        return false;
    }
    let files = part.files().filter(|(path, _)| !Part::is_metadata(path));
    let (device, others): (Vec<_>, Vec<_>) = files.partition(|(path, content)| part.is_device_file(path, content));
    let has_device_code_only = !device.is_empty() && !others.into_iter().any(|(_, content)| may_be_binary(&**content));
    has_device_code_only || says_device(part)
}

/// Whether an installer wrote it. A split of an installation has INSTALLER in its host part. A runtime looks for archives next
/// to a library, so what is installed elsewhere is no part of it.
fn is_installed(part: &Part) -> bool {
    part.input.entries.iter().any(|entry| entry.path.is_dist_info() && part.is_installed(&entry.path))
}

/// Whether the statement of a wheel is that of a device part. Without one, its name and its requirements say what it is:
/// a device wheel may hold anything.
fn says_device(part: &Part) -> bool {
    let Some(directory) = part.input.dist_info() else { return false };
    if let Some(statement) = statement_in(&part.input, directory) {
        return statement.part.as_deref().is_some_and(|part| part != HOST);
    }
    let is_named = |it: &Metadata| part_in(&normalise(&it.name)).is_some() && it.pins().next().is_some();
    Metadata::read(&part.input).is_ok_and(|metadata| is_named(&metadata) && metadata.devices().is_empty())
}
