//! What is known of the name of a GPU, and code that a runtime does not take although the GPU could run it.

use std::collections::BTreeSet;

use super::cause::{self, Cause};
use super::lookup::Lookup;
use crate::gpu::TargetId;

/// The environment variable that decides whether the HSA runtime calls revision A0 of gfx1250 gfx1250-strict
/// (ROCm/rocm-systems#11317).
const STRICT_SWITCH: &str = "HSA_DISABLE_GFX12_STRICT";

/// What is known about the name of a device.
pub(super) fn model(device: &TargetId, lookup: &mut Lookup) {
    if !device.is_known() {
        lookup.follows(format!("{device} is not known here: only code of the same name is looked for"));
    }
    if let Some(open) = device.open_fallback() {
        let (generic, source) = (open.generic, open.source);
        lookup.follows(format!("a {device} runs code for {generic} only with a HIP runtime that has {source}"));
    }
}

/// The cause if the code that is there would do for the GPU, but a runtime does not take it.
pub(super) fn unserved(device: &TargetId, existing: &BTreeSet<&TargetId>) -> Option<Cause> {
    if let Some(open) = device.open_fallback().filter(|open| existing.iter().any(|it| it.processor() == open.generic)) {
        let (generic, source) = (open.generic, open.source);
        let reason = format!(
            "there is code for {generic}, which needs a HIP runtime that has {source}; that is open, and no release has it"
        );
        return Some(Cause::new(&cause::FALLBACK_UNRELEASED, reason, None));
    }
    let other = existing.iter().find(|it| it.processor() != device.processor() && it.is_same_gpu(device))?;
    let is_strict = device.processor().ends_with("-strict");
    let command = if is_strict { format!("unset {STRICT_SWITCH}") } else { format!("export {STRICT_SWITCH}=0") };
    let reason = format!(
        "there is code for {other} only; a runtime calls revision A0 of the GPU gfx1250-strict if {STRICT_SWITCH}=0, and \
         otherwise gfx1250 as all others"
    );
    Some(Cause::new(&cause::STRICT_CODE, reason, Some(command)))
}
