//! Where libraries are looked for: the application, and each tree. Only names are read here.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use crate::binary::Imports;
use crate::loader::resolve;
use crate::rope::Content;
use crate::source::{Entry, EntryKind, EntryPath, Input, Resolved, below};

/// The most symlinks from one name to a file, as in Linux (`path_resolution(7)`).
const MAX_LINKS: usize = 40;

/// Directories in which loaders and programs look by default, in the order in which a tree is searched: an install tree of
/// ROCm, an unpacked root of a distribution, the packages of Python (`_rocm_sdk_core`, ROCm/TheRock docs/packaging).
const USUAL: [&str; 12] = [
    "lib",
    "lib64",
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "lib/x86_64-linux-gnu",
    "lib/aarch64-linux-gnu",
    "usr/lib64",
    "usr/lib",
    "opt/rocm/lib",
    "_rocm_sdk_core/lib",
    "bin",
    "_rocm_sdk_core/bin",
];

/// The application, or a tree.
#[derive(Debug)]
pub(super) struct SearchRoot {
    /// Its path as the user named it.
    pub(super) place: PathBuf,
    pub(super) input: Input,
    /// The entries that may be libraries by name, sorted by name without regard to case.
    by_name: Vec<u32>,
}

/// A file, and the symlinks that lead to it.
#[derive(Clone, Debug)]
pub(super) struct FoundFile {
    /// The symlinks in the directories of the first one and of the file, in order, without symlinks of directories.
    pub(super) links: Vec<EntryPath>,
    /// The file.
    pub(super) path: EntryPath,
    pub(super) content: Arc<dyn Content>,
}

/// What is behind a path.
#[derive(Debug)]
pub(super) enum Followed {
    File(FoundFile),
    /// This symlink leads out of the tree.
    Outside(EntryPath),
    Nothing,
}

impl SearchRoot {
    pub(super) fn new(place: PathBuf, input: Input) -> Self {
        let is_library = |path: &EntryPath| {
            let name = path.name().to_ascii_lowercase();
            memchr::memmem::find(&name, b".so").is_some() || name.ends_with(b".dll")
        };
        let numbered = (0_u32..).zip(&input.entries);
        let files = numbered.filter(|(_, entry)| !matches!(entry.kind, EntryKind::Directory));
        let mut by_name: Vec<_> =
            files.filter(|(_, entry)| is_library(&entry.path)).map(|(number, _)| number).collect();
        let name =
            |number: &u32| input.entries.get(*number as usize).map(|entry| entry.path.name().to_ascii_lowercase());
        by_name.sort_by_cached_key(name);
        Self { place, input, by_name }
    }

    pub(super) fn kind(&self, path: &EntryPath) -> Option<&EntryKind> {
        self.input.entry(path).map(|entry| &entry.kind)
    }

    /// The names of libraries.
    pub(super) fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.by_name.iter().filter_map(|number| Some(self.input.entries.get(*number as usize)?.path.name()))
    }

    /// The paths of files and symlinks whose names begin with `begin` without regard to case, by name.
    pub(super) fn beginning<'a>(&'a self, begin: &'a [u8]) -> impl Iterator<Item = &'a EntryPath> {
        let begin = begin.to_ascii_lowercase();
        let path = |number: &u32| self.input.entries.get(*number as usize).map(|entry| &entry.path);
        let lower = |number: &u32| path(number).map(|path| path.name().to_ascii_lowercase()).unwrap_or_default();
        let start = self.by_name.partition_point(|number| lower(number) < begin);
        let rest = self.by_name.get(start..).unwrap_or_default().iter();
        rest.filter_map(path).take_while(move |path| path.name().to_ascii_lowercase().starts_with(&begin))
    }

    /// The paths of a library with this name, those in the usual directories first.
    pub(super) fn named(&self, name: &[u8], ignores_case: bool) -> Vec<EntryPath> {
        let is_it = |path: &&EntryPath| path.name() == name || (ignores_case && path.name().eq_ignore_ascii_case(name));
        let same_length = self.beginning(name).take_while(|path| path.name().len() == name.len());
        let mut found: Vec<_> = same_length.filter(is_it).cloned().collect();
        found.sort_by_cached_key(|path| (usual(path), path.depth(), path.clone()));
        found
    }

    /// The entries of a directory and below it.
    pub(super) fn below(&self, directory: &EntryPath) -> &[Entry] {
        let entries = &self.input.entries;
        let start = entries.partition_point(|entry| entry.path < *directory);
        let rest = entries.get(start..).unwrap_or_default();
        let is_below = |path: &EntryPath| path == directory || path.below(directory).is_some();
        let end = rest.iter().position(|entry| !is_below(&entry.path)).unwrap_or(rest.len());
        rest.get(..end).unwrap_or_default()
    }

    /// A directory without symlinks; `None` if there is no such directory.
    pub(super) fn directory(&self, path: &EntryPath) -> Option<EntryPath> {
        if path.is_root() {
            return Some(path.clone());
        }
        match self.input.follow(path) {
            Resolved::Entry(found) if matches!(self.kind(&found), Some(EntryKind::Directory)) => Some(found),
            _ => None,
        }
    }

    /// Follows a path to a file.
    pub(super) fn follow(&self, path: &EntryPath) -> Followed {
        let (file, content) = match self.input.follow(path) {
            Resolved::Outside(link) => return Followed::Outside(link),
            Resolved::Nothing => return Followed::Nothing,
            Resolved::Entry(file) => match self.kind(&file).and_then(EntryKind::content) {
                Some(content) => (file, Arc::clone(content)),
                None => return Followed::Nothing,
            },
        };
        let mut links = Vec::new();
        let mut seen = BTreeSet::new();
        let mut at = path.clone();
        while links.len() < MAX_LINKS {
            let Some(directory) = at.parent().and_then(|directory| self.directory(&directory)) else { break };
            let here = directory.child(at.name());
            let Some(EntryKind::Symlink(target)) = self.kind(&here) else { break };
            if !seen.insert(here.clone()) {
                break;
            }
            let next = self.inside(&directory, target);
            links.push(here);
            match next {
                Some(next) => at = next,
                None => break,
            }
        }
        // Those on the way through other directories, such as `/etc/alternatives`, are not names by which it is loaded.
        let first = links.first().and_then(EntryPath::parent);
        links.retain(|link| link.parent() == first || link.parent() == file.parent());
        Followed::File(FoundFile { links, path: file, content })
    }

    /// What is said of a path if a symlink on the way leads out of the tree.
    pub(super) fn way_out(&self, path: &EntryPath) -> Option<String> {
        let Resolved::Outside(link) = self.input.follow(path) else { return None };
        let place = self.place.display();
        Some(format!("the symlink {link} of {place} leads out of the tree; name a tree that has the file with --from"))
    }

    /// What the tree has instead of a library with this name, and what to do; `None` if it has nothing like it.
    pub(super) fn near(&self, name: &[u8]) -> Option<String> {
        let place = self.place.display();
        let Some(path) = self.named(name, false).into_iter().next() else {
            let path = self.beginning(&[name, b"."].concat()).next()?.clone();
            return Some(format!(
                "{path} of {place} is there, but no file or symlink has the name by which it is loaded; make that symlink"
            ));
        };
        Some(match self.follow(&path) {
            Followed::Outside(_) => self.way_out(&path)?,
            Followed::Nothing => {
                format!("the symlink {path} of {place} leads to nothing; name a tree that has the file with --from")
            }
            Followed::File(found) => match Imports::read(&found.content) {
                Ok(Some(_)) => {
                    format!("{path} of {place} is for another machine; name a tree for this one with --from")
                }
                Ok(None) => format!("{path} of {place} is no library for 64-bit programs; replace it"),
                Err(error) => format!("{path} of {place} cannot be loaded: {error}; replace it"),
            },
        })
    }

    /// The path in the tree to which the target of a symlink leads, without following others.
    fn inside(&self, directory: &EntryPath, target: &[u8]) -> Option<EntryPath> {
        let text = |target| std::str::from_utf8(target).ok();
        if !target.starts_with(b"/") {
            return resolve(directory, text(target)?);
        }
        // What does not begin with the place of the tree is that of an unpacked root.
        let inside = below(target, &self.input.location).unwrap_or(target);
        resolve(&EntryPath::root(), text(inside)?.trim_start_matches('/'))
    }
}

/// The rank of a library's directory.
fn usual(path: &EntryPath) -> usize {
    let directory = path.directory();
    USUAL.iter().position(|usual| usual.as_bytes() == directory).unwrap_or(USUAL.len())
}
