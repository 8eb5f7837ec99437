//! Incomplete output, which a signal handler removes before the process ends.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use parking_lot::{Mutex, MutexGuard};

/// The directory to remove when the process is interrupted.
static UNFINISHED: Mutex<Option<PathBuf>> = Mutex::new(None);

/// The most attempts to remove the directory while other threads still write to it.
const TRIES: usize = 100;

/// Removes incomplete output. While the guard lives, no other thread publishes output or reports a failure to write.
pub(crate) fn remove_unfinished() -> MutexGuard<'static, Option<PathBuf>> {
    let unfinished = unfinished();
    if let Some(directory) = &*unfinished {
        remove(directory);
    }
    unfinished
}

/// The directory to remove when the process is interrupted. It is not removed while this is locked.
pub(super) fn unfinished() -> MutexGuard<'static, Option<PathBuf>> {
    UNFINISHED.lock()
}

fn remove(directory: &Path) {
    // A file that is created meanwhile makes the removal fail.
    for _ in 0..TRIES {
        if delete(directory).is_ok() || directory.symlink_metadata().is_err() {
            return;
        }
    }
}

/// Deletes a directory, including directories inside that even their owner cannot write to.
pub(super) fn delete(directory: &Path) -> io::Result<()> {
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
