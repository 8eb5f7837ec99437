//! Why views or files cannot be written, and what is only warned of.

use std::io;
use std::path::{Path, PathBuf};

use crate::disk::PREFIX;
use crate::rope::{ReadError, reason_at};
use crate::source::{EntryPath, PathError};

/// Reports a warning to the user.
pub(crate) type Warn = fn(&str);

/// Why a view or a file cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// Its bytes cannot be read.
    #[error("{}: {}", path.display(), reason_at(&path.to_string_lossy(), source))]
    Read { path: PathBuf, source: ReadError },
    /// `--reflink always` was given, and blocks of the input cannot be shared.
    #[error("{}: it cannot share blocks with the input: {source}; --reflink auto copies then", path.display())]
    NotShared { path: PathBuf, source: io::Error },
    /// An output directory exists and is a file.
    #[error("{}: is not a directory; the output is a directory, which may be new", .0.display())]
    NotADirectory(PathBuf),
    /// There is no such view.
    #[error("there is no view {0}")]
    NoSuchView(EntryPath),
    /// An output is an input, or contains one.
    #[error("{}: it is the input {} or contains it, and is not replaced; name another output", path.display(), input.display())]
    IsInput { path: PathBuf, input: PathBuf },
    /// An output is in an input.
    #[error("{}: it is in the input {}; name an output outside of it", path.display(), input.display())]
    InInput { path: PathBuf, input: PathBuf },
    /// An output is in a mount by kpackfs.
    #[error(
        "{}: kpackfs shows {input} in {}, and nothing can be written there; name an output outside of it",
        path.display(), mount.display()
    )]
    InMount { path: PathBuf, mount: PathBuf, input: String },
    /// An output is in a mount by kpackfs whose daemon has ended.
    #[error(
        "{}: the daemon of the mount {mount} has ended: unmount it (`kpackfs umount {mount}`), or name an output outside of it",
        path.display(), mount = mount.display()
    )]
    InDeadMount { path: PathBuf, mount: PathBuf },
    /// An output is a hard link to a file of an input.
    #[error("{}: it is a hard link to a file of the input {}; name another output", path.display(), input.display())]
    LinkedToInput { path: PathBuf, input: PathBuf },
    /// Replacing an output would delete the files of another filesystem.
    #[error("{}: not replaced, because {} is a mount point; unmount it, or name another output", path.display(), mounted.display())]
    MountPoint { path: PathBuf, mounted: PathBuf },
    /// Outputs exist. The text lists some of them.
    #[error("{0}: there already; name another directory, or replace what is there by --force")]
    Existing(String),
    /// A directory is to be replaced that has files, and no statement of a collection.
    #[error("{}: --force replaces what `collect` has written, and there is no .kpackfs/collect.json; name another directory", .0.display())]
    NotCollected(PathBuf),
    /// Something else is there than when the run began.
    #[error("{}: changed since this run began, probably by another one; run this one again", .0.display())]
    Changed(PathBuf),
    /// Another run has the lock of an output directory for longer than is waited for.
    #[error("{}: another run of kpackfs is writing there; run this one again when that one has ended", .0.display())]
    Busy(PathBuf),
    /// Two outputs would have one path.
    #[error("{}: both {first} and {second} would be written to it; write them one at a time, to different names", path.display())]
    SamePath { path: PathBuf, first: String, second: String },
    /// A path would be a file and a directory.
    #[error("{}: it would be a file for {file}, and a directory for {directory}; write them one at a time", path.display())]
    FileAndDirectory { path: PathBuf, file: String, directory: String },
    /// A directory, a device or the like would be replaced by a file.
    #[error("{}: it is no regular file, and is not replaced by one; name another output", .0.display())]
    NotRegular(PathBuf),
    /// The statement of an earlier split names a part by a path that is none.
    #[error("{0}")]
    StatedPart(#[source] PathError),
}

/// For `map_err`: names the file that is written.
pub(super) fn at(path: &Path) -> impl FnOnce(io::Error) -> ExportError {
    move |source| ExportError::Io { path: published(path), source }
}

/// For `map_err`: names the file that is written, if the input cannot be read.
pub(super) fn reading(path: &Path) -> impl FnOnce(ReadError) -> ExportError {
    move |source| ExportError::Read { path: published(path), source }
}

/// The path that a user knows of a file that is being written.
pub(super) fn published(path: &Path) -> PathBuf {
    path.iter().filter(|name| !name.as_encoded_bytes().starts_with(PREFIX.as_bytes())).collect()
}
