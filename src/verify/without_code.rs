//! What is said of a split binary whose wrappers lead to no code.

use std::collections::HashSet;

use super::choices::Choices;
use super::lookup::{BinaryLookups, OverlaidArchives, WrapperRequest};
use super::parts::{Parts, PartsKind};
use super::report::{Findings, enumerate};
use super::rules::Rule;
use crate::source::EntryPath;

impl OverlaidArchives {
    /// Looks up the wrappers of a binary, and reports those without code.
    pub(super) fn walk_binary(
        &self,
        parts: &Parts,
        path: &EntryPath,
        wrappers: &[Option<WrapperRequest>],
        choices: &Choices,
        listed: Option<&HashSet<&str>>,
        findings: &Findings,
    ) -> BinaryLookups {
        let mut lookups = self.look_up(parts, path, wrappers, findings);
        let label = || parts.label(0, path);
        let without_code = std::mem::take(&mut lookups.without_code);
        // A shard of artifacts has code for some targets only, possibly not for every binary or wrapper.
        let is_complete = parts.kind == PartsKind::Split && parts.component.is_none() && choices.targets.are_all();
        // A wrapper may have no kernels. Where there are manifests, they show what is lost.
        let is_listed = |listed: &HashSet<&str>| {
            wrappers.iter().flatten().any(|request| listed.contains(request.marker.kernel_name.as_str()))
        };
        // The input of the split may have had none, as a thin binary has. One whose archives are gone finds none.
        let is_none = !lookups.has_code && lookups.finds_archives;
        if !without_code.is_empty() && is_complete && is_none && !listed.is_none_or(is_listed) {
            note_without_code(&label(), findings);
        } else if !without_code.is_empty() && is_complete && (!lookups.has_code || parts.find_statement().is_none()) {
            let reason = format!("no archive has code for wrapper {}", enumerate(&without_code));
            findings.add(Rule::NoCode, label(), reason);
        }
        for ((target, first, later), positions) in std::mem::take(&mut lookups.missed) {
            let name = |at: usize| self.list.get(at).map_or("", |archive| archive.label.as_str());
            let (first, later, positions) = (name(first), name(later), enumerate(&positions));
            let reason = format!(
                "on {target} a loader that stops at {first} misses code which {later} has, for wrapper {positions}"
            );
            findings.add(Rule::HiddenCode, label(), reason);
        }
        lookups
    }
}

/// Says that a binary has no code here.
pub(super) fn note_without_code(label: &str, findings: &Findings) {
    findings.note(format!("{label}: no archive has code for any of its wrappers"));
}
