//! The input: its entries, and readers for their bytes.
//!
//! An input is an install tree, an unpacked wheel, a `.whl` file, a tar archive or a single binary. It is never
//! written. It is read with pread rather than mapped: accessing a mapped file that has shrunk kills the process.
//!
//! It does not know what entries mean, apart from the magics of the bundle headers that it captures while it inflates.

mod binary;
mod block_index;
mod bundle_headers;
mod central;
mod chunks;
mod damage;
mod decoder;
mod decoders;
mod deflated;
mod inflate;
mod links;
mod loaded_indexes;
mod member;
mod path;
#[cfg(all(test, feature = "shuttle"))]
mod schedules;
mod stamp;
mod stored;
mod stream_index;
mod tar;
#[cfg(test)]
pub(crate) mod testing;
mod tree;
mod wheel;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::resources::Resources;
use crate::rope::{Content, ReadError, equal};

pub use binary::begins_binary;
pub(crate) use links::{Resolved, resolve as resolve_links};
pub use path::{EntryPath, PathError};
pub use stamp::is_cached;

/// Contents that show whether an input has changed: after a change, at least one of them cannot be read.
pub type Witnesses = Vec<Arc<dyn Content>>;

/// An input that has been listed.
#[derive(Debug)]
pub struct Input {
    /// Its kind.
    pub kind: InputKind,
    /// Its absolute path.
    pub location: PathBuf,
    /// Attributes of the root directory.
    pub root: Attributes,
    /// Everything below the root, sorted by path, without duplicates. Each directory comes before its content.
    pub entries: Vec<Entry>,
    /// Warnings about what could not be listed.
    pub warnings: Vec<String>,
    /// The tar archive that holds all entries.
    pub file: Option<Arc<dyn Content>>,
}

/// The kind of an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputKind {
    /// Any directory.
    Tree,
    /// A directory that holds exactly one `*.dist-info`, named here.
    UnpackedWheel(EntryPath),
    /// Wheels laid over each other, as they are installed. If all but one are device wheels of that one, its
    /// `*.dist-info` directory is named here, and those of the others are left out.
    Wheels(Option<EntryPath>),
    /// An ELF or PE file, which is the only entry.
    Binary,
    /// A `.whl` file; the `*.dist-info` directory is named here.
    Wheel(EntryPath),
}

/// One file, directory or symlink of the input.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its path relative to the root.
    pub path: EntryPath,
    /// Its kind.
    pub kind: EntryKind,
    /// Permissions, owner and time.
    pub attributes: Attributes,
}

/// The kind of an entry.
#[derive(Clone, Debug)]
pub enum EntryKind {
    /// A directory.
    Directory,
    /// A symlink, with its target.
    Symlink(Arc<[u8]>),
    /// A regular file.
    File {
        /// Its bytes.
        content: Arc<dyn Content>,
        /// Entries with the same number are hard links to one file.
        link_group: Option<u64>,
    },
}

impl EntryKind {
    /// The difference between two entries for one path; `None` if they are equal.
    pub fn difference(&self, other: &Self) -> Result<Option<&'static str>, ReadError> {
        Ok(match (self, other) {
            (Self::Directory, Self::Directory) => None,
            (Self::Symlink(one), Self::Symlink(other)) => (one != other).then_some("they lead to different places"),
            (Self::File { content: one, .. }, Self::File { content: other, .. }) => {
                (!equal(&**one, &**other)?).then_some("their content differs")
            }
            _ => Some("they are of different kinds"),
        })
    }
}

/// What `stat` returns in addition to kind and size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Permission bits, including set-uid, set-gid and sticky (mask 0o7777).
    pub mode: u16,
    /// User id of the owner.
    pub uid: u32,
    /// Group id of the owner.
    pub gid: u32,
    /// Seconds since 1970 of the last change of content.
    pub mtime: i64,
    /// Nanoseconds to add to `mtime`, below 10^9.
    pub mtime_nanoseconds: u32,
}

/// Why an input cannot be listed.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// What was accessed.
        path: PathBuf,
        /// The error.
        source: std::io::Error,
    },
    /// It is neither a directory nor a zip file, and does not begin as binaries do.
    #[error("{}: neither a directory nor a wheel (a zip file), nor a binary (ELF or PE)", .0.display())]
    UnknownKind(PathBuf),
    /// It looks like a tar archive but cannot be read as one.
    #[error("{}: not a usable tar archive: {reason}", path.display())]
    NotATar {
        /// The archive.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// It is on a file system whose files the kernel generates.
    #[error("{}: {name}, whose files the kernel generates, so it contains nothing to split", path.display())]
    OfKernel {
        /// The directory.
        path: PathBuf,
        /// The file system's name.
        name: &'static str,
    },
    /// It is not a usable wheel.
    #[error("{}: not a usable wheel: {reason}", path.display())]
    NotAWheel {
        /// The wheel.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A member of the wheel or archive makes the whole unusable.
    #[error("{}: member {member:?}: {reason}", path.display())]
    BadMember {
        /// The wheel.
        path: PathBuf,
        /// The member's name as it is written there.
        member: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl Input {
    /// Lists the directory, wheel, tar archive or binary at `location`.
    pub fn open(location: &Path, resources: &Arc<Resources>) -> Result<Self, SourceError> {
        Self::list(location, true, resources)
    }

    /// Like [`Input::open`], but omits what this user may not list, with a warning. Such an input is incomplete: no
    /// output may be made of it.
    pub fn survey(location: &Path, resources: &Arc<Resources>) -> Result<Self, SourceError> {
        Self::list(location, false, resources)
    }

    fn list(location: &Path, is_strict: bool, resources: &Arc<Resources>) -> Result<Self, SourceError> {
        let path = location;
        let io = |source| SourceError::Io { path: path.to_owned(), source };
        let location = path.canonicalize().map_err(io)?;
        let metadata = location.metadata().map_err(io)?;
        if metadata.is_dir() {
            tree::list(location, is_strict, resources)
        } else if metadata.is_file() && binary::is_binary(&location).map_err(io)? {
            binary::list(location, resources)
        } else if metadata.is_file() {
            match tar::packing(&location).map_err(io)? {
                Some(packing) => tar::list(location, packing, resources),
                None => wheel::list(location, resources),
            }
        } else {
            Err(SourceError::UnknownKind(location))
        }
    }

    /// The wheel's `*.dist-info` directory, if the input is a wheel.
    pub fn dist_info(&self) -> Option<&EntryPath> {
        match &self.kind {
            InputKind::Tree | InputKind::Binary | InputKind::Wheels(None) => None,
            InputKind::UnpackedWheel(path) | InputKind::Wheel(path) | InputKind::Wheels(Some(path)) => Some(path),
        }
    }

    /// Contents that show whether the input has changed.
    pub fn witnesses(&self) -> Witnesses {
        if let Some(file) = &self.file {
            return vec![Arc::clone(file)];
        }
        let mut files = self.entries.iter().filter_map(|entry| match &entry.kind {
            EntryKind::File { content, .. } if content.size() > 0 => Some(content),
            _ => None,
        });
        match self.kind {
            // All members are in one file. The stored bytes of a member are read from that file; its inflated bytes may
            // be in a cache.
            InputKind::Wheel(_) => files.find_map(|file| Some(file.packed()?.bytes)).into_iter().collect(),
            InputKind::Wheels(_) => files.filter_map(|file| Some(file.packed()?.bytes)).collect(),
            InputKind::Tree | InputKind::Binary | InputKind::UnpackedWheel(_) => files.cloned().collect(),
        }
    }

    /// Determines again whether a directory holds exactly one wheel, after entries were removed.
    pub fn recognise(&mut self) {
        if let (InputKind::Tree, Some(dist_info)) = (&self.kind, find_dist_info(&self.entries)) {
            self.kind = InputKind::UnpackedWheel(dist_info);
        }
    }

    /// The entry at `path`.
    pub fn entry(&self, path: &EntryPath) -> Option<&Entry> {
        let found = self.entries.binary_search_by(|entry| entry.path.cmp(path)).ok()?;
        self.entries.get(found)
    }
}

/// Whether a file is a compressed tar archive that has to be unpacked as a whole before it can be read.
pub fn is_stream(path: &Path) -> bool {
    let is_file = path.is_file();
    is_file && matches!(tar::packing(path), Ok(Some(tar::TarCompression::Zstd | tar::TarCompression::Xz)))
}

/// A single file as a content.
pub fn open_file(path: &Path, resources: &Arc<Resources>) -> Result<Arc<dyn Content>, SourceError> {
    tree::open_file(path, resources)
}

/// The one top-level `*.dist-info` directory that holds METADATA and WHEEL, if there is exactly one.
fn find_dist_info(entries: &[Entry]) -> Option<EntryPath> {
    let is_file = |path: &EntryPath| {
        let found = entries.binary_search_by(|entry| entry.path.cmp(path)).ok().and_then(|found| entries.get(found));
        found.is_some_and(|entry| matches!(entry.kind, EntryKind::File { .. }))
    };
    let mut candidates = entries.iter().filter(|entry| {
        matches!(entry.kind, EntryKind::Directory)
            && entry.path.depth() == 1
            && entry.path.as_bytes().ends_with(b".dist-info")
    });
    let only = candidates.next()?;
    let complete = ["METADATA", "WHEEL"].iter().all(|name| is_file(&only.path.child(name.as_bytes())));
    (complete && candidates.next().is_none()).then(|| only.path.clone())
}
