//! Where search paths lead. A loader follows symlinks, so an archive may have several names.

use std::collections::HashMap;
use std::fs;
use std::sync::Arc;

use super::archives::InputArchives;
use crate::loader::{Reach, SearchPath};
use crate::rope::Content;
use crate::source::{EntryKind, EntryPath, Input, Resolved, resolve_links};
use crate::wheel::is_elsewhere;

/// The entries of an input by their installed paths.
pub(super) struct Names<'a> {
    input: &'a Input,
    /// The entries that a wheel has at other paths than their installed ones.
    moved: HashMap<EntryPath, &'a EntryKind>,
    /// Archives, symlinks and directories, by the directory that holds them.
    children: HashMap<EntryPath, Vec<EntryPath>>,
}

/// The archives to which a search path leads.
#[derive(Default)]
pub(super) struct Reached {
    /// Archives of the input, by number.
    pub(super) archives: Vec<(usize, Reach)>,
    /// Symlinks out of the input, to something that exists.
    pub(super) outside: Vec<EntryPath>,
}

impl<'a> Names<'a> {
    pub(super) fn new(input: &'a Input, installed: impl Fn(&EntryPath) -> EntryPath, archives: &InputArchives) -> Self {
        let mut names = Self { input, moved: HashMap::new(), children: HashMap::new() };
        for entry in &input.entries {
            let path = installed(&entry.path);
            let is_plain = matches!(entry.kind, EntryKind::File { .. }) && archives.at(&path).is_empty();
            if let Some(directory) = path.parent().filter(|_| !is_plain) {
                names.children.entry(directory).or_default().push(path.clone());
            }
            if path != entry.path {
                names.moved.insert(path, &entry.kind);
            }
        }
        names
    }

    fn kind(&self, path: &EntryPath) -> Option<&'a EntryKind> {
        let found = self.moved.get(path).copied().or_else(|| self.input.entry(path).map(|entry| &entry.kind));
        // Each wheel has another name for the directory of files that are installed elsewhere, and may have none for that of
        // `data`, in which programs are.
        found.or_else(|| (path.depth() <= 2 && is_elsewhere(path)).then_some(&EntryKind::Directory))
    }

    /// The entry to which a path leads.
    pub(super) fn resolve(&self, path: &EntryPath) -> Resolved {
        resolve_links(path, self.input.directory(), |path| self.kind(path))
    }

    /// The archives to which a search path leads, without duplicates.
    pub(super) fn reached(&self, path: &SearchPath, archives: &InputArchives) -> Reached {
        let mut reached = Reached::default();
        let Some((directory, pattern)) = path.split() else { return reached };
        let directory = match self.resolve(&self.among_scripts(directory)) {
            Resolved::Entry(directory) => directory,
            Resolved::Outside(link) => {
                reached.outside.extend(Some(link).filter(|link| self.exists(link)));
                return reached;
            }
            Resolved::Nothing => return reached,
        };
        let children = self.children.get(&directory).into_iter().flatten();
        for (path, reach) in children.filter_map(|child| pattern.archive(child)) {
            match self.resolve(&path) {
                Resolved::Entry(path) => {
                    reached.archives.extend(archives.at(&path).iter().map(|number| (*number, reach.clone())));
                }
                Resolved::Outside(link) => reached.outside.extend(Some(link).filter(|link| self.exists(link))),
                Resolved::Nothing => {}
            }
        }
        reached
    }

    /// A directory of archives of programs for Windows. If a wheel has these among its scripts, they seem to be for Linux.
    fn among_scripts(&self, directory: EntryPath) -> EntryPath {
        let programs = directory.parent().filter(|it| it.name() == b"Scripts" && is_elsewhere(it));
        let other = programs.and_then(|it| Some(it.parent()?.child(b"bin").child(directory.name())));
        let is_there = |it: &EntryPath| self.children.contains_key(it);
        other.filter(|other| is_there(other) && !is_there(&directory)).unwrap_or(directory)
    }

    /// The file at a path.
    pub(super) fn file(&self, path: &EntryPath) -> Option<&'a Arc<dyn Content>> {
        self.kind(path)?.content()
    }

    /// The symlinks of the input, by the path to which they lead.
    pub(super) fn links(&self) -> HashMap<EntryPath, Vec<EntryPath>> {
        let mut links = HashMap::<_, Vec<_>>::new();
        for entry in self.input.entries.iter().filter(|entry| matches!(entry.kind, EntryKind::Symlink(_))) {
            if let Resolved::Entry(target) = self.resolve(&entry.path) {
                links.entry(target).or_default().push(entry.path.clone());
            }
        }
        links
    }

    /// Whether a symlink out of the input leads to something. That is unknown for an archive file.
    fn exists(&self, link: &EntryPath) -> bool {
        self.input.directory().is_none_or(|directory| fs::metadata(directory.join(link.as_path())).is_ok())
    }
}
