//! The files to examine. A runtime looks for archives next to the file that is loaded, symlinks resolved.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Access, access};
use rustix::io::Errno;

use super::found::SeenFiles;
use super::origin::{DIRECT_URL, source_tree};
use crate::opened::InnerSplits;
use crate::resources::Resources;
use crate::rope::Content;
use crate::source::{
    EntryKind, Input, SourceError, begins_as_binary, in_root, is_named_library, may_be_binary, open_file, root_of,
};

/// A file that may be a library.
pub(super) struct LibraryFile {
    /// Its path without symlinks, which a runtime uses.
    pub(super) path: PathBuf,
    /// Other paths of it: symlinks, or paths through symlinks.
    pub(super) links: BTreeSet<PathBuf>,
    /// The root that it is in, or the directory that was searched for it, which may be one.
    pub(super) root: PathBuf,
}

impl LibraryFile {
    /// A file whose code is known, so that nothing else is looked up in its root. It may be in an archive or an image.
    pub(super) fn at(path: PathBuf) -> Self {
        Self { root: path.clone(), path, links: BTreeSet::new() }
    }

    /// Where a process that loads it finds a path; `None` if that is outside of its root.
    pub(super) fn found_at(&self, path: &Path) -> Option<PathBuf> {
        in_root(path, &self.root)
    }

    /// All its paths, that without symlinks at the end.
    pub(super) fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.links.iter().chain([&self.path])
    }
}

/// The files of directories that may be libraries.
#[derive(Default)]
pub(super) struct FoundFiles {
    /// In the order in which they were found.
    pub(super) files: Vec<LibraryFile>,
    /// Why some paths cannot be read.
    pub(super) failed: Vec<anyhow::Error>,
    /// How much was looked at.
    pub(super) seen: SeenFiles,
    /// The source trees of editable installations.
    sources: BTreeSet<PathBuf>,
    /// Their positions, by path without symlinks.
    positions: HashMap<PathBuf, usize>,
    directories: BTreeSet<PathBuf>,
}

/// All files that may be libraries.
pub(super) fn find(paths: &[PathBuf], resources: &Arc<Resources>) -> FoundFiles {
    let mut found = FoundFiles::default();
    for path in paths {
        if let Err(error) = found.add_path(path, resources) {
            found.failed.push(error);
        }
    }
    found
}

impl FoundFiles {
    /// The source trees of editable installations that are in no directory that was searched.
    pub(super) fn unsearched_sources(&self) -> impl Iterator<Item = &PathBuf> {
        self.sources.iter().filter(|tree| !tree.ancestors().any(|above| self.directories.contains(above)))
    }

    /// Adds a file, or what is in a directory.
    fn add_path(&mut self, path: &Path, resources: &Arc<Resources>) -> anyhow::Result<()> {
        let place = path.canonicalize().map_err(SourceError::at(path))?;
        if place.is_dir() {
            let denied = self.add_directory(&place, &place, resources)?;
            self.failed.extend(denied.into_iter().map(anyhow::Error::from));
            return Ok(());
        }
        let link = std::path::absolute(path).map_err(SourceError::at(path))?;
        self.seen.add_file(open_file(&place, resources).is_ok_and(|content| may_be_binary(&*content)));
        self.add(place.clone(), link, root_of(&place));
        Ok(())
    }

    fn add(&mut self, path: PathBuf, name: PathBuf, root: &Path) {
        let is_link = name != path;
        let position = *self.positions.entry(path).or_insert_with_key(|path| {
            self.files.push(LibraryFile { path: path.clone(), links: BTreeSet::new(), root: root.to_owned() });
            self.files.len() - 1
        });
        if let Some(file) = self.files.get_mut(position) {
            file.links.extend(is_link.then_some(name));
        }
    }

    /// Adds what is in the directory `place`, which is also called `name`. Returns what in it cannot be listed.
    fn add_directory(
        &mut self,
        place: &Path,
        name: &Path,
        resources: &Arc<Resources>,
    ) -> Result<Vec<SourceError>, SourceError> {
        if !self.directories.insert(place.to_owned()) {
            return Ok(Vec::new());
        }
        let (input, denied) = Input::survey(place, resources)?;
        let root = root_of(place);
        let splits = InnerSplits::in_parts(&input);
        let left_out =
            input.warnings.iter().cloned().chain(input.left_by_pip()).chain(splits.left_out_of(place)).collect();
        self.seen.add(SeenFiles { left_out, ..SeenFiles::default() });
        for entry in input.entries.into_iter().filter(|entry| !splits.hold(&entry.path)) {
            let (path, name) = (place.join(entry.path.as_path()), name.join(entry.path.as_path()));
            match &entry.kind {
                EntryKind::File { content, .. } => {
                    self.sources.extend(source_of(&path).filter(|tree| !tree.starts_with(place)));
                    self.seen.add_file(may_be_binary(&**content));
                    if may_be_library(&**content, &path) {
                        self.add(path, name, root);
                    }
                }
                EntryKind::Symlink(_) => self.add_link(place, root, &path, name, resources),
                EntryKind::Directory => {}
            }
        }
        Ok(denied)
    }

    /// Adds what a symlink in a directory of a root leads to. A dangling one leads to nothing.
    fn add_link(&mut self, directory: &Path, root: &Path, link: &Path, name: PathBuf, resources: &Arc<Resources>) {
        let Some(target) = in_root(link, root).and_then(|place| place.canonicalize().ok()) else { return };
        if target.is_dir() {
            // What is below the directory is found there. A link upwards, such as one to `/`, leads to other things.
            let is_elsewhere = !target.starts_with(directory) && !directory.starts_with(&target);
            // Only directories that were named have to be readable: a link may lead to /proc/self/fd.
            if is_elsewhere {
                self.add_directory(&target, &name, resources).ok();
            }
            return;
        }
        if open_file(&target, resources).is_ok_and(|content| may_be_binary(&*content)) {
            self.add(target, name, root);
        }
    }
}

/// The source tree of the editable installation that a file describes.
fn source_of(file: &Path) -> Option<PathBuf> {
    let info = file.parent().filter(|_| file.ends_with(DIRECT_URL))?;
    info.extension().filter(|it| *it == "dist-info").and_then(|_| source_tree(info))
}

/// Whether a file begins as a binary, or cannot be read and may be one.
pub(super) fn may_be_library(content: &dyn Content, path: &Path) -> bool {
    begins_as_binary(content).unwrap_or_else(|| !is_secret(path))
}

/// Whether this user may not read a file that does not have the name of a library.
fn is_secret(path: &Path) -> bool {
    let is_library = path.file_name().is_some_and(|name| is_named_library(name.as_encoded_bytes()));
    !is_library && access(path, Access::READ_OK).is_err_and(|error| error == Errno::ACCESS)
}
