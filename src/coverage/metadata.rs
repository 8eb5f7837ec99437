//! Metadata and names against code: GPUs that they promise without code, and the reverse.

use std::collections::BTreeSet;

use serde_json::Value;

use super::code::LibraryCode;
use super::model::{Contradiction, CoverageInput};
use crate::database::{Arch, named_arch};
use crate::gpu::TargetId;
use crate::source::EntryPath;
use crate::split::Destination;
use crate::wheel::{self, Metadata};

/// What promises code for targets.
struct NamedTargets {
    /// The file.
    path: String,
    /// What in it.
    source: &'static str,
    targets: BTreeSet<TargetId>,
    /// Whether it is meant to name all targets.
    is_complete: bool,
}

/// All contradictions, sorted by path.
pub(super) fn compare(examined: &CoverageInput<'_>, libraries: &[LibraryCode]) -> Vec<Contradiction> {
    let existing = existing(examined, libraries);
    let present: Vec<_> = existing.iter().collect();
    let mut found: Vec<_> = libraries.iter().filter_map(wrong_name).collect();
    for promise in promises(examined) {
        let NamedTargets { path, source, targets, is_complete } = &promise;
        let contradiction = |target: &TargetId, reason: String| Contradiction {
            path: path.clone(),
            target: target.to_string(),
            reason,
        };
        let broken = targets.iter().filter(|target| !is_served(target, &present));
        found.extend(broken.map(|target| contradiction(target, format!("{source} {target}, without code"))));
        if *is_complete && !targets.is_empty() {
            let processors: BTreeSet<_> = existing.iter().map(TargetId::without_features).collect();
            let silent = processors.iter().filter(|target| is_gpu(target));
            let silent = silent.filter(|target| !targets.iter().any(|promised| promised.is_same_gpu(target)));
            let reason =
                |target: &TargetId| format!("there is code for {target}, which it does not name ({source} others)");
            found.extend(silent.map(|target| contradiction(target, reason(target))));
        }
    }
    found.sort();
    found.dedup();
    found
}

/// Whether there is code for a target, in any mode, or for a processor of the same package.
fn is_served(target: &TargetId, present: &[&TargetId]) -> bool {
    let is_of_package = |code: &TargetId| code.is_same_gpu(target) && code.impossible_feature().is_none();
    present.iter().any(|code| is_of_package(code)) || target.served_by(present).kind.is_some()
}

fn is_gpu(target: &TargetId) -> bool {
    target.is_known() && !target.is_generic() && !target.is_spirv()
}

/// The targets of all code.
fn existing(examined: &CoverageInput<'_>, libraries: &[LibraryCode]) -> BTreeSet<TargetId> {
    let mut targets: BTreeSet<_> = libraries.iter().flat_map(LibraryCode::targets).cloned().collect();
    for (entry, place) in examined.input.entries.iter().zip(&examined.plan.places) {
        let (Destination::Device(key, handler) | Destination::Unwanted(key, handler)) = place else { continue };
        let arch = handler.named_arch(&entry.path);
        targets.extend(match arch {
            Some(Arch::Target(target)) => Some(target),
            Some(Arch::Bundle(_)) | None => key.as_str().parse().ok(),
        });
    }
    targets
}

/// A library that is named after a GPU and has no code for it.
fn wrong_name(library: &LibraryCode) -> Option<Contradiction> {
    let name = EntryPath::new(library.path.name()).ok()?;
    let target = named_arch(&name).filter(TargetId::is_known)?;
    let targets = library.targets();
    let is_right = library.problem.is_some() || is_served(&target, &targets.into_iter().collect::<Vec<_>>());
    let reason = format!("its name says {target}, without code");
    (!is_right).then(|| Contradiction { path: library.path.to_string(), target: target.to_string(), reason })
}

fn promises(examined: &CoverageInput<'_>) -> Vec<NamedTargets> {
    let mut promises = Vec::new();
    for location in examined.locations {
        let name = location.file_name().and_then(|name| EntryPath::new(name.as_encoded_bytes()).ok());
        let Some(name) = name.filter(|name| name.as_bytes().ends_with(b".whl")) else { continue };
        let targets = named_arch(&name).filter(is_gpu).into_iter().collect();
        promises.push(NamedTargets { path: name.to_string(), source: "its name says", targets, is_complete: false });
    }
    let Some(dist_info) = examined.input.dist_info() else { return promises };
    if let Ok(metadata) = Metadata::read(examined.input) {
        let extras = metadata.extras();
        let target = |extra: &String| extra.strip_prefix("device-").unwrap_or(extra).parse().ok().filter(is_gpu);
        let path = dist_info.child(b"METADATA").to_string();
        let targets = extras.iter().filter_map(target).collect();
        promises.push(NamedTargets { path, source: "an extra names", targets, is_complete: true });
    }
    let path = dist_info.child(b"variant.json");
    let targets = variant_targets(examined, &path).unwrap_or_default();
    promises.push(NamedTargets { path: path.to_string(), source: "it names", targets, is_complete: true });
    promises
}

/// The values of `gfx_arch` in variant.json (PEP 825).
fn variant_targets(examined: &CoverageInput<'_>, path: &EntryPath) -> Option<BTreeSet<TargetId>> {
    let json: Value = serde_json::from_slice(&wheel::text(examined.input, path).ok()?).ok()?;
    let variants = json.get("variants")?.as_object()?.values();
    let values = variants.filter_map(|variant| variant.get("amd")?.get("gfx_arch")?.as_array()).flatten();
    Some(values.filter_map(|value| value.as_str()?.parse().ok()).filter(is_gpu).collect())
}
