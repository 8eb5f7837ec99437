//! What is known of the name of a GPU, and code that a runtime does not take although the GPU could run it.

use std::collections::BTreeSet;

use super::cause::Cause;
use crate::coverage::{CauseKind, Trail};
use crate::gpu::TargetId;

/// The environment variable that decides whether the HSA runtime calls revision A0 of gfx1250 gfx1250-strict
/// (ROCm/rocm-systems#11317).
const STRICT_SWITCH: &str = "HSA_DISABLE_GFX12_STRICT";

/// The processors whose XNACK mode a process can choose: `KFD_SUPPORT_XNACK_PER_PROCESS` has versions 9.4.2 to 9.4.4 and
/// 9.5.0 of the graphics core (`drivers/gpu/drm/amd/amdkfd/kfd_priv.h` of ROCm/amdgpu 005da881). It also has 12.1.0, that
/// of gfx1250, whose target IDs name no mode.
const PER_PROCESS: [&str; 3] = ["gfx90a", "gfx942", "gfx950"];

/// What is known about the name of a device.
pub(super) fn model(device: &TargetId, evidence: &mut Trail) {
    if !device.is_known() {
        evidence.follows(format!("{device} is not known here: only code of the same name is looked for"));
    }
    if let Some(open) = device.open_fallback() {
        let (generic, source) = (open.generic, open.source);
        evidence.follows(format!("a {device} runs code for {generic} only with a HIP runtime that has {source}"));
    }
}

/// The cause if there is code for the GPU that a runtime does not take.
pub(super) fn cause(device: &TargetId, existing: &BTreeSet<&TargetId>) -> Option<Cause> {
    [unserved, other_mode, unfound].iter().find_map(|cause| cause(device, existing))
}

/// The cause if the code that is there would do for the GPU, but a runtime does not take it.
fn unserved(device: &TargetId, existing: &BTreeSet<&TargetId>) -> Option<Cause> {
    if let Some(open) = device.open_fallback().filter(|open| existing.iter().any(|it| it.processor() == open.generic)) {
        let (generic, source) = (open.generic, open.source);
        let reason = format!(
            "there is code for {generic}, which needs a HIP runtime that has {source}; that is open, and no release has it"
        );
        return Some(Cause::new(CauseKind::FallbackUnreleased, reason, None));
    }
    let other = existing.iter().find(|it| it.processor() != device.processor() && it.is_same_gpu(device))?;
    let is_strict = device.processor().ends_with("-strict");
    let command = if is_strict { format!("unset {STRICT_SWITCH}") } else { format!("export {STRICT_SWITCH}=0") };
    let reason = format!(
        "there is code for {other} only; a runtime calls revision A0 of the GPU gfx1250-strict if {STRICT_SWITCH}=0, and \
         otherwise gfx1250 as all others"
    );
    Some(Cause::new(CauseKind::StrictCode, reason, Some(command)))
}

/// The cause if there is code for the GPU under an entry ID that runtimes do not read so.
fn unfound(device: &TargetId, existing: &BTreeSet<&TargetId>) -> Option<Cause> {
    let is_meant = |code: &TargetId| device.candidates().iter().any(|it| it.processor() == code.processor());
    let id = existing.iter().find(|it| it.meant().is_some_and(|meant| is_meant(&meant)))?.unknown_id()?;
    let reason = format!(
        "there is code for the GPU under the entry ID {id}, which no HIP runtime finds; an ID is hip or hipv4, then \
         -amdgcn-amd-amdhsa--, and a target that no earlier entry serves"
    );
    Some(Cause::new(CauseKind::EntryId, reason, None))
}

/// The cause if there is code for the GPU in another mode. `HSA_XNACK` decides about XNACK. Linux follows it for some
/// processors. Elsewhere it has one mode since the driver was loaded: on gfx9 by its option `noretry`, and on gfx10 to gfx12
/// without XNACK (`kfd_process_xnack_mode` in `kfd_process.c` of ROCm/amdgpu 005da881).
fn other_mode(device: &TargetId, existing: &BTreeSet<&TargetId>) -> Option<Cause> {
    let same: Vec<_> = existing.iter().filter(|target| target.processor() == device.processor()).collect();
    let (first, rest) = same.split_first()?;
    let names = rest.iter().fold(first.to_string(), |names, target| format!("{names}, {target}"));
    let mut reason = format!("there is code for {names} only, and the GPU is a {device}: its features differ");
    let switched = |from: &str, to: &str| {
        let name = device.to_string();
        let other: TargetId = name.contains(from).then(|| name.replace(from, to))?.parse().ok()?;
        same.iter().any(|code| other.candidates().contains(code)).then_some(())
    };
    let command = if switched("xnack-", "xnack+").is_some() {
        let is_per_process = PER_PROCESS.contains(&device.processor());
        let can_be_on = device.processor().starts_with("gfx9");
        reason.push_str(match (is_per_process, can_be_on) {
            (true, _) => "",
            (false, true) => "; the driver has to be loaded with its option noretry=0, too",
            (false, false) => "; Linux does not switch XNACK on for this GPU",
        });
        can_be_on.then_some("export HSA_XNACK=1")
    } else {
        switched("xnack+", "xnack-").map(|()| "unset HSA_XNACK")
    };
    Some(Cause::new(CauseKind::OtherMode, reason, command.map(str::to_owned)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{TargetId, other_mode};

    #[test]
    fn xnack_is_switched_on_where_linux_does_it() {
        for (device, code, command, reason) in [
            ("gfx90a:sramecc+:xnack-", "gfx90a:xnack+", Some("export HSA_XNACK=1"), "its features differ"),
            ("gfx942:sramecc+:xnack-", "gfx942:xnack+", Some("export HSA_XNACK=1"), "its features differ"),
            ("gfx906:sramecc+:xnack-", "gfx906:xnack+", Some("export HSA_XNACK=1"), "noretry=0, too"),
            ("gfx906:sramecc+:xnack+", "gfx906:xnack-", Some("unset HSA_XNACK"), "its features differ"),
            ("gfx1012:xnack-", "gfx1012:xnack+", None, "Linux does not switch XNACK on for this GPU"),
        ] {
            let (device, code): (TargetId, TargetId) = (device.parse().unwrap(), code.parse().unwrap());
            let cause = other_mode(&device, &BTreeSet::from([&code])).unwrap();
            assert_eq!(cause.command.as_deref(), command, "{device}");
            assert!(cause.reason.ends_with(reason), "{device}: {}", cause.reason);
        }
    }
}
