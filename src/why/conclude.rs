//! One answer from all look-ups.

use std::ffi::OsString;

use super::answer::{AnswerStatus, DatabaseLookup, Explanation, FoundCause};
use super::assembled::GivenWheel;
use super::cause::{self, Cause};
use super::lookup::{Lookup, Presence};
use super::{FoundLookups, Question};
use crate::gpu::TargetId;
use crate::join::WheelsError;

impl Question {
    /// The answer, with one sentence.
    pub(super) fn conclude(&self, found: FoundLookups) -> Explanation {
        let FoundLookups { lookups, databases, conflicts, unread, .. } = found;
        let mut causes = Vec::new();
        for lookup in &lookups {
            for cause in lookup.cause.iter().chain(&lookup.further) {
                Explanation::add_cause(&mut causes, cause, &lookup.target, &lookup.library);
            }
        }
        for database in &databases {
            if let Some(cause) = &database.cause {
                let path = database.directory.as_ref().unwrap_or(&database.library);
                Explanation::add_cause(&mut causes, cause, &database.target, path);
            }
        }
        causes.extend(conflicts);
        let failed = lookups.iter().find(|lookup| lookup.cause.is_some());
        if let Some(first) = failed.and_then(|failed| self.first_gpu(failed, &lookups)) {
            causes.insert(0, first);
        }
        let (status, sentence) = match (causes.first(), unread.as_slice()) {
            (Some(first), _) => (AnswerStatus::NoCode, failure(first)),
            (None, []) => (AnswerStatus::Found, self.success(&lookups, &databases)),
            (None, [only]) if lookups.is_empty() => (AnswerStatus::Unreadable, only.clone()),
            (None, [only]) => (AnswerStatus::Unreadable, format!("one file could not be read: {only}")),
            (None, [first, ..]) => {
                (AnswerStatus::Unreadable, format!("{} files could not be read: {first}", unread.len()))
            }
        };
        let command = causes.first().and_then(|first| first.cause.command.clone());
        Explanation {
            found: status == AnswerStatus::Found,
            status,
            sentence,
            command,
            causes,
            lookups,
            databases,
            unread,
        }
    }

    /// The cause if wheels cannot be installed together.
    pub(super) fn conflict(&self, wheels: &[GivenWheel], conflict: &WheelsError) -> FoundCause {
        let reason = format!("these wheels cannot be installed together: {conflict}");
        let targets = self.gpus.iter().map(ToString::to_string).collect();
        let paths = wheels.iter().map(|wheel| wheel.path.display().to_string()).collect();
        FoundCause { cause: Cause::new(&cause::PACKAGE_VERSION, reason, None), targets, paths }
    }

    fn success(&self, lookups: &[Lookup], databases: &[DatabaseLookup]) -> String {
        let gpus: Vec<_> = self.gpus.iter().map(ToString::to_string).collect();
        let gpus = gpus.join(", ");
        let is_to_install = |lookup: &Lookup| lookup.presence == Presence::ToInstall;
        let is_premise = !lookups.is_empty() && lookups.iter().all(is_to_install);
        let premise = if is_premise { ", once it is installed" } else { "" };
        let found = databases.iter().filter(|it| it.found).count();
        match (lookups, databases) {
            ([only], _) if found == 0 => {
                let gap = only.gap().map(|gap| format!(", but {gap}")).unwrap_or_default();
                format!("{}: code for {gpus} is found{premise}{gap}", only.library)
            }
            ([], [first, ..]) if found == 0 => {
                format!("{}: it has no code of its own, and its database has no files for {gpus}", first.library)
            }
            _ => format!("code for {gpus} is found{premise}, by all of {} look-ups", lookups.len() + found),
        }
    }

    /// The cause if a library has no code for the first GPU, but for another one. A program that chooses no GPU runs
    /// on the first one. If a fat library has nothing for that GPU, it is loaded for no other GPU either
    /// (`FatBinaryInfo::ExtractFatBinaryUsingCOMGR` in `projects/clr/hipamd/src/hip_fatbin.cpp`, ROCm/rocm-systems
    /// d78123a0). Older runtimes do the same with split libraries. What is not installed is asked about for several
    /// machines.
    fn first_gpu(&self, failed: &Lookup, lookups: &[Lookup]) -> Option<FoundCause> {
        let of_library = |device: &TargetId| {
            let target = self.device_of(device).to_string();
            lookups.iter().find(|it| it.library == failed.library && it.target == target)
        };
        let works = |device: &TargetId| of_library(device).is_some_and(|it| it.cause.is_none());
        let later =
            self.gpus.iter().position(works).filter(|&later| later > 0 && failed.presence == Presence::Installed)?;
        let (first, other) = (self.gpus.first()?, self.gpus.get(later)?);
        let because = failed.cause.as_ref().map(|cause| cause.reason.as_str()).unwrap_or_default();
        let reason =
            format!("the first GPU, {first}, has no code, though {other} has, and runtimes take the first ({because})");
        let command = format!("export HIP_VISIBLE_DEVICES={}", self.number_of(later));
        let cause = Cause::new(&cause::FIRST_GPU, reason, Some(command));
        Some(FoundCause { cause, targets: vec![failed.target.clone()], paths: vec![failed.library.clone()] })
    }

    /// The number of a GPU among those that `HIP_VISIBLE_DEVICES` does not hide.
    fn number_of(&self, position: usize) -> usize {
        let list = self.variables.get(&OsString::from("HIP_VISIBLE_DEVICES")).and_then(|list| list.to_str());
        list.and_then(|list| list.split(',').nth(position)?.trim().parse().ok()).unwrap_or(position)
    }
}

fn failure(first: &FoundCause) -> String {
    let (path, target) = (first.paths.first(), first.targets.first());
    let (path, target) = (path.map(String::as_str).unwrap_or_default(), target.map(String::as_str).unwrap_or_default());
    format!("{path}: no code for {target}: {}", first.cause.reason)
}
