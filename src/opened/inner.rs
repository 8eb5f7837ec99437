//! Splits in a tree or an installation. Their parts have files where these are installed, and not where the parts are, so they
//! are not checked with what they are in.

use std::collections::BTreeSet;
use std::iter::successors;
use std::path::Path;

use super::inputs::{is_statement, statements_in};
use super::split::SplitDirectory;
use crate::source::{EntryKind, EntryPath, Input};

/// The directories of the splits in an input.
#[derive(Debug, Default)]
pub(crate) struct InnerSplits(pub(crate) BTreeSet<EntryPath>);

impl InnerSplits {
    /// Those in an input. A directory may be a split itself. A packed split is in its archive.
    pub(crate) fn of(input: &Input) -> Self {
        let is_inner = |path: &&EntryPath| path.depth() > 2 || input.file.is_some();
        Self(statements_in(input).filter(is_inner).filter_map(|path| path.parent()?.parent()).collect())
    }

    /// Those whose parts are directories of their own. In others the parts were installed over each other.
    pub(crate) fn in_parts(input: &Input) -> Self {
        let all = Self::of(input);
        let is_part = |path: &&EntryPath| SplitDirectory::may_have(path.as_path()) && all.hold(path);
        let directories = input.entries.iter().filter(|entry| matches!(entry.kind, EntryKind::Directory));
        let around = directories.map(|entry| &entry.path).filter(is_part).filter_map(EntryPath::parent);
        Self(around.filter(|above| all.0.contains(above)).collect())
    }

    /// That they are left out of an input at a place.
    pub(crate) fn left_out_of(&self, place: &Path) -> impl Iterator<Item = String> {
        let what = "left out: a split, which is not of the tree around it; name it to look into it";
        self.0.iter().map(move |split| format!("{}: {what}", place.join(split.as_path()).display()))
    }

    /// Leaves what is in them out of their input. Their statements stay.
    pub(crate) fn leave_out_of(&self, input: &mut Input) {
        input.entries.retain(|entry| is_statement(&entry.path) || !self.hold(&entry.path));
    }

    /// Whether a path is in one of them.
    pub(crate) fn hold(&self, path: &EntryPath) -> bool {
        !self.0.is_empty() && successors(path.parent(), EntryPath::parent).any(|above| self.0.contains(&above))
    }
}
