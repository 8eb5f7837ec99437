//! Which binaries belong to a split, in an installation that has other packages too.

use std::collections::HashSet;

use super::distributions::Distribution;
use super::parts::{Parts, PartsKind};
use super::report::Findings;
use crate::report::table::counted;
use crate::source::EntryPath;

/// The files that belong to a split.
pub(super) struct SplitFiles {
    /// `None` if all do.
    owned: Option<HashSet<(usize, EntryPath)>>,
    /// What device distributions hold. A binary there is as it was before the split.
    held: HashSet<(usize, EntryPath)>,
}

impl SplitFiles {
    /// Those that the RECORDs of the split's distributions name. A tree without distributions of a split is one as a
    /// whole, and so is one with a distribution of a split whose RECORD is missing.
    pub(super) fn of(parts: &Parts, distributions: &[Distribution<'_>]) -> Self {
        let pinned: HashSet<_> = distributions.iter().filter_map(Distribution::host_name).collect();
        // The fat wheel may have been installed in place of the host part.
        let is_owner =
            |it: &&Distribution<'_>| it.is_of_split() || it.name().is_some_and(|(name, _)| pinned.contains(&name));
        let owners: Vec<_> = distributions.iter().filter(is_owner).collect();
        let files = |it: &Distribution<'_>| -> Vec<_> {
            let number = it.number;
            it.recorded_payload().map(|path| (number, path)).collect()
        };
        let held = distributions.iter().filter(|it| it.is_device()).flat_map(files).collect();
        let is_whole = parts.kind != PartsKind::Installation || parts.statement.is_some();
        if is_whole || owners.is_empty() || owners.iter().any(|it| it.rows.is_none()) {
            return Self { owned: None, held };
        }
        Self { owned: Some(owners.into_iter().flat_map(files).collect()), held }
    }

    /// Whether a file of a part is one of them.
    pub(super) fn contains(&self, part: usize, path: &EntryPath) -> bool {
        let file = (part, path.clone());
        !self.held.contains(&file) && self.owned.as_ref().is_none_or(|owned| owned.contains(&file))
    }
}

/// Notes binaries with device code that belong to no split: fat packages next to split ones, and modules that programs
/// compile for themselves.
pub(super) fn note_others<'a>(labels: impl Iterator<Item = &'a String> + Clone, findings: &Findings) {
    if let Some(first) = labels.clone().min() {
        let binaries = counted(labels.count(), "binary", "binaries");
        findings.note(format!("{binaries} with device code of no split, such as {first}"));
    }
}
