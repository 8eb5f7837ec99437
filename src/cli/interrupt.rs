//! SIGINT and SIGTERM while something is written: what is not complete is removed before the process ends.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::Context;
use parking_lot::{Mutex, MutexGuard};

use crate::fs::signals::{self, ENDING, Signal};

/// The directory that goes when the process is interrupted.
static UNFINISHED: Mutex<Option<PathBuf>> = Mutex::new(None);

/// As often removing is tried while other threads still write.
const TRIES: usize = 100;

/// Has these signals remove what is [unfinished]. Call it before this process has a second thread: a signal goes to any thread
/// that does not block it.
pub(super) fn watch() -> anyhow::Result<()> {
    let signals: Vec<Signal> = ENDING.into_iter().filter(|&signal| !signals::is_ignored(signal)).collect();
    signals::block(&signals).context("sigprocmask")?;
    let listener = thread::Builder::new().name("kpackfs-signals".to_owned());
    listener.spawn(move || listen(&signals)).context("cannot start a thread").map(drop)
}

fn listen(signals: &[Signal]) {
    let Ok(signal) = signals::wait(signals) else { return };
    // The next one ends the process at once.
    signals::unblock(signals).ok();
    // It stays locked, so that no other thread gives anything its name, or says why it cannot write any more.
    let unfinished = unfinished();
    if let Some(directory) = &*unfinished {
        remove(directory);
    }
    signals::die_of(signal)
}

/// The directory that goes when the process is interrupted. It does not go while this is locked.
pub(super) fn unfinished() -> MutexGuard<'static, Option<PathBuf>> {
    UNFINISHED.lock()
}

fn remove(directory: &Path) {
    // A file that is made in a directory which is being removed is in its way.
    for _ in 0..TRIES {
        if delete(directory).is_ok() || directory.symlink_metadata().is_err() {
            return;
        }
    }
}

/// Deletes a directory, with what is in directories that even their owner cannot write to.
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
