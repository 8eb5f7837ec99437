//! Requirements with extras for GPUs that a split moved from the host wheel to the device wheels.

use super::distributions::{Distribution, Role};
use super::report::Findings;
use super::rules::Rule;
use crate::gpu::Level;
use crate::verify::devices::key;
use crate::wheel::{normalise, replaced_distribution};

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
