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
mod devices;
mod directory;
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
mod mounted;
mod names;
mod needed;
mod overlaid;
mod owners;
mod parts;
mod payload;
mod record;
mod report;
mod requirements;
mod rules;
mod separation;
mod sites;
mod statement;
mod thin;
mod views;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::metrics::Progress;
use crate::resources::Resources;

use binary::ExpectedForms;
use choices::Choices;
use context::Context;
use distributions::Distribution;
use fat::FatInput;
use input::VerifyInput;
use lookup::OverlaidArchives;
use owners::SplitFiles;
use parts::{Parts, PartsKind};
use report::Findings;
use thin::ThinFiles;

pub use choices::VerifyOptions;
pub use devices::{devices as devices_of, key as key_of_device};
pub use error::VerifyError;
pub use report::{Check, Counts, Finding, FindingGroup, VerifyReport};
pub use rules::{Rule, RuleText};

/// Checks everything in `paths`, and compares it with the fat wheel, tree, artifacts or shards `against`.
pub fn verify(
    paths: &[PathBuf],
    against: Option<&Path>,
    options: &VerifyOptions,
    resources: &Arc<Resources>,
    progress: &Progress,
) -> Result<VerifyReport, VerifyError> {
    let findings = Findings::default();
    let inputs = input::open(paths, resources, &findings)?;
    let fat = against.map(|against| FatInput::find(against, &inputs, resources)).transpose()?;
    // A binary without device code cannot be verified, but may be named together with others.
    let mut empty = paths.first();
    let mut is_compared = false;
    for input in &inputs {
        match (input, &fat) {
            (VerifyInput::Binary(file), None) => {
                if binary::check_file(file, resources, &findings) {
                    empty = None;
                }
            }
            (VerifyInput::Archive(file), None) => {
                archive::check_file(file, &resources.budget, &findings, progress);
                empty = None;
            }
            (VerifyInput::Binary(file) | VerifyInput::Archive(file), Some(_)) => {
                return Err(VerifyError::NotComparable(file.path.clone()));
            }
            (VerifyInput::Parts(parts), fat) => {
                is_compared |= check_parts(parts, fat.as_ref(), options, resources, &findings, progress)?;
                empty = None;
            }
            (VerifyInput::Sites(sites), fat) => {
                for site in sites {
                    match check_parts(site, fat.as_ref(), options, resources, &findings, progress) {
                        Err(VerifyError::Nothing(_)) => continue,
                        of_site => is_compared |= of_site?,
                    }
                    empty = None;
                }
            }
        }
    }
    if let Some(against) = against {
        if !is_compared {
            findings.add(Rule::AgainstOther, against.display().to_string(), "nothing that is verified was made of it");
        }
        if let Some(existing) = inputs.iter().map(VerifyInput::component).collect() {
            artifacts::check_components(paths, against, &existing, &options.components, &findings)?;
        }
    }
    match empty {
        Some(path) if findings.number() == 0 => Err(VerifyError::Nothing(path.clone())),
        _ => Ok(findings.into_report(&options.allow)),
    }
}

/// Checks parts that belong together. Returns whether they were compared with `against`.
fn check_parts(
    parts: &Parts,
    against: Option<&FatInput<'_>>,
    options: &VerifyOptions,
    resources: &Arc<Resources>,
    findings: &Findings,
    progress: &Progress,
) -> Result<bool, VerifyError> {
    let before = findings.number();
    let located = parts.find_statement();
    let choices = &Choices::new(options, located.as_ref(), parts, resources)?;
    if let Some(located) = located.filter(|located| located.statement.is_restricted()) {
        findings.note(format!("{}: the split was made with {}", located.path, located.statement));
    }
    let distributions = distributions::find(parts, findings);
    let thin = ThinFiles::of(parts, &distributions, options.thin.as_ref());
    let archives = OverlaidArchives::fill(parts, findings);
    let owned = SplitFiles::of(parts, &distributions);
    let expected = ExpectedForms { thin: &thin, owned: &owned };
    let (binaries, thin_files) = binary::check_all(parts, &expected, choices, resources, findings, progress);
    let has_binaries = !binaries.is_empty() || findings.counts.thin_binaries.get() > 0;
    let is_split = parts.is_split() || distributions.iter().any(Distribution::is_of_split);
    let is_nothing = findings.number() == before && !has_binaries && !is_split;
    if is_nothing && against.is_none() {
        let location = parts.all.first().map(|part| part.input.location.clone());
        return Err(VerifyError::Nothing(location.unwrap_or_default()));
    }
    let mut code = archives.walk(parts, &binaries, choices, findings);
    // An installation may have both forms: a split binary that could not be joined stays split in thin views.
    code.with_code.extend(&thin_files);
    distributions::check(&distributions, findings);
    names::check_directories(&distributions, findings);
    names::check_readable(&distributions, findings);
    requirements::check(&distributions, against.is_some(), findings);
    payload::check_code(parts, &distributions, &code, findings);
    payload::check_payload(parts, &distributions, &archives, findings);
    payload::check_archives(parts, &distributions, &archives, &choices.databases, findings);
    let (distributions, binaries) = (&*distributions, &binaries);
    let (archives, thin, thin_files) = (&archives, &thin, &thin_files);
    let context = Context { parts, archives, thin, binaries, thin_files, distributions, choices, resources, findings };
    let listed = context.check_manifests(&context.check_records(progress), progress);
    // Of a split, the code objects are read all the same: its input, or the machine that split it, may have been faulty.
    let proves = parts.kind == PartsKind::Installation && against.is_none();
    context.check_databases(&listed);
    context.check_needed();
    archive::check_all(&context, |it| proves && context.is_as_listed(&listed, it.part, &it.path), progress);
    if parts.kind != PartsKind::Installation {
        separation::check(&context, &listed);
    }
    match against {
        Some(against) => against.compare(&context, progress),
        None => Ok(false),
    }
}
