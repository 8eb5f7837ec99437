//! The names of distributions: in METADATA, in the names of their directories, in the manifest of the host part, and in
//! the extras that install device distributions. A split moves requirements with extras for GPUs from the host wheel to
//! the device wheels.

use std::collections::BTreeSet;

use super::context::Context;
use super::devices::{devices, is_of_target, key};
use super::distributions::{Distribution, Role, named_by};
use super::manifest::StatedPart;
use super::report::{Findings, enumerate};
use super::rules::Rule;
use crate::gpu::{BundleKey, Level};
use crate::split::HOST;
use crate::wheel::{STATEMENT, WheelName, accepts, normalise, replaced_distribution};

/// Reports distributions of a split whose METADATA has another name or version than their directory or wheel. Installers go by
/// one or by the other ("Recording installed projects"), and refuse such wheels.
pub(super) fn check_directories(distributions: &[Distribution<'_>], findings: &Findings) {
    // pip renames a directory so that it is ignored (`~orch-…`), and leaves it if it is interrupted.
    let is_left = |it: &Distribution<'_>| it.directory.name().starts_with(b"~");
    for it in distributions.iter().filter(|it| it.is_of_split() && !is_left(it)) {
        let Some((name, version)) = it.metadata.as_ref().and_then(|_| it.name()) else { continue };
        let of_directory = named_by(&it.directory).map(|(named, version)| ("directory", named, version.to_owned()));
        let file = it.part.input.location.file_name().and_then(|file| file.to_str());
        let of_wheel = file.and_then(|file| WheelName::parse(file).ok());
        let of_wheel = of_wheel.map(|wheel| ("file", normalise(&wheel.distribution), wheel.version));
        let mut named = of_directory.into_iter().chain(of_wheel);
        let other = named.find(|(_, named, of_name)| *named != name || !accepts(of_name, version));
        if let Some((place, named, of_name)) = other {
            let reason = format!(
                "the name of its {place} is that of {named} {of_name}, and its METADATA that of {name} {version}"
            );
            findings.add(Rule::DistributionName, it.label(), reason);
        }
    }
}

/// Reports statements, and METADATA of host distributions, that cannot be read.
pub(super) fn check_readable(distributions: &[Distribution<'_>], findings: &Findings) {
    for it in distributions.iter().filter(|it| it.statement.is_none()) {
        let path = it.directory.child(STATEMENT.as_bytes());
        if it.part.input.entry(&path).is_some() {
            let reason = "it is no statement of this version of kpackfs";
            findings.add(Rule::ManifestUnreadable, it.part.label(&path), reason);
        }
    }
    let named: BTreeSet<_> = distributions.iter().filter_map(Distribution::host_name).collect();
    let is_host =
        |it: &&Distribution<'_>| it.role == Role::Host || it.name().is_some_and(|(name, _)| named.contains(&name));
    for host in distributions.iter().filter(|it| it.metadata.is_none()).filter(is_host) {
        findings.add(Rule::HostRequirements, host.label(), "it has no METADATA that can be read");
    }
}

impl Context<'_> {
    /// Reports host distributions whose METADATA does not name the device distributions that were made with them, or
    /// installs that of another GPU for a target.
    pub(super) fn check_extras(&self, stated: &[StatedPart<'_>]) {
        let of_hosts = stated.iter().filter_map(|it| Some((it.distribution?, it.manifest.as_ref()?)));
        for (host, manifest) in of_hosts.filter(|(_, manifest)| manifest.part == HOST) {
            let extras = host.metadata.as_ref().map(devices).unwrap_or_default();
            // Variants have no extras.
            if extras.is_empty() {
                continue;
            }
            let say = |reason: String| self.findings.add(Rule::HostRequirements, host.label(), reason);
            let keys = |is_wanted: fn(&str) -> bool| {
                let wanted = extras.iter().filter(move |(extra, _)| is_wanted(extra));
                wanted.flat_map(|(_, of_extra)| of_extra).filter_map(|(name, _)| key(name)).collect::<BTreeSet<_>>()
            };
            // Each target has an extra of its own, which installs the parts of its families as well.
            let (of_targets, of_any) = (keys(|extra| extra != "all"), keys(|_| true));
            let has =
                |part: &BundleKey| if part.level() == Level::Target { &of_targets } else { &of_any }.contains(part);
            let parts = manifest.parts.iter().filter_map(|part| part.parse::<BundleKey>().ok());
            let missing: Vec<_> = parts.filter(|part| part.is_known() && !has(part)).collect();
            if !missing.is_empty() {
                say(format!("its METADATA has no extra with the device distribution for {}", enumerate(&missing)));
            }
            for (target, of_target) in extras.iter().filter(|(target, _)| *target != "all") {
                let is_own = |name: &str| {
                    is_of_target(target, name) || key(name).is_some_and(|key| key.as_str() == target.as_str())
                };
                if !of_target.iter().any(|(name, _)| is_own(name)) {
                    let names: Vec<_> = of_target.iter().map(|(name, _)| name.as_str()).collect();
                    say(format!("its extra device-{target} installs {} only", enumerate(&names)));
                }
            }
        }
    }
}

/// Checks that each device wheel for a target requires what its host wheel does not require any more, and notes which
/// form the requirements have.
pub(super) fn check(distributions: &[Distribution<'_>], is_compared: bool, findings: &Findings) {
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
                device.name().and_then(|(name, _)| key(&name)).is_some_and(|key| key.level() == Level::Target);
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
