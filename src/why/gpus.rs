//! The GPUs of this machine as a runtime sees them: `HSA_OVERRIDE_GFX_VERSION` renames, removes or disables them.

use std::collections::BTreeMap;
use std::ffi::OsString;

use super::answer::{AnswerStatus, Explanation};
use super::cause::Cause;
use super::lookup::Lookup;
use super::question::Question;
use crate::coverage::CauseKind;
use crate::gpu::{
    GpuNode, OVERRIDE, OverrideEffect, TargetId, VersionOverride, stand_ins, value_for, version_override,
};

/// The change after which libhsakmt ignores empty values, and refuses those of another generation.
const CHANGE: &str = "ROCm/rocm-systems#5686 (May 2026)";

/// The variable of rocm-bootstrap 0.3.0 (`rocm_bootstrap/detect.py`), by which a machine without a GPU installs packages.
pub(crate) const FORCED: &str = "ROCM_BOOTSTRAP_FORCE_GFX_ARCH";

/// A GPU as a runtime sees it.
#[derive(Clone, Debug)]
pub(crate) struct VisibleGpu {
    /// What runtimes take it for.
    pub target: TargetId,
    node: GpuNode,
    renamed_by: Option<VersionOverride>,
}

/// Why a runtime finds no GPU, although there are some.
pub(crate) fn disabled(nodes: &[GpuNode], variables: &BTreeMap<OsString, OsString>) -> Option<Explanation> {
    let cause = nodes.iter().find_map(|node| cause_of_none(node, &of_node(node, variables)?));
    let cause = cause.or_else(|| {
        let is_out = |node| of_node(node, variables).is_some_and(|it| it.effect == OverrideEffect::Unknown);
        let first = nodes.first().filter(|_| nodes.iter().all(is_out))?;
        let by = of_node(first, variables)?;
        let reason = format!("{by} names no GPU that runtimes know, so they leave out the {}", first.target);
        Some(Cause::new(CauseKind::OverrideUnknown, reason, Some(format!("unset {}", by.variable))))
    })?;
    Some(Explanation::without_gpu(cause))
}

/// The GPUs that a runtime sees, unless [`disabled`] says that there are none.
pub(crate) fn visible(nodes: Vec<GpuNode>, variables: &BTreeMap<OsString, OsString>) -> Vec<VisibleGpu> {
    let see = |node: GpuNode| {
        let by = of_node(&node, variables);
        let target = match by.as_ref().map(|by| &by.effect) {
            Some(OverrideEffect::Unknown) => return None,
            Some(OverrideEffect::Renames(target)) => target.clone(),
            _ => node.target.clone(),
        };
        let renamed_by = by.filter(|by| matches!(by.effect, OverrideEffect::Renames(_)));
        Some(VisibleGpu { target, node, renamed_by })
    };
    nodes.into_iter().filter_map(see).collect()
}

/// Adds to an answer that older runtimes find no GPU, because the variable is empty.
pub(crate) fn warn_of_empty(variables: &BTreeMap<OsString, OsString>, nodes: &[GpuNode], answer: &mut Explanation) {
    let empty = nodes.iter().filter_map(|node| of_node(node, variables)).find(|it| it.effect == OverrideEffect::Empty);
    let Some(VersionOverride { variable, .. }) = empty else { return };
    let nothing = format!("; {variable} is set and empty, with which runtimes before {CHANGE} find no GPU at all");
    answer.sentence += &nothing;
    answer.command.get_or_insert_with(|| format!("unset {variable}"));
}

/// Adds to an answer without code that installers chose packages for other GPUs than those of this machine.
pub(crate) fn warn_of_forced(variables: &BTreeMap<OsString, OsString>, gpus: &[TargetId], answer: &mut Explanation) {
    let Some(forced) = forced(variables).filter(|_| answer.status == AnswerStatus::NoCode) else { return };
    let is_own = |name: &str| gpus.iter().any(|gpu| gpu.processor() == name.split(':').next().unwrap_or_default());
    if !forced.split(',').all(|name| is_own(name.trim())) {
        let ignored = format!("; {FORCED}={forced} makes installers choose packages for that, and HIP ignores it");
        answer.sentence += &ignored;
    }
}

/// The GPUs for which rocm-bootstrap chooses packages, whatever the machine has.
pub(crate) fn forced(variables: &BTreeMap<OsString, OsString>) -> Option<String> {
    let value = variables.get(&OsString::from(FORCED))?.to_string_lossy();
    Some(value.trim().to_owned()).filter(|value| !value.is_empty())
}

fn of_node(node: &GpuNode, variables: &BTreeMap<OsString, OsString>) -> Option<VersionOverride> {
    version_override(node, |name| variables.get(name).cloned())
}

fn cause_of_none(node: &GpuNode, by: &VersionOverride) -> Option<Cause> {
    let (kind, reason) = match by.effect {
        OverrideEffect::Invalid => {
            let decimal = value_for("gfx90a").unwrap_or_default();
            let reason = format!("{by} is not three decimal numbers and nothing else (gfx90a is {decimal})");
            (CauseKind::OverrideInvalid, reason)
        }
        OverrideEffect::OtherGeneration => {
            let reason = format!(
                "{by} is of another generation than the {}: runtimes with {CHANGE} refuse that, and older ones run \
                 code that the GPU cannot run",
                node.target
            );
            (CauseKind::OverrideGeneration, reason)
        }
        OverrideEffect::Renames(_) | OverrideEffect::Unknown | OverrideEffect::Empty => return None,
    };
    Some(Cause::new(kind, reason, Some(format!("unset {}", by.variable))))
}

impl Question {
    /// What a variable has to do with the look-up for the GPU at `position`. `again` looks up another GPU.
    pub(super) fn explain_override(
        &self,
        position: usize,
        lookup: &mut Lookup,
        again: impl Fn(&TargetId) -> Option<Lookup>,
    ) {
        let finds = |target: &TargetId| again(target).is_some_and(|it| it.cause.is_none());
        let visible = self.visible.get(position);
        let renamed = visible.and_then(|gpu| Some((gpu, gpu.renamed_by.as_ref()?)));
        if let Some((gpu, by)) = renamed {
            let (real, number) = (&gpu.node.target, gpu.node.number);
            lookup
                .evidence
                .follows(format!("{by} makes runtimes take KFD node {number}, a {real}, for a {}", gpu.target));
            let Some(cause) = &mut lookup.cause else { return };
            if finds(real) {
                let reason =
                    format!("{by} makes runtimes take the {real} for a {}, and there is code for {real}", gpu.target);
                *cause = Cause::new(CauseKind::OverrideRenames, reason, Some(self.without(gpu, by)));
            } else {
                cause.add(&format!("; {by} makes runtimes take the {real} for that, which has no code either"));
            }
            return;
        }
        let Some(cause) = lookup.cause.as_mut().filter(|cause| cause.command.is_none()) else { return };
        let Some(gpu) = self.gpus.get(position) else { return };
        let variable = match (visible, self.gpus.len()) {
            (Some(gpu), 2..) => format!("{OVERRIDE}_{}", gpu.node.number),
            // Without their nodes, one of several GPUs cannot be named.
            (None, 2..) => return,
            (_, _) => OVERRIDE.to_owned(),
        };
        if let Some((other, value)) = stand_ins(gpu.processor()).find(|(other, _)| finds(other)) {
            cause.add(&format!(
                "; as a last resort, {variable}={value} makes runtimes take it for a {other}, for which there is code: \
                 nobody tests that, and the code may crash the GPU or give wrong results"
            ));
        }
    }

    /// The command after which runtimes take a GPU for what it is.
    fn without(&self, gpu: &VisibleGpu, by: &VersionOverride) -> String {
        let is_masking = by.variable != OVERRIDE && self.variables.contains_key(&OsString::from(OVERRIDE));
        match value_for(gpu.node.target.processor()).filter(|_| is_masking) {
            Some(value) => format!("export {}={value}", by.variable),
            None => format!("unset {}", by.variable),
        }
    }
}
