//! Hidden directories for output that is not complete yet.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::Builder;

use super::lock::{LockKind, try_lock};
use super::new_file::open_directory;

/// The prefix of hidden directories.
pub(crate) const PREFIX: &str = ".kpackfs-partial-";

/// The most times that a hidden directory is created again because another process removed it as left behind.
const TRIES: usize = 100;

/// A hidden directory. The owner deletes it by [`delete`], since directories in it may be read-only.
#[derive(Debug)]
pub(crate) struct Staging {
    /// As the user named the directory that it is in.
    path: PathBuf,
    /// Held as long as this process lives, so that no other process removes the directory as left behind.
    _lock: File,
}

impl Staging {
    /// Creates one in a directory, and locks it.
    pub(crate) fn create(place: &Path) -> io::Result<Self> {
        for _ in 0..TRIES {
            let made =
                Builder::new().prefix(PREFIX).make_in(place, |path| DirBuilder::new().mode(0o700).create(path))?;
            let directory = made.into_temp_path().keep()?;
            let path = place.join(directory.file_name().unwrap_or_default());
            // Another process may have removed it as left behind before it was locked.
            match lock(&directory) {
                Ok(Some(lock)) => return Ok(Self { path, _lock: lock }),
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    fs::remove_dir(directory).ok();
                    return Err(error);
                }
            }
        }
        Err(io::Error::other("other processes remove what is made there"))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Deletes a hidden directory unless a process uses it.
pub(crate) fn delete_abandoned(directory: &Path) -> io::Result<()> {
    match lock(directory) {
        Ok(Some(_lock)) => delete(directory),
        _ => Ok(()),
    }
}

/// Locks a directory. `None` if another process has locked or removed it.
fn lock(directory: &Path) -> io::Result<Option<File>> {
    let file = open_directory(directory, libc::O_NOFOLLOW)?;
    if try_lock(&file, LockKind::Exclusive).is_err() {
        return Ok(None);
    }
    let is_there = directory.symlink_metadata()?.ino() == file.metadata()?.ino();
    Ok(is_there.then_some(file))
}

/// Deletes a directory, including directories inside that even their owner cannot write to.
pub(crate) fn delete(directory: &Path) -> io::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            make_writable(directory)?;
            fs::remove_dir_all(directory)
        }
        result => result,
    }
}

fn make_writable(directory: &Path) -> io::Result<()> {
    fs::set_permissions(directory, Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            make_writable(&entry.path())?;
        }
    }
    Ok(())
}
