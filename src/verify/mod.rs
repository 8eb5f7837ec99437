//! Checks a split from its outputs alone: what a loader, a runtime and a package manager will do with it.
//!
//! It uses nothing from the planner. Archives are found by following wrappers as a runtime does, so it checks splits by
//! kpackfs and by other tools alike.

mod against;
mod against_code;
mod against_own;
mod archive;
mod artifacts;
mod binary;
mod bundle;
mod choices;
mod context;
mod distributions;
mod error;
mod fat;
mod group;
mod input;
mod installed;
mod linked;
mod lookup;
mod loose;
mod manifest;
mod manifest_files;
mod names;
mod needed;
mod outer;
mod overlaid;
mod parts;
mod payload;
mod record;
mod report;
mod requirements;
mod rules;
mod separation;
mod stated;
mod thin;
mod views;
mod without_code;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::anyhow;

use crate::kpack::ArchiveReader;
use crate::metrics::Progress;
use crate::opened::{NamedPath, check_elsewhere, statements_in};
use crate::resources::Resources;
use crate::rope::Content;
use crate::source::{Input, may_be_binary};

use binary::{CheckedBinaries, SplitFiles};
use choices::Choices;
use context::Context;
use distributions::Distribution;
use fat::FatInputs;
use input::VerifyInput;
use lookup::OverlaidArchives;
use parts::{Parts, PartsKind};
use report::{Findings, Tools};
use thin::ThinFiles;

pub use choices::VerifyOptions;
pub use error::{NothingSplit, Unsplit};
pub use report::{Counts, Finding, FindingGroup, VerifyReport};
pub use rules::{Check, Rule};

/// Checks everything that was named, and compares it with the fat wheels, trees, artifacts or shards `against`, if there are any.
pub fn verify(
    named: &[NamedPath],
    against: &[PathBuf],
    options: &VerifyOptions,
    resources: &Arc<Resources>,
    progress: &Progress,
) -> anyhow::Result<VerifyReport> {
    let findings = Findings::default();
    let tools = Tools { resources, findings: &findings, progress };
    let inputs = input::open(named, !against.is_empty(), tools)?;
    let find = || FatInputs::find(against, &inputs, tools);
    let fat = (!against.is_empty()).then(find).transpose()?;
    progress.foresee_later(work(&inputs, fat.is_some()));
    let run = Run { against: fat.as_ref(), options, tools };
    let (mut unsplit, mut nothing, mut fat_files) = (Vec::new(), Vec::new(), Vec::new());
    let path = named.first().map(|it| it.path.clone()).unwrap_or_default();
    let no_files = || Unsplit { path: path.clone(), ..Unsplit::default() };
    for input in &inputs {
        match input {
            VerifyInput::Binary(file) => {
                let binaries = CheckedBinaries::of_file(file, tools);
                if !binaries.are_of_split() {
                    let is_binary = usize::from(may_be_binary(&*file.content));
                    unsplit.push(Unsplit { path: file.path.clone(), files: 1, binaries: is_binary, notes: Vec::new() });
                } else if fat.is_some() {
                    return Err(not_comparable(&file.path));
                } else {
                    findings.note(format!(
                        "{}: its form was checked, and not whether there is code for it: name the installation or the split it is in",
                        file.path.display()
                    ));
                }
                fat_files.push(binaries);
            }
            VerifyInput::Archive(file) if fat.is_some() => return Err(not_comparable(&file.path)),
            VerifyInput::Archive(file) => archive::check_file(file, tools),
            // A view that is no part of a split.
            VerifyInput::Parts(parts) if parts.is_empty() => unsplit.push(no_files()),
            VerifyInput::Parts(parts) => nothing.extend(run.check_input(parts)?),
            VerifyInput::Artifacts { components, is_whole } => {
                nothing.extend(run.check_input(components)?);
                if let Some(fat) = fat.as_ref().filter(|_| *is_whole) {
                    fat.check_components(components, &options.components, &findings);
                }
            }
        }
    }
    if findings.number() > 0 {
        let parts = inputs.iter().flat_map(VerifyInput::parts).flat_map(|parts| &parts.all);
        parts.map(|part| &part.input).try_for_each(Input::check_access)?;
    }
    // A binary without device code cannot be verified, but may be named together with others. Of what a mount shows a second time
    // there is no input.
    if unsplit.len() == inputs.len() {
        unsplit.extend(inputs.is_empty().then(no_files));
        nothing.append(&mut unsplit);
    }
    if findings.number() > 0 {
        nothing.drain(..).for_each(|unsplit| findings.note(unsplit.to_string()));
    }
    if let Some(first) = nothing.into_iter().next() {
        return Err(NothingSplit(Unsplit { notes: findings.into_report(&[]).notes, ..first }).into());
    }
    for binaries in &fat_files {
        binaries.say_fat(&findings);
    }
    if let Some(fat) = &fat {
        fat.say_unused(&findings);
    }
    Ok(findings.into_report(&options.allow))
}

/// Comparing needs a whole split.
fn not_comparable(path: &Path) -> anyhow::Error {
    anyhow!("{}: only a split or an installation can be compared with what it was made of", path.display())
}

/// What says about how many bytes are examined: those of files for their form and for their digests, code without its compression, and all
/// of that again if it is compared.
fn work(inputs: &[VerifyInput], is_compared: bool) -> impl FnOnce() -> u64 + Send + use<> {
    let times = if is_compared { 2 } else { 1 };
    let (mut known, mut archives) = (0_u64, Vec::new());
    for input in inputs {
        if let VerifyInput::Archive(file) = input {
            archives.push(Arc::clone(&file.content));
        }
        for file in input.parts().iter().flat_map(Parts::files) {
            // The end of any other file may have to be inflated.
            let is_archive = file.path.name().ends_with(b".kpack");
            archives.extend(is_archive.then(|| Arc::clone(file.content)));
            let again = if is_compared && !is_archive { 3 } else { 2 };
            known = known.saturating_add(file.content.size().saturating_mul(again));
        }
    }
    move || archives.iter().filter_map(code_of).fold(known, |sum, code| sum.saturating_add(code.saturating_mul(times)))
}

/// The bytes of code in an archive.
fn code_of(archive: &Arc<dyn Content>) -> Option<u64> {
    let archive = ArchiveReader::open(Arc::clone(archive)).ok()?;
    Some(archive.entries().map(|(.., entry)| entry.original_size).fold(0, u64::saturating_add))
}

/// What all inputs are checked with.
struct Run<'a> {
    against: Option<&'a FatInputs>,
    options: &'a VerifyOptions,
    tools: Tools<'a>,
}

impl Run<'_> {
    /// Checks what was named together. Wheels next to a split, and directories of packages in its environment, may be of
    /// no split, and so may components without device code. Returns what was looked at if nothing was split.
    fn check_input(&self, all: &[Parts]) -> anyhow::Result<Option<Unsplit>> {
        let mut unsplit = Vec::new();
        let are_components_split = all.iter().any(|parts| parts.component.is_some() && parts.is_split());
        for parts in all {
            let Some(binaries) = self.check_parts(parts, are_components_split)? else { continue };
            if !parts.is_optional && parts.component.is_none() {
                return looked_at(std::slice::from_ref(parts), self.tools.resources).map(Some);
            }
            unsplit.push((parts, binaries));
        }
        if !all.is_empty() && unsplit.len() == all.len() {
            return looked_at(all, self.tools.resources).map(Some);
        }
        for (parts, binaries) in &unsplit {
            match &parts.component {
                Some(_) => binaries.say_fat(self.tools.findings),
                None => binaries.note_fat(self.tools.findings),
            }
        }
        Ok(None)
    }

    /// Checks parts that belong together. Wheels of no split are checked nevertheless, and so are components next to those
    /// of a split. Returns the fat binaries in them, if they are of no split and nothing is wrong.
    fn check_parts(&self, parts: &Parts, are_components_split: bool) -> anyhow::Result<Option<CheckedBinaries>> {
        let Self { options, tools, .. } = *self;
        let Tools { resources, findings, progress } = tools;
        let before = findings.number();
        parts.say_oddities(findings);
        thin::check_place(parts, findings);
        thin::check_collected(parts, findings);
        let located = parts.find_statement();
        let choices = &Choices::new(options, located.as_ref(), parts, resources)?;
        let distributions = distributions::find(parts, findings);
        let thin = ThinFiles::of(parts, &distributions, options.thin.as_ref());
        let archives = OverlaidArchives::fill(parts, findings);
        let owned = SplitFiles::of(parts, &distributions);
        let binaries = binary::check_all(parts, &thin, &owned, choices, tools);
        let is_split =
            binaries.are_of_split() || parts.is_split() || distributions.iter().any(Distribution::is_of_split);
        let is_unsplit = || !is_split && findings.number() == before;
        if is_unsplit() && !parts.are_wheels() && !are_components_split {
            return Ok(Some(binaries));
        }
        if let Some(located) = located.filter(|located| located.statement.is_restricted()) {
            findings.note(format!("{}: the split was made with {}", located.path, located.statement));
        }
        if is_split {
            binaries.say_fat(findings);
        }
        let context = &Context {
            parts,
            archives: &archives,
            thin: &thin,
            binaries: &binaries,
            distributions: &distributions,
            choices,
            resources,
            findings,
            progress,
        };
        self.check_context(context)?;
        // A mount of what has no device code shows that, and it was checked all the same.
        let shows_unsplit = || {
            let is_stated = parts.statement.as_ref().is_some_and(|it| it.statement.is_of_unsplit());
            let has_code = binaries.are_of_split() || parts.have_device_code();
            is_stated && !has_code && findings.number() == before
        };
        Ok((is_unsplit() || shows_unsplit()).then_some(binaries))
    }

    /// Checks everything but the form of binaries.
    fn check_context(&self, context: &Context<'_>) -> anyhow::Result<()> {
        let Context { parts, binaries, distributions, choices, findings, .. } = *context;
        let against = self.against;
        let stated = context.stated_parts();
        let listed = context.binaries_with_code(&stated);
        let mut code = context.walk(listed.as_ref());
        // An installation may have both forms: a split binary that could not be joined stays split in thin views.
        code.with_code.extend(&binaries.thin);
        distributions::check_readable(distributions, findings);
        names::check_twice(distributions, findings);
        names::check_directories(distributions, findings);
        requirements::check(distributions, parts.are_wheels(), choices, findings);
        requirements::check_moved(distributions, against.is_some(), findings);
        payload::check_code(context, &stated, &code, against.is_some());
        payload::check_payload(context);
        payload::check_archives(context);
        let listed = context.check_manifests(&stated, &context.check_records());
        // Of a split, the code objects are read all the same: its input, or the machine that split it, may have been faulty.
        let proves = parts.kind == PartsKind::Installation && against.is_none();
        context.check_databases(&listed);
        context.check_needed(&listed);
        if against.is_none() {
            context.check_absent(&code.with_code);
        }
        archive::check_all(context, &listed, proves);
        if parts.kind != PartsKind::Installation {
            separation::check(context, &listed);
        }
        against.map_or(Ok(()), |against| against.compare(context))
    }
}

/// What was looked at in parts of no split. Fails if there are splits in them, which were not.
fn looked_at(all: &[Parts], resources: &Arc<Resources>) -> anyhow::Result<Unsplit> {
    let inputs = all.iter().flat_map(|parts| &parts.all).map(|part| &part.input);
    let mut splits = inputs.filter(|input| statements_in(input).next().is_some());
    splits.try_for_each(|input| check_elsewhere(input, resources))?;
    let files = || all.iter().flat_map(Parts::files);
    let binaries = files().filter(|file| may_be_binary(&**file.content)).count();
    let path = all.first().map(|parts| parts.location().to_owned()).unwrap_or_default();
    Ok(Unsplit { path, files: files().count(), binaries, notes: Vec::new() })
}
