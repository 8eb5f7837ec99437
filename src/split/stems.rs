//! The first part of archive names.

use std::collections::HashMap;

use super::roots::Roots;
use crate::gpu::begins_device_part;
use crate::loader::{DOT_KPACK, archive_root};
use crate::source::{EntryPath, Input};

/// The first part of archive names, by the directory of `.kpack` in an installation.
pub(super) struct Stems<'a> {
    group: &'a str,
    roots: &'a Roots,
    /// The input's files in these directories.
    taken: HashMap<EntryPath, Vec<EntryPath>>,
}

impl<'a> Stems<'a> {
    pub(super) fn new(input: &Input, roots: &'a Roots, group: &'a str) -> Self {
        let mut taken = HashMap::<_, Vec<_>>::new();
        for entry in input.entries.iter().filter(|entry| entry.path.name().ends_with(DOT_KPACK.as_bytes())) {
            if let Some(root) = archive_root(&roots.installed(&entry.path)) {
                taken.entry(root).or_default().push(entry.path.clone());
            }
        }
        Self { group, roots, taken }
    }

    fn group(&self, binary: &EntryPath) -> String {
        self.roots.own_group(binary).unwrap_or_else(|| self.group.to_owned())
    }

    /// The binary's group, with a number appended if the input has archives of that name already: markers find archives
    /// by name.
    pub(super) fn of(&self, root: &EntryPath, binary: &EntryPath) -> String {
        let group = self.group(binary);
        let taken = self.taken.get(root).map_or(&[][..], Vec::as_slice);
        let name = |number: usize| if number == 1 { group.clone() } else { format!("{group}-{number}") };
        let is_free = |name: &String| !taken.iter().any(|path| is_of_group(path, name));
        (1..=taken.len()).map(name).find(is_free).unwrap_or_else(|| name(taken.len() + 1))
    }

    /// A warning if a name differs from the group.
    pub(super) fn note(&self, root: &EntryPath, binary: &EntryPath, name: &str) -> Option<String> {
        let group = self.group(binary);
        let existing = self.taken.get(root)?.iter().find(|path| is_of_group(path, &group))?;
        Some(format!(
            "{existing}: an archive of the input, which is kept; the new ones there are called {name}_<target>.kpack"
        ))
    }
}

/// Whether an archive is named `<group>_<target>.kpack`.
fn is_of_group(path: &EntryPath, group: &str) -> bool {
    let target = path.name().strip_prefix(group.as_bytes()).and_then(|rest| rest.strip_prefix(b"_"));
    target.is_some_and(begins_device_part)
}
