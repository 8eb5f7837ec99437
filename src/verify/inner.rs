//! Splits in a tree or an installation. Their parts have files where these are installed, and not where the parts are, so they
//! are not checked with what they are in.

use std::collections::BTreeSet;
use std::iter::successors;

use crate::opened::{is_statement, statements_in};
use crate::source::{EntryPath, Input};

/// The directories of the splits in an input.
#[derive(Debug, Default)]
pub(super) struct InnerSplits(pub(super) BTreeSet<EntryPath>);

impl InnerSplits {
    /// Those in an input. A directory may be a split itself. A packed split is in its archive.
    pub(super) fn of(input: &Input) -> Self {
        let is_inner = |path: &&EntryPath| path.depth() > 2 || input.file.is_some();
        Self(statements_in(input).filter(is_inner).filter_map(|path| path.parent()?.parent()).collect())
    }

    /// Leaves what is in them out of their input. Their statements stay.
    pub(super) fn leave_out_of(&self, input: &mut Input) {
        input.entries.retain(|entry| is_statement(&entry.path) || !self.hold(&entry.path));
    }

    /// Whether a path is in one of them.
    pub(super) fn hold(&self, path: &EntryPath) -> bool {
        !self.0.is_empty() && successors(path.parent(), EntryPath::parent).any(|above| self.0.contains(&above))
    }
}
