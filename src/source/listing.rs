//! The names in a directory, read once for all questions about it.

use std::ffi::{OsStr, OsString};
use std::fs::DirEntry;
use std::path::{Path, PathBuf};

use super::SourceError;
use crate::disk;

/// The entries of a directory, sorted by name.
#[derive(Debug, Default)]
pub struct DirectoryListing {
    /// The path of the directory.
    pub path: PathBuf,
    /// Its entries.
    pub entries: Vec<ListedEntry>,
}

/// An entry of a directory.
#[derive(Clone, Debug)]
pub struct ListedEntry {
    /// Its name.
    pub name: OsString,
    /// What it is, or what its symlink leads to.
    pub kind: ListedKind,
    /// Whether it is a symlink.
    pub is_symlink: bool,
}

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListedKind {
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// A mount of kpackfs, or a symlink into one whose daemon is stopped. Nothing in it is asked for.
    Mount,
    /// A device, a FIFO or a socket, or a symlink that leads nowhere.
    Other,
}

impl DirectoryListing {
    /// Reads a directory. The kernel says what each entry is with its name, so only symlinks cost a system call each.
    pub fn read(path: &Path) -> Result<Self, SourceError> {
        Self::list(path).map_err(|source| SourceError::Io { path: path.to_owned(), source })
    }

    /// Like [`DirectoryListing::read`], with the error of the operating system alone.
    pub(crate) fn list(path: &Path) -> std::io::Result<Self> {
        disk::check_answers(path)?;
        let entries = std::fs::read_dir(path)?.map(|entry| ListedEntry::of(&entry?));
        let mut entries = entries.collect::<std::io::Result<Vec<_>>>()?;
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        let mut directories =
            entries.iter_mut().filter(|it| it.kind == ListedKind::Directory && !it.is_symlink).peekable();
        // A directory of files costs no look at the list of mounts.
        let mounts = directories.peek().map(|_| disk::mounts_below(path)).unwrap_or_default();
        for entry in directories.filter(|entry| mounts.iter().any(|mount| *mount == *entry.name)) {
            entry.kind = ListedKind::Mount;
        }
        Ok(Self { path: path.to_owned(), entries })
    }

    /// Reads a directory if there is one.
    pub fn read_if_directory(path: &Path) -> Result<Self, SourceError> {
        if path.is_dir() { Self::read(path) } else { Ok(Self { path: path.to_owned(), entries: Vec::new() }) }
    }

    /// The directories whose names do not begin with a dot. Symlinks to directories count.
    pub fn directories(&self) -> impl Iterator<Item = &ListedEntry> {
        let is_shown = |entry: &&ListedEntry| !entry.name.as_encoded_bytes().starts_with(b".");
        self.entries.iter().filter(|entry| entry.kind == ListedKind::Directory).filter(is_shown)
    }

    /// The names of these directories.
    pub fn directory_names(&self) -> Vec<String> {
        self.directories().map(|entry| entry.name.to_string_lossy().into_owned()).collect()
    }

    /// The names of directories that are no symlinks, hidden ones as well. One that is not UTF-8 names nothing that is known.
    pub fn own_directories(&self) -> Vec<String> {
        let own = self.entries.iter().filter(|entry| entry.kind == ListedKind::Directory && !entry.is_symlink);
        own.filter_map(|entry| Some(entry.name.to_str()?.to_owned())).collect()
    }

    /// The paths of regular files with an extension. Symlinks to files count.
    pub fn files(&self, extension: &str) -> impl Iterator<Item = PathBuf> {
        let wanted = move |entry: &&ListedEntry| {
            entry.kind == ListedKind::File && entry.has_extension(extension) && !entry.is_of_macos()
        };
        self.entries.iter().filter(wanted).map(|entry| self.path.join(&entry.name))
    }

    /// The entries that say which packages are installed in it.
    pub(crate) fn dist_infos(&self) -> impl Iterator<Item = &ListedEntry> {
        let is_installed =
            |it: &&ListedEntry| it.has_extension("dist-info") && !is_leftover(it.name.as_encoded_bytes());
        self.entries.iter().filter(is_installed)
    }

    /// Whether there is an entry of this name and kind.
    pub fn has(&self, name: &str, kind: ListedKind) -> bool {
        let found = self.entries.binary_search_by(|entry| entry.name.as_os_str().cmp(OsStr::new(name))).ok();
        found.and_then(|at| self.entries.get(at)).is_some_and(|entry| entry.kind == kind)
    }
}

impl ListedEntry {
    fn of(entry: &DirEntry) -> std::io::Result<Self> {
        let kind = entry.file_type()?;
        let is_symlink = kind.is_symlink();
        let kind = match is_symlink.then(|| entry.path()) {
            Some(link) if disk::leads_to_stopped(&link) => ListedKind::Mount,
            Some(link) => link.metadata().map_or(ListedKind::Other, |target| ListedKind::of(target.file_type())),
            None => ListedKind::of(kind),
        };
        Ok(Self { name: entry.file_name(), kind, is_symlink })
    }

    /// Copies from macOS have a hidden file next to each file, with its name (`._x.whl`).
    pub fn is_of_macos(&self) -> bool {
        self.name.as_encoded_bytes().starts_with(b"._")
    }

    /// Whether its name ends with a dot and this extension.
    pub fn has_extension(&self, extension: &str) -> bool {
        Path::new(&self.name).extension().is_some_and(|it| it == extension)
    }
}

impl ListedKind {
    fn of(kind: std::fs::FileType) -> Self {
        match () {
            () if kind.is_dir() => Self::Directory,
            () if kind.is_file() => Self::File,
            () => Self::Other,
        }
    }
}

/// Whether a directory next to installed packages has a name that pip gives to what it replaces. Nothing imports such a name, and pip
/// deletes it at the end, if the upgrade is not interrupted (`pip/_internal/utils/temp_dir.py`, `AdjacentTempDirectory`).
pub(super) fn is_leftover(name: &[u8]) -> bool {
    name.starts_with(b"~")
}
