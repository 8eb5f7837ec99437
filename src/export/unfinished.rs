//! Incomplete output, which a signal handler removes before the process ends.

use std::path::{Path, PathBuf};
use std::{fs, io};

use parking_lot::{Mutex, MutexGuard};

use crate::disk::delete;

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

/// Creates a directory in which output is written, and those above it. Locked: an interrupt removes them, and they would be there again.
pub(super) fn create_directory(path: &Path) -> io::Result<()> {
    let _unfinished = unfinished();
    fs::create_dir_all(path)
}

fn remove(directory: &Path) {
    // A file that is created meanwhile makes the removal fail.
    for _ in 0..TRIES {
        if delete(directory).is_ok() || directory.symlink_metadata().is_err() {
            return;
        }
    }
}
