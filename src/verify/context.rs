//! What is checked, and results so far.

use std::collections::HashSet;
use std::sync::Arc;

use super::choices::Choices;
use super::distributions::Distribution;
use super::lookup::{Binaries, OverlaidArchives};
use super::parts::Parts;
use super::report::Findings;
use super::thin::ThinFiles;
use crate::resources::Resources;
use crate::source::EntryPath;

/// What is checked, and results so far.
pub(super) struct Context<'a> {
    pub(super) parts: &'a Parts,
    pub(super) archives: &'a OverlaidArchives,
    pub(super) thin: &'a ThinFiles,
    pub(super) binaries: &'a Binaries,
    /// Thin binaries, and files with reduced bundles.
    pub(super) thin_files: &'a HashSet<EntryPath>,
    pub(super) distributions: &'a [Distribution<'a>],
    pub(super) choices: &'a Choices,
    pub(super) resources: &'a Arc<Resources>,
    pub(super) findings: &'a Findings,
}
