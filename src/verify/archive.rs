//! Checks archives: everything in them must be readable and match its name.

use std::collections::HashSet;
use std::sync::Arc;

use rayon::prelude::*;

use super::context::Context;
use super::input::SingleFile;
use super::manifest_files::ProvenFiles;
use super::report::{Findings, Tools};
use super::rules::Rule;
use crate::fatbin::{CODE_HEADER, damage_by_beginning, loaded_code_problem};
use crate::gpu::TargetId;
use crate::kpack::ArchiveReader;
use crate::loader::named_target;
use crate::rope::head;

/// Bytes of a code object that have its ELF header and its program headers: compilers write these one after another.
const BEGINNING: usize = 4096;

/// Checks an archive that was named by the user.
pub(super) fn check_file(file: &SingleFile, tools: Tools<'_>) {
    let findings = tools.findings;
    let label = file.path.display().to_string();
    findings.counts.archives.add(1);
    match ArchiveReader::open(Arc::clone(&file.content)) {
        Ok(reader) => {
            let name = file.path.file_name().map(|name| name.to_string_lossy().into_owned());
            let checked = CheckedArchive { reader: &reader, label: &label, is_ours: true, is_listed: false };
            checked.check_names(&name.unwrap_or_default(), findings);
            checked.check_form(file.content.size(), findings);
            checked.check_entries(tools);
        }
        Err(error) => findings.add(Rule::ArchiveUnreadable, label, error),
    }
}

/// An archive whose entries are checked.
struct CheckedArchive<'a> {
    reader: &'a ArchiveReader,
    label: &'a str,
    /// Whether it is of this split, rather than of another tool.
    is_ours: bool,
    /// Whether it is as the split wrote it.
    is_listed: bool,
}

/// Checks all archives. Those of other tools must be readable, but may use any names. If `listed` files are `proven`, nothing is
/// decompressed in an archive that is as its split wrote it.
pub(super) fn check_all(context: &Context<'_>, listed: &ProvenFiles, are_proven: bool) {
    let Context { archives, findings, .. } = *context;
    archives.list.par_iter().with_max_len(1).for_each(|archive| {
        let is_ours = archive.is_reached() || archive.part > 0;
        let is_listed = context.is_as_listed(listed, archive.part, &archive.path);
        let checked = CheckedArchive { reader: &archive.reader, label: &archive.label, is_ours, is_listed };
        if is_ours {
            checked.check_names(&String::from_utf8_lossy(archive.path.name()), findings);
            checked.check_form(archive.content.size(), findings);
        }
        if is_listed && are_proven {
            let entries = archive.reader.entries().map(|(.., entry)| entry.original_size);
            entries.for_each(|size| count_code(size, findings));
        } else {
            checked.check_entries(context.tools());
        }
    });
}

fn count_code(size: u64, findings: &Findings) {
    findings.counts.code_objects.add(1);
    findings.counts.code_bytes.add(size);
}

impl CheckedArchive<'_> {
    /// Checks that file name, list of targets and table of contents agree.
    fn check_names(&self, name: &str, findings: &Findings) {
        let Self { reader, label, .. } = *self;
        let say = |reason: String| findings.add(Rule::ArchiveTargets, label, reason);
        let offered = &reader.toc().gfx_arches;
        let named = named_target(name);
        if let Some(target) = named.filter(|target| !offered.iter().any(|of| of == target)) {
            say(format!("its name says {target}, but it offers {}", offered.join(", ")));
        }
        if offered.is_empty() {
            say("it offers no target".to_owned());
        }
        for target in offered.iter().filter(|target| target.parse::<TargetId>().is_err()) {
            say(format!("it offers {target:?}, which is no target"));
        }
        let stored: HashSet<_> = reader.entries().map(|(_, target, _)| target).collect();
        if stored.is_empty() {
            return say("it is empty".to_owned());
        }
        // An archive of a family may offer all targets of the family, whatever its binaries have code for.
        let lacking = offered.iter().filter(|target| named.is_some() && !stored.contains(target.as_str()));
        for target in lacking {
            say(format!("it offers {target}, but has no code for it"));
        }
    }

    /// Checks that the table of contents accounts for everything in an archive.
    fn check_form(&self, size: u64, findings: &Findings) {
        let Self { reader, label, .. } = *self;
        let say = |reason: String| findings.add(Rule::ArchiveForm, label, reason);
        let named: HashSet<_> = reader.entries().map(|(.., entry)| entry.ordinal).collect();
        let (stored, named) = (reader.stored_count(), named.len());
        if stored > named {
            say(format!("it has {stored} code objects, and entries for {named} of them"));
        }
        let behind = reader.end().map_or(0, |end| size.saturating_sub(end));
        if behind > 0 {
            say(format!("{behind} bytes follow its end"));
        }
    }

    fn check_entries(&self, Tools { resources, findings, progress }: Tools<'_>) {
        let Self { reader, label, is_ours, .. } = *self;
        let offered = &reader.toc().gfx_arches;
        let entries: Vec<_> = reader.entries().collect();
        progress.expect(entries.iter().map(|(.., entry)| entry.original_size).fold(0, u64::saturating_add));
        entries.par_iter().with_max_len(1).for_each(|&(key, target, entry)| {
            let say = |rule, reason: String| findings.add(rule, label, format!("{key} for {target}: {reason}"));
            let _named = progress.at(|| label.to_owned());
            // Only the headers are inspected. The rest is read to check that it is readable.
            let mut beginning = Vec::new();
            let read = reader.read(entry, &resources.budget, |piece| {
                beginning.extend(piece.iter().take(BEGINNING - beginning.len()));
                Ok(())
            });
            match read {
                Ok(()) => {
                    count_code(entry.original_size, findings);
                    let flaws = code_flaws(&beginning, entry.original_size, target);
                    for (rule, reason) in flaws.into_iter().filter(|_| is_ours) {
                        if self.is_listed {
                            findings.note(format!(
                                "{label}: {key} for {target}: {reason}; the input of the split has it so"
                            ));
                        } else {
                            say(rule, reason);
                        }
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
}

/// What is wrong with a code object of `size` bytes that begins with these, and is for this target by the name of its entry.
/// Splits copy code as it is, so this is what their input has.
fn code_flaws(beginning: &[u8], size: u64, target: &str) -> Vec<(Rule, String)> {
    let header = head(beginning, CODE_HEADER.min(beginning.len()));
    let other = target.parse::<TargetId>().ok().and_then(|target| loaded_code_problem(header, &target));
    let truncated = damage_by_beginning(beginning, size).map(|reason| (Rule::EntryUnreadable, reason));
    truncated.into_iter().chain(other.map(|reason| (Rule::EntryTarget, reason))).collect()
}
