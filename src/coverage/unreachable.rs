//! Code that is there, and that no GPU reaches, or none of the required ones.

use super::code::LibraryCode;
use super::model::{CoverageInput, UnreachableCode};
use crate::gpu::TargetId;
use crate::kpack::ArchiveReader;
use crate::loader::{is_archive, named_target};
use crate::source::EntryKind;

/// The most archives and code objects that are listed.
const MAX_LISTED: usize = 1000;

/// All such code, sorted by path.
pub(super) fn find(examined: &CoverageInput<'_>, libraries: &[LibraryCode], gpus: &[TargetId]) -> Vec<UnreachableCode> {
    let of_library = |library: &LibraryCode| {
        let code = library.targets().into_iter().filter_map(|target| {
            let reason = reason(target).or_else(|| gpus.iter().find_map(|gpu| reason_for(gpu, target, library)))?;
            Some(UnreachableCode { path: library.path.to_string(), target: Some(target.to_string()), reason })
        });
        code.collect::<Vec<_>>()
    };
    let mut all: Vec<_> = libraries.iter().flat_map(of_library).collect();
    all.extend(examined.joined.orphans.iter().map(|code| UnreachableCode {
        path: code.archive.to_string(),
        target: Some(code.object.target.to_string()),
        reason: format!("no split binary asks for {}", code.key),
    }));
    all.extend(archives(examined));
    all.sort();
    all.dedup();
    all.truncate(MAX_LISTED);
    all
}

/// Why a runtime finds code for a target on no GPU.
fn reason(target: &TargetId) -> Option<String> {
    if let Some(feature) = target.impossible_feature() {
        return Some(format!("{feature} is not possible on {}", target.processor()));
    }
    target.is_unknown().then(|| "no runtime that asks COMGR finds an ID like this".to_owned())
}

/// Why a runtime does not find code for a target on a required GPU that needs it, although it is made for that GPU.
fn reason_for(gpu: &TargetId, target: &TargetId, library: &LibraryCode) -> Option<String> {
    let is_needed = library.wrappers.iter().any(|code| {
        let present: Vec<_> = code.iter().collect();
        present.contains(&target) && gpu.served_by(&present).kind.is_none()
    });
    if !is_needed {
        return None;
    }
    if let Some(open) = gpu.open_fallback().filter(|open| open.generic == target.processor()) {
        return Some(format!(
            "a {gpu} runs it only with a HIP runtime that has {}, and no release has it",
            open.source
        ));
    }
    if !target.is_same_gpu(gpu) {
        return None;
    }
    if target.processor() != gpu.processor() {
        return Some(format!("a runtime that says {gpu} does not take it"));
    }
    let modes = gpu.served_by(&[target]).modes_with.join(" or ");
    Some(if modes.is_empty() { format!("no {gpu} takes it") } else { format!("a {gpu} takes it only with {modes}") })
}

/// Archives that were not joined with a binary.
fn archives(examined: &CoverageInput<'_>) -> Vec<UnreachableCode> {
    let mut found = Vec::new();
    for entry in &examined.input.entries {
        let EntryKind::File { content, .. } = &entry.kind else { continue };
        if !is_archive(&entry.path, content) {
            continue;
        }
        let path = entry.path.to_string();
        let target = named_target(&path).map(str::to_owned);
        let reason = match ArchiveReader::list(content.clone()) {
            Err(error) => error.to_string(),
            Ok(_) => "no binary of the input was joined with this archive".to_owned(),
        };
        found.push(UnreachableCode { path, target, reason });
    }
    found
}
