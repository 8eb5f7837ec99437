//! Files as a library sees them that opens them by their paths: on the disk, or in an input.

use std::collections::BTreeSet;
use std::fs::{self, DirEntry};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Access, access};

use super::problem::Problem;
use crate::coverage::cause::CauseKind;
use crate::resources::Resources;
use crate::rope::Content;
use crate::source::{Entry, EntryKind, EntryPath, Input, Resolved, in_root, open_file};

/// The most names that are read of one directory. A database of one GPU has about 1,000 files.
const MAX_NAMES: usize = 1 << 17;

/// What is said of what an input does not have.
const OUTSIDE: &str =
    "is behind a symlink out of the input, where nothing is read; replace the symlink by what it leads to";

/// Why a directory has no listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoListing {
    Absent,
    Denied,
    /// It is behind a symlink out of the input.
    Outside,
}

impl NoListing {
    /// What is said of a directory that is not there.
    pub(super) fn absence(self, directory: &Path) -> String {
        let directory = directory.display();
        match self {
            Self::Outside => format!("{directory} {OUTSIDE}"),
            Self::Absent | Self::Denied => format!("{directory} is not there"),
        }
    }
}

/// Files that libraries open.
pub(crate) trait LibraryFiles {
    /// The names in a directory, without those of dangling symlinks.
    fn list(&self, directory: &Path) -> Result<BTreeSet<String>, NoListing>;
    /// Whether a process may read a file or a directory.
    fn is_readable(&self, path: &Path) -> bool;
    /// The problem of a file or a directory that is not readable.
    fn denied(&self, path: &Path) -> Problem {
        Problem::denied(&self.place(path))
    }
    /// A regular file.
    fn open(&self, path: &Path) -> Option<Arc<dyn Content>>;
    /// Where a process finds a path, for a message; the path if that is nowhere.
    fn place(&self, path: &Path) -> PathBuf {
        path.to_owned()
    }
}

/// The files on the disk.
pub(crate) struct DiskFiles<'a> {
    /// The directory that may be the root of the library.
    pub(crate) root: &'a Path,
    pub(crate) resources: &'a Arc<Resources>,
}

impl LibraryFiles for DiskFiles<'_> {
    fn list(&self, directory: &Path) -> Result<BTreeSet<String>, NoListing> {
        let place = in_root(directory, self.root).ok_or(NoListing::Absent)?;
        let entries = fs::read_dir(place).map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied => NoListing::Denied,
            _ => NoListing::Absent,
        })?;
        let is_link = |entry: &DirEntry| entry.file_type().is_ok_and(|kind| kind.is_symlink());
        let leads_to_file = |entry: &DirEntry| in_root(&entry.path(), self.root).is_some_and(|place| place.exists());
        let exists = |entry: &DirEntry| !is_link(entry) || leads_to_file(entry);
        let existing = entries.filter_map(Result::ok).filter(exists);
        Ok(existing.take(MAX_NAMES).filter_map(|entry| entry.file_name().into_string().ok()).collect())
    }

    fn is_readable(&self, path: &Path) -> bool {
        in_root(path, self.root).is_some_and(|place| access(place, Access::READ_OK).is_ok())
    }

    fn open(&self, path: &Path) -> Option<Arc<dyn Content>> {
        open_file(&in_root(path, self.root)?, self.resources).ok()
    }

    fn place(&self, path: &Path) -> PathBuf {
        in_root(path, self.root).unwrap_or_else(|| path.to_owned())
    }
}

/// The files of an input, at their paths in it.
pub(crate) struct InputFiles<'a>(pub(crate) &'a Input);

impl InputFiles<'_> {
    /// The entry to which a path leads.
    pub(crate) fn resolve(&self, path: &Path) -> Option<EntryPath> {
        self.follow(path).ok()
    }

    fn follow(&self, path: &Path) -> Result<EntryPath, NoListing> {
        let path = EntryPath::new(path.as_os_str().as_bytes()).map_err(|_| NoListing::Absent)?;
        match self.0.follow(&path) {
            Resolved::Entry(path) => Ok(path),
            Resolved::Outside(_) => Err(NoListing::Outside),
            Resolved::Nothing => Err(NoListing::Absent),
        }
    }
}

impl LibraryFiles for InputFiles<'_> {
    fn list(&self, directory: &Path) -> Result<BTreeSet<String>, NoListing> {
        let is_directory = |path: &EntryPath| {
            path.is_root() || self.0.entry(path).is_some_and(|it| matches!(it.kind, EntryKind::Directory))
        };
        let directory = Some(self.follow(directory)?).filter(is_directory).ok_or(NoListing::Absent)?;
        let entries = &self.0.entries;
        let start = entries.partition_point(|entry| entry.path <= directory);
        let below = entries.iter().skip(start).map_while(|entry| Some((entry, entry.path.below(&directory)?)));
        let leads = |entry: &Entry| !matches!(entry.kind, EntryKind::Symlink(_)) || self.0.leads(&entry.path);
        let names = below.filter(|(entry, path)| path.depth() == 1 && leads(entry));
        Ok(names.map(|(_, path)| path.to_string()).collect())
    }

    fn is_readable(&self, path: &Path) -> bool {
        self.resolve(path).is_some()
    }

    fn denied(&self, path: &Path) -> Problem {
        match self.follow(path) {
            Err(NoListing::Outside) => {
                Problem::new(CauseKind::DatabaseMissing, format!("{} {OUTSIDE}", path.display()), path)
            }
            _ => Problem::denied(path),
        }
    }

    fn open(&self, path: &Path) -> Option<Arc<dyn Content>> {
        self.0.content(&self.resolve(path)?).cloned()
    }
}
