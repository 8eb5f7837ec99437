//! Locks between processes, which are waited for at most for [`LOCK_TIMEOUT`].

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

use super::new_file::open_directory;

/// The longest wait for locks and leases of other processes. These hold them for a fraction of this, unless they are
/// stopped. A process that has waited for this long goes on without what is locked, or fails if it has to have it.
pub(crate) const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// Time between two attempts.
const PAUSE: Duration = Duration::from_millis(5);

/// Which other processes can have a lock at the same time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LockKind {
    /// Others that want it shared.
    Shared,
    /// Nobody.
    Exclusive,
}

/// The end of a wait. Several locks in a row can share one, so that all together take no longer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    /// [`LOCK_TIMEOUT`] from now.
    pub(crate) fn of_locks() -> Self {
        Self::after(LOCK_TIMEOUT)
    }

    /// This long from now.
    pub(crate) fn after(wait: Duration) -> Self {
        Self(Instant::now() + wait)
    }

    /// Calls `attempt` until it does not fail with [`WouldBlock`](io::ErrorKind::WouldBlock), at least once. After
    /// the deadline, that is the error.
    pub(crate) fn retry<T>(&self, mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        loop {
            match attempt() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < self.0 => {
                    thread::sleep(PAUSE);
                }
                result => return result,
            }
        }
    }

    /// Locks a file with flock(2) until it is closed.
    pub(crate) fn lock(&self, file: impl AsFd, kind: LockKind) -> io::Result<()> {
        self.retry(|| try_lock(&file, kind))
    }
}

/// Locks a directory until the result is closed. Waits for other processes, but not longer than for other locks.
pub(crate) fn lock_directory(directory: &Path) -> io::Result<File> {
    let file = open_directory(directory, 0)?;
    Deadline::of_locks().lock(&file, LockKind::Exclusive)?;
    Ok(file)
}

/// Locks a file with flock(2) until it is closed. Fails at once if another process has locked it
/// ([`WouldBlock`](io::ErrorKind::WouldBlock)).
#[expect(clippy::disallowed_methods, reason = "it does not wait")]
pub(crate) fn try_lock(file: impl AsFd, kind: LockKind) -> io::Result<()> {
    let operation = match kind {
        LockKind::Shared => FlockOperation::NonBlockingLockShared,
        LockKind::Exclusive => FlockOperation::NonBlockingLockExclusive,
    };
    Ok(flock(file, operation)?)
}
