//! A directory of a database as a library sees it, and the code in its files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::files::{LibraryFiles, NoListing};
use super::problem::Problem;
use super::trail::LookupEvidence;
use crate::coverage::cause::CauseKind;
use crate::fatbin::CodeFile;
use crate::gpu::TargetId;
use crate::resources::Resources;

/// The files of a directory.
pub(super) struct DatabaseListing {
    pub(super) directory: PathBuf,
    pub(super) names: BTreeSet<String>,
}

/// What is known of a file with code.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CodeState {
    /// A code object for a target, or a bundle with code for several. None, if the header names no target that is known.
    For(BTreeSet<TargetId>),
    Denied,
    Damaged(String),
}

impl DatabaseListing {
    pub(super) fn of(files: &dyn LibraryFiles, directory: &Path) -> Result<Self, NoListing> {
        Ok(Self { directory: directory.to_owned(), names: files.list(directory)? })
    }

    /// The listing of a database, which `evidence` names then, or why there is none. `denied` is the problem of a directory
    /// that may not be read.
    pub(super) fn of_database(
        files: &dyn LibraryFiles,
        directory: &Path,
        evidence: &mut LookupEvidence,
        denied: fn(&dyn LibraryFiles, &Path) -> Problem,
    ) -> Result<Self, Problem> {
        let listing = Self::of(files, directory).map_err(|error| match error {
            NoListing::Denied => denied(files, directory),
            _ => Problem::new(CauseKind::DatabaseMissing, error.absence(directory), directory).doubtful(),
        })?;
        evidence.directory = Some(directory.display().to_string());
        Ok(listing)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// The names that end with one of these suffixes.
    pub(super) fn ending<'a>(&'a self, suffixes: &'a [&str]) -> impl Iterator<Item = &'a str> {
        let names = self.names.iter().map(String::as_str);
        names.filter(move |name| suffixes.iter().any(|suffix| name.ends_with(suffix)))
    }
}

/// The state of a file with code for a device, as far as headers show it.
pub(super) fn code_state(
    files: &dyn LibraryFiles,
    path: &Path,
    device: &TargetId,
    resources: &Arc<Resources>,
) -> CodeState {
    if !files.is_readable(path) {
        return CodeState::Denied;
    }
    let Some(content) = files.open(path) else { return CodeState::Damaged("it is no regular file".to_owned()) };
    match CodeFile::expect(&content, resources) {
        Err(reason) => CodeState::Damaged(reason),
        Ok(code) => match code.damage_for(device) {
            Some(reason) => CodeState::Damaged(reason.to_owned()),
            None => CodeState::For(code.targets),
        },
    }
}
