//! Checks a split from its outputs alone: what a loader, a runtime and a package manager will do with it.
//!
//! It takes nothing from the planner. Archives are found by walking from the wrappers as a runtime does, so it judges
//! splits by kpackfs and by anybody else alike.

mod against;
mod against_code;
mod archive;
mod arrange;
mod artifacts;
mod binary;
mod code_object;
mod lookup;
mod record;
mod report;
mod separation;
mod subject;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::database::Databases;
use crate::index::Resources;
use crate::rope::ReadError;
use crate::source::{Input, SourceError};
use crate::target::BundleKey;

use lookup::Shelf;
use report::Findings;
pub use report::{Check, Counts, Finding, Report};
use subject::{Kind, Parts, Subject};

/// What a user can choose.
#[derive(Clone, Debug)]
pub struct Options {
    /// The databases that were split off the host part.
    pub databases: Databases,
    /// The targets that the split was restricted to; all if `None`.
    pub gpu_targets: Option<Vec<BundleKey>>,
    /// Targets that the split does not have.
    pub exclude_targets: Vec<BundleKey>,
}

impl Options {
    /// Whether the split was restricted at all.
    fn is_restricted(&self) -> bool {
        self.gpu_targets.is_some() || !self.exclude_targets.is_empty()
    }
}

impl Default for Options {
    fn default() -> Self {
        Self { databases: Databases::all(), gpu_targets: None, exclude_targets: Vec::new() }
    }
}

/// How far checking is, for a progress bar: bytes of files.
#[derive(Debug, Default)]
pub struct Progress {
    /// What there is to look at.
    pub total: AtomicU64,
    /// What has been looked at.
    pub done: AtomicU64,
}

impl Progress {
    fn expect(&self, bytes: u64) {
        self.total.fetch_add(bytes, Ordering::Relaxed);
    }

    fn advance(&self, bytes: u64) {
        self.done.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Why nothing can be said.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// Something cannot be listed or opened.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The beginning of a file cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// It is a file, and of no kind that is known.
    #[error("{}: neither a directory, a wheel, a binary nor a .kpack archive", .0.display())]
    UnknownKind(PathBuf),
    /// Comparing needs a whole split.
    #[error("{}: only a split or an installation can be compared with what it was made of", .0.display())]
    NotComparable(PathBuf),
    /// An artifact's manifest cannot be used.
    #[error(transparent)]
    Manifest(#[from] crate::artifact::ManifestError),
    /// It holds nothing that could be checked.
    #[error(
        "{}: there is nothing to verify: no split binary, no .kpack archive, no wheel and no part of a split; \
         expected is what `kpackfs split` writes or `kpackfs mount` shows, or an installation of that",
        .0.display()
    )]
    Nothing(PathBuf),
}

/// Checks everything that `paths` name, and compares it with the fat wheel, tree, artifacts or shards `against`.
pub fn verify(
    paths: &[PathBuf],
    against: Option<&Path>,
    options: &Options,
    resources: &Arc<Resources>,
    progress: &Progress,
) -> Result<Report, VerifyError> {
    let findings = Findings::default();
    let subjects = subject::open(paths, resources, &findings)?;
    // A binary without device code is nothing to verify, but may be named together with others.
    let mut empty = paths.first();
    for subject in &subjects {
        match (subject, against) {
            (Subject::Binary(file), None) => {
                if binary::check_file(file, &findings) {
                    empty = None;
                }
            }
            (Subject::Archive(file), None) => {
                archive::check_file(file, &findings, progress);
                empty = None;
            }
            (Subject::Binary(file) | Subject::Archive(file), Some(_)) => {
                return Err(VerifyError::NotComparable(file.path.clone()));
            }
            (Subject::Parts(parts), against) => {
                check_parts(parts, against, options, resources, &findings, progress)?;
                empty = None;
            }
        }
    }
    match empty {
        Some(path) if findings.number() == 0 => Err(VerifyError::Nothing(path.clone())),
        _ => Ok(findings.into_report()),
    }
}

fn check_parts(
    parts: &Parts,
    against: Option<&Path>,
    options: &Options,
    resources: &Arc<Resources>,
    findings: &Findings,
    progress: &Progress,
) -> Result<(), VerifyError> {
    let before = findings.number();
    let shelf = Shelf::fill(parts, findings);
    let binaries = binary::check_all(parts, options, findings, progress);
    let is_nothing = findings.number() == before && binaries.is_empty() && !parts.is_split();
    if is_nothing && against.is_none() {
        let location = parts.all.first().map(|part| part.input.location.clone());
        return Err(VerifyError::Nothing(location.unwrap_or_default()));
    }
    shelf.walk(parts, &binaries, options, findings);
    archive::check_all(&shelf, parts.kind, options, findings, progress);
    record::check(parts, resources, findings, progress);
    if parts.kind != Kind::Installation {
        separation::check(parts, &shelf, options, findings);
    }
    if let Some(against) = against {
        let fats = match &parts.component {
            Some(component) => artifacts::fats(against, component, resources)?,
            None => vec![Input::open(against, resources)?],
        };
        against::Comparison::new(&fats, parts, &shelf, &binaries, options, resources, findings).run(progress);
    }
    Ok(())
}
