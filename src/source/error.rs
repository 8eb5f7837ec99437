//! Why an input cannot be listed.

use std::io;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, getrlimit};

use crate::memory::TableError;
use crate::remote::RemoteError;

/// Why an input cannot be listed.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// This process has as many open files as it may have. Each wheel stays open, so that it is not another one later.
    #[error(
        "{}: a process may have {limit} files open, and each wheel is one; raise the limit (ulimit -Hn, LimitNOFILE= of \
         systemd), or name fewer wheels", path.display()
    )]
    TooManyFiles { path: PathBuf, limit: u64 },
    /// It is on a server, which does not give it.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// It is nothing that can be read.
    #[error(
        "{}: {what}. An input is a directory, a wheel or another zip file, a binary (ELF or PE), or a tar archive, which may be \
         compressed with gzip, zstd or xz", path.display()
    )]
    UnknownKind { path: PathBuf, what: &'static str },
    /// It looks like a tar archive but cannot be read as one.
    #[error("{}: not a usable tar archive: {reason}", path.display())]
    NotATar { path: PathBuf, reason: String },
    /// There is no room to unpack it.
    #[error("{}: it cannot be unpacked: {reason}", path.display())]
    NoRoom { path: PathBuf, reason: String },
    /// Its content is so much larger than the archive that it may have been made to fill disks.
    #[error(
        "{}: it unpacks to more than {most} times its {size} bytes, as archives do that were made to fill a disk; if it is yours, \
         --allow-ratio unpacks it", path.display()
    )]
    Ratio { path: PathBuf, size: u64, most: u64 },
    /// It is on a file system whose files the kernel generates.
    #[error("{}: {name}, whose files the kernel generates, so it contains nothing to split", path.display())]
    OfKernel { path: PathBuf, name: &'static str },
    /// It is not a usable wheel or zip file.
    #[error("{}: {}: {reason}", path.display(), if is_named_wheel(path) { "not a usable wheel" } else { "not a usable zip file" })]
    NotAWheel { path: PathBuf, reason: String },
    /// The list of its entries takes too much memory.
    #[error("{}: {source}", path.display())]
    Tables { path: PathBuf, source: TableError },
    /// A member of the wheel or archive makes the whole unusable.
    #[error("{}: member {member:?}: {reason}", path.display())]
    BadMember { path: PathBuf, member: String, reason: String },
}

impl SourceError {
    /// For `map_err`: names what was accessed.
    pub(crate) fn at(path: &Path) -> impl Fn(io::Error) -> Self + Copy {
        move |source| Self::Io { path: path.to_owned(), source }
    }

    /// The error of a member that makes the whole unusable.
    pub(super) fn bad_member(location: &Path, member: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::BadMember { path: location.to_owned(), member: member.into(), reason: reason.into() }
    }

    /// The error of a wheel that could not be opened.
    pub(super) fn not_opened(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.raw_os_error() {
            Some(libc::EMFILE) => {
                Self::TooManyFiles { path, limit: getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) }
            }
            _ => Self::Io { path, source },
        }
    }
}

/// Whether the name of a file is that of a wheel.
pub(super) fn is_named_wheel(location: &Path) -> bool {
    location.extension().is_some_and(|extension| extension == "whl")
}
