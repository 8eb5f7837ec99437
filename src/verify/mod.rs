//! Checks a split from its outputs alone: what a loader, a runtime and a package manager will do with it.
//!
//! It takes nothing from the planner. Archives are found by walking from the wrappers as a runtime does, so it judges
//! splits by kpackfs and by anybody else alike.

mod against;
mod against_code;
mod archive;
mod artifacts;
mod binary;
mod code_object;
mod lookup;
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
use subject::{Kind, Subject};

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
    /// No path was given.
    #[error("there is nothing to verify")]
    Nothing,
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
    for subject in &subjects {
        match (subject, against) {
            (Subject::Binary(file), None) => binary::check_file(file, &findings),
            (Subject::Archive(file), None) => archive::check_file(file, &findings, progress),
            (Subject::Binary(file) | Subject::Archive(file), Some(_)) => {
                return Err(VerifyError::NotComparable(file.path.clone()));
            }
            (Subject::Parts(parts), against) => {
                let shelf = Shelf::fill(parts, &findings);
                let binaries = binary::check_all(parts, options, &findings, progress);
                shelf.walk(parts, &binaries, options, &findings);
                archive::check_all(&shelf, parts.kind, options, &findings, progress);
                if parts.kind != Kind::Installation {
                    separation::check(parts, &shelf, options, &findings);
                }
                if let Some(against) = against {
                    let fats = match &parts.component {
                        Some(component) => artifacts::fats(against, component, resources)?,
                        None => vec![Input::open(against, resources)?],
                    };
                    let comparison =
                        against::Comparison::new(&fats, parts, &shelf, &binaries, options, resources, &findings);
                    comparison.run(progress);
                }
            }
        }
    }
    Ok(findings.into_report())
}
