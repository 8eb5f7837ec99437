//! What is checked, and results so far.

use std::sync::Arc;

use super::binary::CheckedBinaries;
use super::choices::Choices;
use super::distributions::Distribution;
use super::lookup::OverlaidArchives;
use super::parts::Parts;
use super::report::{Findings, Tools};
use super::thin::ThinFiles;
use crate::metrics::Progress;
use crate::resources::Resources;

/// What is checked, and results so far.
pub(super) struct Context<'a> {
    pub(super) parts: &'a Parts,
    pub(super) archives: &'a OverlaidArchives,
    pub(super) thin: &'a ThinFiles,
    pub(super) binaries: &'a CheckedBinaries,
    pub(super) distributions: &'a [Distribution<'a>],
    pub(super) choices: &'a Choices,
    pub(super) resources: &'a Arc<Resources>,
    pub(super) findings: &'a Findings,
    pub(super) progress: &'a Progress,
}

impl<'a> Context<'a> {
    pub(super) fn tools(&self) -> Tools<'a> {
        Tools { resources: self.resources, findings: self.findings, progress: self.progress }
    }

    /// Whether a split wrote the parts, so that what was installed in its input before may have other files now.
    pub(super) fn is_output(&self) -> bool {
        self.parts.kind.is_separate() || self.parts.statement.is_some() || self.thin.is_whole()
    }
}
