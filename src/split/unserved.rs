//! Warnings about targets whose code is kept, but may serve no GPU.

use std::collections::BTreeMap;

use super::plan::{Plan, PlannedBinary};
use crate::gpu::{BundleKey, TargetId, UNKNOWN};
use crate::text::more;

/// One warning for each target that no GPU has, and for each processor that is not known, with a file that has it.
pub(super) fn warnings(plan: &Plan) -> Vec<String> {
    let of_binaries = plan.binaries.iter().flat_map(|binary| {
        // The scan of a fat binary has named the entry IDs that no runtime finds.
        let is_named = |target: &TargetId| target.is_unknown() && !plan.joined.contains(&binary.path);
        binary.code.keys().filter(move |target| !is_named(target)).map(|target| (target, &binary.path))
    });
    let spirv = of_spirv(plan);
    let of_files = plan.bundle_files.iter().flat_map(|file| file.targets.iter().map(|target| (target, &file.path)));
    let mut found = BTreeMap::new();
    for (target, path) in of_binaries.chain(of_files) {
        if let Some(reason) = reason(target) {
            found.entry(reason).or_insert(path);
        }
    }
    spirv.into_iter().chain(found.into_iter().map(|(reason, path)| format!("{path}: {reason}"))).collect()
}

/// A warning about SPIR-V code that goes to archives. A HIP runtime compiles that of a fat or thin library for every GPU without other
/// code in it, and no release takes it out of archives (ROCm/rocm-systems#11040 is open).
fn of_spirv(plan: &Plan) -> Option<String> {
    let is_wanted = |target: &TargetId| plan.options.targets.contains(&plan.options.packaging.key_of(target));
    let has_spirv = |binary: &&PlannedBinary| binary.code.keys().any(|target| target.is_spirv() && is_wanted(target));
    let mut binaries = plan.binaries.iter().filter(has_spirv).map(|binary| &binary.path);
    let (first, more) = (binaries.next()?, more(binaries.count(), ""));
    Some(format!(
        "{first}{more}: SPIR-V code serves no GPU out of an archive, since no released HIP runtime takes it from there; thin binaries keep it, \
         and --exclude-targets amdgcnspirv leaves it out"
    ))
}

/// Why code for a target may serve no GPU.
fn reason(target: &TargetId) -> Option<String> {
    if let Some(feature) = target.impossible_feature() {
        let processor = target.processor();
        return Some(format!("code for {target} is kept and serves no GPU: {feature} is not possible on {processor}"));
    }
    if target.is_unknown() {
        let id = target.unknown_id().unwrap_or_else(|| target.to_string());
        return Some(format!("code is kept in {UNKNOWN}/ and serves no GPU: no runtime finds it by its name {id}"));
    }
    let (processor, key) = (target.without_features(), BundleKey::of(target));
    let is_unknown = !target.is_known() && !key.is_known();
    is_unknown
        .then(|| format!("{processor} is a processor that kpackfs does not know: its code is the device part {key}"))
}
