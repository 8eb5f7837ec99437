//! What was looked up, and what was looked at.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::answer::{DatabaseLookup, FoundCause};
use super::error::is_not_understood;
use super::lookup::Lookup;
use crate::rope::with_causes;

/// What was looked up.
#[derive(Default)]
pub(super) struct FoundLookups {
    pub(super) lookups: Vec<Lookup>,
    pub(super) databases: Vec<DatabaseLookup>,
    /// Causes that concern no library: wheels that cannot be installed together, a split with nothing for a GPU.
    pub(super) causes: Vec<FoundCause>,
    /// What could not be read, or was not understood.
    pub(super) unread: Vec<String>,
    /// The first of it that was not understood, or is not there.
    pub(super) unknown: Option<String>,
    /// Files with code whose targets are not known, or that were not searched.
    pub(super) unjudged: Vec<String>,
    /// Files with code of which none is for AMD's GPUs, with its form.
    pub(super) foreign: Vec<String>,
    /// Files that only the programs that open them may miss.
    pub(super) optional: BTreeSet<String>,
    pub(super) seen: SeenFiles,
    /// The groups of files with code for a GPU that nothing can load.
    pub(super) damaged: BTreeSet<(String, String)>,
    has_library: bool,
}

/// How much was looked at.
#[derive(Clone, Debug, Default)]
pub(crate) struct SeenFiles {
    pub(super) files: usize,
    /// Those that begin as ELF and PE files do.
    pub(super) binaries: usize,
    /// Whether one of them has the name that was asked for.
    pub(super) has_wanted: bool,
    /// What could not be listed, or is not of what was named.
    pub(super) left_out: BTreeSet<String>,
}

impl SeenFiles {
    pub(super) fn add(&mut self, other: Self) {
        self.files += other.files;
        self.binaries += other.binaries;
        self.has_wanted |= other.has_wanted;
        self.left_out.extend(other.left_out);
    }

    pub(super) fn add_file(&mut self, is_binary: bool) {
        self.files += 1;
        self.binaries += usize::from(is_binary);
    }
}

impl FoundLookups {
    pub(super) fn add(&mut self, lookups: Vec<Lookup>) {
        self.has_library = true;
        self.lookups.extend(lookups);
    }

    pub(super) fn fail(&mut self, error: &anyhow::Error) {
        let text = with_causes(error);
        if is_not_understood(error) {
            self.unknown.get_or_insert_with(|| text.clone());
        }
        self.unread.push(text);
    }

    /// Drops archives, files and libraries of databases without code for a GPU, if those of that GPU are there; and optional ones, if
    /// anything else has code for it, as in `inspect --require`.
    pub(super) fn drop_those_of_other_gpus(&mut self) {
        let with_code = || self.lookups.iter().filter(|it| it.cause.is_none());
        let groups: BTreeSet<_> = with_code().filter_map(Lookup::group).chain(self.damaged.iter().cloned()).collect();
        let of_databases = self.databases.iter().filter(|it| it.found).map(|it| &it.target);
        let gpus: BTreeSet<_> = with_code().map(|it| &it.target).chain(of_databases).cloned().collect();
        self.lookups.retain(|it| {
            let has_other = it.group().is_some_and(|group| groups.contains(&group));
            let is_left_out = !has_other && it.is_optional && gpus.contains(&it.target);
            if it.cause.is_some() && is_left_out {
                self.optional.insert(it.library.clone());
            }
            let is_own = it.database.as_ref().is_some_and(|database| database.is_for_gpu);
            it.cause.is_none() || is_own || !has_other && !is_left_out
        });
    }

    /// Whether there are libraries, and none has the wrapper that was asked for.
    pub(super) fn has_no_wrapper(&self) -> bool {
        self.lookups.is_empty() && self.causes.is_empty() && self.unread.is_empty()
    }

    /// Whether something at these paths was looked up.
    pub(super) fn has_some_of(&self, paths: &[PathBuf]) -> bool {
        let of_databases = self.databases.iter().map(|it| &it.library);
        let mut libraries = self.lookups.iter().map(|it| &it.library).chain(of_databases).map(Path::new);
        libraries.any(|library| paths.iter().any(|path| library.starts_with(path)))
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.has_library
            && self.databases.iter().all(DatabaseLookup::is_empty)
            && self.causes.is_empty()
            && self.unread.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_is_named_with_its_cause() {
        let mut found = FoundLookups::default();
        found.fail(&anyhow::anyhow!("permission denied").context("lib/x.so: permission denied"));
        found.fail(&anyhow::anyhow!("permission denied").context("lib/y.so"));
        assert_eq!(found.unread, ["lib/x.so: permission denied", "lib/y.so: permission denied"]);
    }
}
