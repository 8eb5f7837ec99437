//! Inputs of which there is no answer.

use std::path::PathBuf;

use crate::image::ImageError;
use crate::source::SourceError;

/// Why an input is not understood.
#[derive(Debug, thiserror::Error)]
pub enum NotUnderstood {
    /// There is nothing at the path.
    #[error("{}: No such file or directory", .0.display())]
    NotThere(PathBuf),
    /// It is in a mount whose daemon has ended.
    #[error(
        "{}: the daemon of the mount {mount} has ended: unmount it (`kpackfs umount {mount}`), and mount again",
        path.display(),
        mount = mount.display()
    )]
    DeadMount { path: PathBuf, mount: PathBuf },
    /// It is a mount of which nothing can be read.
    #[error(
        "{mount}: the input of this mount has changed since it was mounted: unmount it (`kpackfs umount {mount}`), and mount the \
         input as it is now",
        mount = .0.display()
    )]
    ChangedMount(PathBuf),
    /// Its form is known, and nothing in it can be read as it is.
    #[error("{path}: {what}: {way}", path = path.display())]
    Packed {
        /// The input.
        path: PathBuf,
        /// Its form.
        what: &'static str,
        /// How it becomes an input: a command, or what to name instead.
        way: String,
    },
    /// No part of it can be read without everything before it, as a mount has to.
    #[error(
        "{}: a mount cannot read a tar archive that is compressed with zstd or xz; unpack it, or write the split with `split -o`; `kpackfs \
         ls` and `kpackfs cat` read it", .0.display()
    )]
    Stream(PathBuf),
    /// Nothing was found in it, and it has something that was not looked into.
    #[error(
        "{path}: nothing to split was found in it, and it has {what} that were not looked into ({number}, such as {first}): unpack it if it \
         is packed, and name these or their directory",
        path = path.display()
    )]
    NotLookedInto { path: PathBuf, what: &'static str, number: usize, first: String },
}

/// Whether an input was not understood, or is not there, so that there is no answer about it. Commands have an exit code of their
/// own for it (docs/cli.md).
pub fn is_not_understood(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let of_source = cause.downcast_ref::<SourceError>();
        cause.is::<NotUnderstood>()
            || matches!(cause.downcast_ref(), Some(ImageError::NoSuchImage { .. }))
            || matches!(of_source, Some(SourceError::UnknownKind { .. } | SourceError::Remote(_)))
    })
}
