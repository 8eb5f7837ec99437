//! One answer from all look-ups.

use std::collections::BTreeSet;
use std::ffi::OsString;

use super::answer::{AnswerStatus, DatabaseLookup, Explanation, FoundCause};
use super::cause::Cause;
use super::error::WhyError;
use super::found::FoundLookups;
use super::lookup::{Lookup, Presence};
use super::part;
use super::question::Question;
use super::runtime::OLD_RUNTIME;
use crate::coverage::CauseKind;
use crate::devicecode::foreign_code;
use crate::gpu::{TargetId, doubt};
use crate::remote::is_url;
use crate::report::table::counted;
use crate::text::{NAMED, first_names};

impl Question {
    /// The answer, with one sentence.
    pub(super) fn conclude(&self, found: FoundLookups) -> Explanation {
        let FoundLookups { mut lookups, mut databases, causes: others, unread, unknown, optional, seen, .. } = found;
        fail_without_code(&lookups, &mut databases);
        lead_to_views(&mut lookups, &mut databases);
        let of_databases = databases.iter().filter_map(DatabaseLookup::failure);
        let causes = lookups.iter().flat_map(Lookup::causes).chain(of_databases);
        let mut causes = FoundCause::group(causes);
        causes.extend(others);
        let failed = lookups.iter().find(|lookup| lookup.cause.is_some());
        if let Some(first) = failed.and_then(|failed| self.first_gpu(failed, &lookups)) {
            causes.insert(0, first);
        }
        let (status, sentence) = match (causes.first(), unknown, unread.as_slice()) {
            (Some(first), ..) => (AnswerStatus::NoCode, failure(first)),
            (None, Some(unknown), _) => (AnswerStatus::Unknown, unknown),
            (None, None, []) => (AnswerStatus::Found, self.success(&lookups, &databases) + &not_judged(&optional)),
            (None, None, [only]) if lookups.is_empty() => (AnswerStatus::Unreadable, only.clone()),
            (None, None, [only]) => (AnswerStatus::Unreadable, format!("one file could not be read: {only}")),
            (None, None, [first, ..]) => {
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
            left_out: seen.left_out,
        }
    }

    /// That a runtime looks nothing up, with what was looked at, or with the code that it does not look up.
    pub(super) fn nothing(&self, found: &FoundLookups) -> WhyError {
        let FoundLookups { seen, unjudged, foreign, .. } = found;
        let paths = first_names(self.paths.iter().map(|path| path.display()), NAMED, ", ", ",");
        let (files, binaries) = (counted(seen.files, "file", "files"), counted(seen.binaries, "binary", "binaries"));
        let called = self.binary.as_ref().map(|name| format!(", and only those called {name} are wanted"));
        let is_remote = self.paths.iter().any(|path| is_url(path));
        let remote = if is_remote { "; what no wrapper leads to was not searched for on the server" } else { "" };
        let left_out = seen.left_out.first().map(|left_out| format!("; not looked at: {left_out}")).unwrap_or_default();
        let reason = match &self.binary {
            Some(name) if !seen.has_wanted => {
                let reason = format!("no file in {paths} is called so: {files}, {binaries}{left_out}");
                return WhyError::NoBinary(name.clone(), reason);
            }
            _ if !unjudged.is_empty() => format!(
                "no wrapper and no archive there leads to device code, so a runtime looks nothing up; {} with code for unknown \
                 targets, or that is not searched: {}",
                counted(unjudged.len(), "place", "places"),
                first_names(unjudged, NAMED, ", ", ",")
            ),
            _ if !foreign.is_empty() => format!("there is {}", foreign_code(foreign)),
            _ => format!(
                "nothing there has device code, or wrappers with code or archives: {files}, {binaries}{}{left_out}{remote}; of wheels, \
                 name the files or their directory",
                called.unwrap_or_default()
            ),
        };
        WhyError::Nothing(format!("{paths}: {reason}"))
    }

    /// The names of the GPUs at these positions.
    pub(super) fn names(&self, gpus: &[usize]) -> Vec<String> {
        gpus.iter().filter_map(|&gpu| self.gpus.get(gpu)).map(ToString::to_string).collect()
    }

    fn success(&self, lookups: &[Lookup], databases: &[DatabaseLookup]) -> String {
        let gpus = self.names(&self.all_gpus()).join(", ");
        let is_to_install = |lookup: &Lookup| lookup.presence == Presence::ToInstall;
        let is_premise = !lookups.is_empty() && lookups.iter().all(is_to_install);
        let premise = if is_premise { ", once it is installed" } else { "" };
        let found = databases.iter().filter(|it| it.found).count();
        match (lookups, databases) {
            ([only], _) if found == 0 => {
                let gap = only.gap().map(|gap| format!(", but {gap}")).unwrap_or_default();
                format!("{}: code for {gpus} is found{premise}{gap}", only.library)
            }
            _ => {
                let all = counted(lookups.len() + found, "look-up", "look-ups");
                let found = format!(
                    "code for {gpus} is found{premise}, by all of {all}; `inspect --require` searches data as well"
                );
                let lacks_runtime = lookups.iter().any(|it| it.lacks_runtime);
                if lacks_runtime { format!("{found}; no HIP runtime is there, and {OLD_RUNTIME}") } else { found }
            }
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
        let cause = Cause::new(CauseKind::FirstGpu, reason, Some(command));
        Some(FoundCause { cause, targets: vec![failed.target.clone()], paths: vec![failed.library.clone()] })
    }

    /// The number of a GPU among those that `HIP_VISIBLE_DEVICES` does not hide.
    fn number_of(&self, position: usize) -> usize {
        let list = self.variables.get(&OsString::from("HIP_VISIBLE_DEVICES")).and_then(|list| list.to_str());
        list.and_then(|list| list.split(',').nth(position)?.trim().parse().ok()).unwrap_or(position)
    }
}

/// What is said of files that only the programs that open them may miss.
fn not_judged(optional: &BTreeSet<String>) -> String {
    let (files, names) = (counted(optional.len(), "file is", "files are"), first_names(optional, NAMED, ", ", ","));
    let note = || format!("; {files} not judged, since only programs know which GPUs need such files: {names}");
    if optional.is_empty() { String::new() } else { note() }
}

/// That a library is not built for a GPU is the cause if nothing else is found for that.
fn fail_without_code(lookups: &[Lookup], databases: &mut [DatabaseLookup]) {
    let of_lookups = lookups.iter().filter(|it| it.cause.is_none()).map(|it| &it.target);
    let of_databases = databases.iter().filter(|it| it.found).map(|it| &it.target);
    let found: BTreeSet<_> = of_lookups.chain(of_databases).cloned().collect();
    for database in databases.iter_mut().filter(|it| !found.contains(&it.target) && it.cause.is_none()) {
        database.cause = database.not_built.take();
    }
}

/// What is to be installed is in no view, and is installed elsewhere.
fn lead_to_views(lookups: &mut [Lookup], databases: &mut [DatabaseLookup]) {
    for lookup in lookups.iter_mut().filter(|it| it.presence != Presence::ToInstall) {
        for cause in lookup.cause.iter_mut().chain(&mut lookup.further) {
            part::lead(&lookup.library, &lookup.target, cause);
        }
    }
    for database in databases {
        for cause in database.cause.iter_mut().chain(&mut database.remark) {
            part::lead(&database.library, &database.target, cause);
        }
    }
}

fn failure(first: &FoundCause) -> String {
    let (path, target) = (first.paths.first(), first.targets.first());
    let (path, target) = (path.map(String::as_str).unwrap_or_default(), target.map(String::as_str).unwrap_or_default());
    format!("{path}: no code for {target}{}: {}", doubt(target), first.cause.reason)
}
