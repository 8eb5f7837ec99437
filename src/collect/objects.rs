//! Programs and libraries, and how one leads to another.

use std::sync::Arc;

use super::model::Reason;
use crate::binary::Imports;
use crate::rope::Content;
use crate::source::EntryPath;

/// A file of the application, or of a tree.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct RootedPath {
    /// The number of the root: 0 is the application.
    pub(super) root: usize,
    pub(super) path: EntryPath,
}

impl RootedPath {
    pub(super) fn new(root: usize, path: &EntryPath) -> Self {
        Self { root, path: path.clone() }
    }
}

/// A program or library.
#[derive(Debug)]
pub(super) struct LoadedObject {
    pub(super) file: RootedPath,
    /// The path by which it is loaded, whose directory is `$ORIGIN`.
    pub(super) loaded_as: EntryPath,
    pub(super) links: Vec<EntryPath>,
    pub(super) content: Arc<dyn Content>,
    pub(super) imports: Arc<Imports>,
    pub(super) reason: Reason,
    pub(super) rule: Option<&'static str>,
    /// The object that needs it first.
    pub(super) by: Option<usize>,
    /// Whether the search list of that object leads to it, and not a default directory.
    pub(super) is_relative: bool,
}

impl LoadedObject {
    /// The directory by which it is loaded.
    pub(super) fn origin(&self) -> EntryPath {
        self.loaded_as.parent().unwrap_or_else(EntryPath::root)
    }
}

/// The most objects whose RPATHs are searched for what one needs. Real programs have less than 20 between them and any
/// library.
const MAX_LOADERS: usize = 64;

/// The search lists of an object, each with the object that has it: its RUNPATH, or else the RPATHs of itself and of all that
/// lead to it (`ld.so(8)`).
pub(super) fn search_lists<'a>(
    object: &'a LoadedObject,
    objects: &'a [LoadedObject],
) -> impl Iterator<Item = (&'a LoadedObject, &'a [Vec<u8>])> {
    let above = |object: &&'a LoadedObject| object.by.and_then(|by| objects.get(by));
    let own = object.imports.runpath.as_deref().map(|runpath| (object, runpath));
    let loaders = std::iter::successors(Some(object), above).filter(|loader| loader.imports.runpath.is_none());
    let inherited = loaders
        .take(MAX_LOADERS)
        .filter(|_| object.imports.runpath.is_none())
        .map(|loader| (loader, &*loader.imports.rpath));
    own.into_iter().chain(inherited)
}
