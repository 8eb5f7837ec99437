//! Checks archives: everything in them must be readable and match its name.

use std::sync::Arc;

use rayon::prelude::*;

use super::choices::Choices;
use super::input::SingleFile;
use super::lookup::OverlaidArchives;
use super::parts::PartsKind;
use super::report::{Findings, enumerate};
use super::rules::Rule;
use crate::fatbin::{CODE_HEADER, code_problem};
use crate::gpu::TargetId;
use crate::kpack::ArchiveReader;
use crate::loader::named_target;
use crate::memory::Budget;
use crate::metrics::Progress;

/// Checks an archive that was named by the user.
pub(super) fn check_file(file: &SingleFile, budget: &Arc<Budget>, findings: &Findings, progress: &Progress) {
    let label = file.path.display().to_string();
    findings.counts.archives.add(1);
    match ArchiveReader::open(Arc::clone(&file.content)) {
        Ok(reader) => {
            let name = file.path.file_name().map(|name| name.to_string_lossy().into_owned());
            check_names(&reader, &name.unwrap_or_default(), &label, findings);
            check_entries(&reader, &label, true, budget, findings, progress);
        }
        Err(error) => findings.add(Rule::ArchiveUnreadable, label, error),
    }
}

/// Checks all archives. Those of other tools must be readable, but may use any names.
pub(super) fn check_all(
    archives: &OverlaidArchives,
    kind: PartsKind,
    choices: &Choices,
    budget: &Arc<Budget>,
    findings: &Findings,
    progress: &Progress,
) {
    archives.list.par_iter().with_max_len(1).for_each(|archive| {
        let is_ours = archive.is_reached() || archive.part > 0;
        if is_ours {
            check_names(&archive.reader, &String::from_utf8_lossy(archive.path.name()), &archive.label, findings);
        }
        check_entries(&archive.reader, &archive.label, is_ours, budget, findings, progress);
        // An installation may contain only some of the binaries.
        let orphans = if archive.is_reached() && kind.is_separate() { archive.orphans() } else { Vec::new() };
        if !orphans.is_empty() {
            let reason = format!("no wrapper asks for {}", enumerate(&orphans));
            findings.add(Rule::OrphanEntry, archive.label.as_str(), reason);
        }
        // A database may have its code in archives, which its library opens by itself.
        let is_database = || choices.databases.classify(&archive.path).is_some();
        if kind != PartsKind::Fragment && archive.part > 0 && !archive.is_reached() && !is_database() {
            findings.add(Rule::OrphanArchive, archive.label.as_str(), "no marker leads to it");
        }
    });
}

/// Checks that file name, list of targets and table of contents agree.
fn check_names(reader: &ArchiveReader, name: &str, label: &str, findings: &Findings) {
    let say = |reason: String| findings.add(Rule::ArchiveTargets, label, reason);
    let offered = &reader.toc().gfx_arches;
    if let Some(target) = named_target(name).filter(|target| !offered.iter().any(|of| of == target)) {
        say(format!("its name says {target}, but it offers {}", offered.join(", ")));
    }
    if offered.is_empty() {
        say("it offers no target".to_owned());
    }
    for target in offered.iter().filter(|target| target.parse::<TargetId>().is_err()) {
        say(format!("it offers {target:?}, which is no target"));
    }
    if reader.entries().next().is_none() {
        say("it is empty".to_owned());
    }
}

fn check_entries(
    reader: &ArchiveReader,
    label: &str,
    is_ours: bool,
    budget: &Arc<Budget>,
    findings: &Findings,
    progress: &Progress,
) {
    let offered = &reader.toc().gfx_arches;
    let entries: Vec<_> = reader.entries().collect();
    progress.expect(entries.iter().map(|(.., entry)| entry.original_size).fold(0, u64::saturating_add));
    entries.par_iter().with_max_len(1).for_each(|&(key, target, entry)| {
        let say = |rule, reason: String| findings.add(rule, label, format!("{key} for {target}: {reason}"));
        // Only the header is inspected. The rest is read to check that it is readable.
        let mut header = Vec::new();
        let read = reader.read(entry, budget, |piece| {
            header.extend(piece.iter().take(CODE_HEADER - header.len()));
            Ok(())
        });
        match read {
            Ok(()) => {
                findings.counts.code_objects.add(1);
                findings.counts.code_bytes.add(entry.original_size);
                let parsed = target.parse::<TargetId>().ok();
                if let Some(problem) = parsed.filter(|_| is_ours).and_then(|target| code_problem(&header, &target)) {
                    say(Rule::EntryTarget, problem);
                }
            }
            Err(error) => say(Rule::EntryUnreadable, error.to_string()),
        }
        if is_ours && !offered.iter().any(|of| of == target) {
            say(Rule::ArchiveTargets, "the archive does not offer this target".to_owned());
        }
        progress.advance(entry.original_size);
    });
}
