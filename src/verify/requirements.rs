//! What distributions of a split require of each other, and of others: in METADATA, which names device distributions by extras.
//! A split moves requirements with extras for GPUs from the host wheel to the device wheels.

use std::collections::{BTreeMap, BTreeSet};

use super::choices::Choices;
use super::distributions::{Distribution, Role};
use super::report::{Findings, enumerate};
use super::rules::Rule;
use super::stated::StatedPart;
use crate::gpu::{BundleKey, Level};
use crate::split::HOST;
use crate::wheel::{Metadata, accepts, normalise, part_in, pin_of_extra, replaced_distribution, required_name};

/// Checks that each distribution that another one needs exists in the right version.
pub(super) fn check(distributions: &[Distribution<'_>], are_wheels: bool, choices: &Choices, findings: &Findings) {
    check_hosts(distributions, are_wheels, findings);
    check_reachable(distributions, findings);
    let mut existing = BTreeMap::<String, BTreeSet<&str>>::new();
    for (name, version) in distributions.iter().filter_map(Distribution::name) {
        existing.entry(name).or_default().insert(version);
    }
    let problem = |name: &str, version: &str| {
        let Some(found) = existing.get(name) else {
            return Some((Rule::DistributionMissing, "which is not among what is verified".to_owned()));
        };
        if found.iter().any(|found| accepts(version, found)) {
            return None;
        }
        let found: Vec<_> = found.iter().map(|found| format!("{name} {found}")).collect();
        Some((Rule::DistributionVersion, format!("but there is {}", found.join(", "))))
    };
    for device in distributions.iter().filter(|it| it.role == Role::Device && choices.has_host) {
        for (name, version) in device.pins_of_split() {
            if let Some((rule, problem)) = problem(&name, version) {
                let reason = format!("it belongs to {name}=={version}, {problem}");
                findings.add(rule, device.label(), reason);
            }
        }
    }
    for host in distributions.iter().filter(|it| it.role == Role::Host) {
        for (target, devices) in host.metadata.iter().flat_map(Metadata::devices).filter(|(target, _)| target != "all")
        {
            let own = devices.iter().find(|(name, _)| is_of_target(&target, name));
            let Some((own, _)) = own.filter(|(name, _)| existing.contains_key(name)) else { continue };
            for (name, version) in &devices {
                if let Some((rule, problem)) = problem(name, version) {
                    let reason = format!("with {own} it needs {name}=={version}, {problem}");
                    findings.add(rule, host.label(), reason);
                }
            }
        }
    }
}

/// Reports device distributions whose METADATA does not name their host, and hosts of device distributions whose METADATA
/// names none of them: installers then install one without the other.
fn check_hosts(distributions: &[Distribution<'_>], are_wheels: bool, findings: &Findings) {
    for device in distributions.iter().filter(|it| it.role == Role::Device) {
        let (Some((own, _)), Some((name, version))) = (device.name(), device.host_pin()) else {
            let reason = match device.metadata {
                Some(_) => "its METADATA does not require the host distribution in its own version",
                None => "it has no METADATA that can be read",
            };
            findings.add(Rule::DeviceRequirements, device.label(), reason);
            continue;
        };
        let is_host =
            |it: &&Distribution<'_>| it.name().is_some_and(|(other, found)| other == name && accepts(version, found));
        let Some(host) = distributions.iter().find(is_host) else { continue };
        if host.metadata.as_ref().is_some_and(|it| it.devices().is_empty()) {
            let reason = format!("its METADATA names no device distribution, but {own} belongs to it");
            findings.add(Rule::HostRequirements, host.label(), reason);
        } else if host.metadata.is_some() && host.devices().all(|name| name != own) {
            let reason = format!("no extra of it leads to {own}, which belongs to it");
            // Installers take wheels by extras. Parts of other runs fit, too.
            if are_wheels {
                findings.add(Rule::HostRequirements, host.label(), reason);
            } else {
                findings.note(format!("{}: {reason}", host.label()));
            }
        }
    }
}

/// Reports host distributions of which an installer would leave out a device distribution that belongs to them: by an extra that is not
/// declared, which pip leaves out with a warning (Core metadata specifications, "Provides-Extra"), because none requires it by its version
/// and an extra alone, or because the extra for all targets lacks it.
fn check_reachable(distributions: &[Distribution<'_>], findings: &Findings) {
    for host in distributions.iter().filter(|it| it.role == Role::Host) {
        let (Some(metadata), Some((own, _))) = (&host.metadata, host.name()) else { continue };
        let say = |reason: String| findings.add(Rule::HostRequirements, host.label(), reason);
        let devices = distributions.iter().filter(|it| it.role == Role::Device);
        let devices: BTreeSet<_> =
            devices.filter(|it| it.host_name().as_ref() == Some(&own)).filter_map(|it| Some(it.name()?.0)).collect();
        let mut of_extras = BTreeMap::<String, BTreeSet<String>>::new();
        for (extra, name, _) in metadata.pins_of_extras().filter(|(_, name, _)| devices.contains(name)) {
            of_extras.entry(extra).or_default().insert(name);
        }
        // What is required without an extra is always installed.
        let always: BTreeSet<_> = metadata.pins().map(|(name, _)| name).collect();
        for requirement in metadata.requirements().filter(|it| pin_of_extra(it).is_none()) {
            let name = normalise(required_name(requirement));
            let marker = requirement.split_once(';').map_or("", |(_, marker)| marker);
            let has = |extra: &str| of_extras.get(extra).is_some_and(|names| names.contains(&name));
            let mut extras = extras_in(marker).peekable();
            // Further requirements do no harm to those of the extras.
            let is_served = if extras.peek().is_none() {
                of_extras.values().any(|names| names.contains(&name))
            } else {
                extras.all(|extra| has(&extra))
            };
            // Variants have markers of their own (PEP 825).
            let is_right = is_served || always.contains(&name) || marker.contains("variant_");
            if devices.contains(&name) && !is_right {
                let reason = "installers may leave it out or take another, since its version and an extra alone do not require it";
                say(format!("{name}: {reason}: {requirement}"));
            }
        }
        let declared = metadata.extras();
        let undeclared: Vec<_> = of_extras.keys().filter(|extra| !declared.contains(*extra)).collect();
        if !undeclared.is_empty() {
            say(format!("its METADATA has no Provides-Extra for {}", enumerate(&undeclared)));
        }
        let all: BTreeSet<_> = of_extras.values().flatten().collect();
        for (extra, names) in of_extras.iter().filter(|(extra, _)| is_of_all(extra)) {
            let missing: Vec<_> =
                all.iter().filter(|name| !names.contains(**name) && !always.contains(**name)).collect();
            if !missing.is_empty() {
                say(format!("its extra {extra} lacks {}", enumerate(&missing)));
            }
        }
    }
}

/// The normalised extras that a marker names.
fn extras_in(marker: &str) -> impl Iterator<Item = String> {
    marker.split("extra").skip(1).filter_map(|rest| {
        let name = rest.trim_start().strip_prefix("==")?.trim_start().strip_prefix(['"', '\''])?;
        Some(normalise(name.split(['"', '\'']).next()?))
    })
}

/// Whether an extra is that of all targets, in one of its spellings.
fn is_of_all(extra: &str) -> bool {
    ["all", "device-all"].contains(&extra)
}

/// Reports host distributions whose METADATA does not name the device distributions that were made with them, or
/// installs that of another GPU for a target.
pub(super) fn check_extras(stated: &[StatedPart<'_>], findings: &Findings) {
    let of_hosts = stated.iter().filter_map(|it| Some((it.distribution?, it.manifest.as_ref()?)));
    for (host, manifest) in of_hosts.filter(|(_, manifest)| manifest.part == HOST) {
        let Some(metadata) = &host.metadata else { continue };
        let (extras, own) = (metadata.devices(), metadata.own_extras());
        // Variants have no extras.
        if extras.is_empty() {
            continue;
        }
        let say = |reason: String| findings.add(Rule::HostRequirements, host.label(), reason);
        let keys = |is_wanted: fn(&str) -> bool| {
            let wanted = extras.iter().filter(move |(extra, _)| is_wanted(extra));
            wanted.flat_map(|(_, of_extra)| of_extra).filter_map(|(name, _)| part_in(name)).collect::<BTreeSet<_>>()
        };
        // Each target has an extra of its own, which installs the parts of its families as well.
        let (of_targets, of_any) = (keys(|extra| extra != "all"), keys(|_| true));
        let has = |part: &BundleKey| if part.level() == Level::Target { &of_targets } else { &of_any }.contains(part);
        let parts = manifest.parts.iter().filter_map(|part| part.parse::<BundleKey>().ok());
        let has_extra = |part: &BundleKey| own.of_split(&normalise(part.as_str())).is_some();
        let missing: Vec<_> = parts.filter(|part| part.is_known() && has_extra(part) && !has(part)).collect();
        if !missing.is_empty() {
            say(format!("its METADATA has no extra with the device distribution for {}", enumerate(&missing)));
        }
        for (target, of_target) in extras.iter().filter(|(target, _)| *target != "all") {
            if !of_target.iter().any(|(name, _)| is_of_target(target, name)) {
                let names: Vec<_> = of_target.iter().map(|(name, _)| name.as_str()).collect();
                let extra = own.of_split(target).unwrap_or_default();
                say(format!("its extra {extra} installs {} only", enumerate(&names)));
            }
        }
    }
}

/// Checks that each device wheel for a target requires what its host wheel does not require any more, and notes which
/// form the requirements have.
pub(super) fn check_moved(distributions: &[Distribution<'_>], is_compared: bool, findings: &Findings) {
    for host in distributions.iter().filter(|it| it.role == Role::Host) {
        let replaced = host.statement.as_ref().map(|it| &*it.replaced_requirements).unwrap_or_default();
        let kept = host.metadata.as_ref().map_or(0, |metadata| metadata.gpu_requirements().count());
        if is_compared && !replaced.is_empty() {
            findings.note(format!(
                "{}: requirements for GPUs are split between its wheels, instead of: {}",
                host.label(),
                replaced.join(", ")
            ));
        } else if is_compared && kept > 0 {
            findings.note(format!("{}: requirements for GPUs are those of the fat wheel", host.label()));
        }
        let required: Vec<_> = replaced.iter().filter_map(|field| replaced_distribution(field)).collect();
        let Some(own) = host.name().map(|(name, _)| name) else { continue };
        for device in distributions.iter().filter(|it| it.role == Role::Device && it.is_made_of(&own)) {
            let is_target =
                device.name().and_then(|(name, _)| part_in(&name)).is_some_and(|key| key.level() == Level::Target);
            let Some(metadata) = device.metadata.as_ref().filter(|_| is_target) else { continue };
            let has = |name: &String| metadata.gpu_requirements().any(|it| normalise(it.name) == *name);
            for name in required.iter().filter(|name| !has(name)) {
                let reason =
                    format!("it requires no extra of {name} for its GPU, and the host part requires none either");
                findings.add(Rule::RequirementMissing, device.label(), reason);
            }
        }
    }
}

/// Whether a device distribution is that of a target, according to its name. Others are those of the target's families.
fn is_of_target(target: &str, name: &str) -> bool {
    part_in(name).is_some_and(|part| normalise(part.as_str()) == target)
}
