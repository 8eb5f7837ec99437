//! A mark that a mount has records to save. The next mount of the same input waits for it instead of repeating the
//! work.
//!
//! The mark is a shared lock on a file next to the index. A mount takes it when it stores the first record, before it
//! answers the request that needed the record, and so before an unmount can return. It is released when the index is
//! saved, and at the latest when the process ends.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::disk::{self, Deadline, LockKind, try_lock};

/// The suffix of these files.
const SUFFIX: &str = "saving";

/// The most times that a file is opened again because another process removed it between open and lock. That many
/// removals do not occur in practice.
const TRIES: usize = 100;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Pending {
    path: PathBuf,
    file: File,
}

impl Pending {
    /// Marks that `index` is going to be saved. Without the file or the lock, the next mount does not wait.
    pub(super) fn mark(index: &Path) -> Option<Self> {
        Self::mark_until(index, Deadline::of_locks())
    }

    fn mark_until(index: &Path, deadline: Deadline) -> Option<Self> {
        let path = index.with_extension(SUFFIX);
        disk::create_cache(path.parent()?).ok()?;
        for _ in 0..TRIES {
            let mut options = File::options();
            let file = disk::open_with(&path, options.write(true).create(true).truncate(false).mode(0o600), 0).ok()?;
            // A waiting process holds the exclusive lock for an instant only.
            deadline.lock(&file, LockKind::Shared).ok()?;
            // The waiting process may have removed the file in between. A lock on an unlinked file has no effect.
            if is_at(&path, &file) {
                return Some(Self { path, file });
            }
        }
        None
    }

    /// Waits until no mount has anything to save to `index`, until a running mount has saved it, or until the
    /// [`Deadline`].
    pub(super) fn wait(index: &Path) {
        Self::wait_until(index, Deadline::of_locks());
    }

    fn wait_until(index: &Path, deadline: Deadline) {
        let path = index.with_extension(SUFFIX);
        let version =
            || fs::metadata(index).map(|metadata| (metadata.ino(), metadata.ctime(), metadata.ctime_nsec())).ok();
        let before = version();
        for _ in 0..TRIES {
            let Ok(file) = disk::open_with(&path, File::options().write(true), 0) else { return };
            let locked = deadline.retry(|| match try_lock(&file, LockKind::Exclusive) {
                Err(_) if version() != before => Err(io::Error::other("a mount has saved it")),
                result => result,
            });
            if locked.is_err() {
                return;
            }
            // No process has the lock, so the file was left behind, unless it has been replaced by now.
            if remove(&path, &file) {
                return;
            }
        }
    }

    /// Removes the mark of a killed mount. A running mount creates another one.
    pub(super) fn discard(index: &Path) {
        fs::remove_file(index.with_extension(SUFFIX)).ok();
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        // Other holders of the lock still need the file.
        if try_lock(&self.file, LockKind::Exclusive).is_ok() {
            remove(&self.path, &self.file);
        }
    }
}

/// Removes the file at `path` if it is still this one. Returns whether it was.
fn remove(path: &Path, file: &File) -> bool {
    let is_there = is_at(path, file);
    if is_there {
        fs::remove_file(path).ok();
    }
    is_there
}

/// Whether `path` still leads to this file.
fn is_at(path: &Path, file: &File) -> bool {
    let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(opened), Ok(found)) => identity(opened) == identity(found),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    /// What takes longer hangs.
    const LONG: Duration = Duration::from_secs(300);

    #[test]
    fn the_next_mount_waits_for_what_is_being_saved_and_for_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let index = place.path().join("cache/x.index");
        let is_tag = |entry: &io::Result<fs::DirEntry>| entry.as_ref().unwrap().file_name() == "CACHEDIR.TAG";
        let entries = || fs::read_dir(place.path().join("cache")).unwrap();
        let count = || entries().filter(|entry| !is_tag(entry)).count();
        Pending::wait(&index);
        let marks = [(); 2].map(|()| Pending::mark(&index).unwrap());
        thread::scope(|scope| {
            let waiting = scope.spawn(|| Pending::wait_until(&index, Deadline::after(LONG)));
            let [one, other] = marks;
            drop(one);
            (0..1000).for_each(|_| thread::yield_now());
            assert!(!waiting.is_finished(), "one mount is still saving");
            drop(other);
        });
        assert_eq!(count(), 0);
        // A running daemon that has saved once.
        let mark = Pending::mark(&index);
        let started = Instant::now();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| Pending::wait_until(&index, Deadline::after(LONG)));
            while !waiting.is_finished() {
                fs::write(&index, "saved").unwrap();
            }
        });
        assert!(started.elapsed() < LONG);
        drop(mark);
        // A killed daemon leaves its file behind.
        fs::write(index.with_extension(SUFFIX), "").unwrap();
        Pending::wait(&index);
        assert_eq!(count(), 1, "the index");
    }

    /// Waits until this process has a file open twice: the other thread waits for its lock.
    fn wait_for_second(path: &Path) {
        let opened = || {
            let files = fs::read_dir("/proc/self/fd").unwrap();
            files.filter(|file| fs::read_link(file.as_ref().unwrap().path()).is_ok_and(|file| file == path)).count()
        };
        let limit = Instant::now() + LONG;
        while opened() < 2 {
            assert!(Instant::now() < limit, "nobody waits for the lock");
            thread::yield_now();
        }
    }

    /// A mount creates its mark while another one removes a mark that was left behind.
    #[test]
    fn a_mark_that_is_removed_before_it_is_locked_is_made_again() {
        let place = tempfile::tempdir().unwrap();
        let index = place.path().join("x.index");
        let path = index.with_extension(SUFFIX);
        let left_behind = File::create(&path).unwrap();
        try_lock(&left_behind, LockKind::Exclusive).unwrap();
        thread::scope(|scope| {
            let marking = scope.spawn(|| Pending::mark_until(&index, Deadline::after(LONG)).unwrap());
            wait_for_second(&path);
            assert!(remove(&path, &left_behind));
            drop(left_behind);
            let mark = marking.join().unwrap();
            assert!(is_at(&path, &mark.file), "the lock is on a file that nobody sees");
        });
        assert!(!path.exists());
    }

    /// The holder is a stopped process, or one whose end an NFS server has not noticed.
    #[test]
    fn a_lock_that_is_never_released_is_waited_for_once() {
        let place = tempfile::tempdir().unwrap();
        let index = place.path().join("x.index");
        let held = File::create(index.with_extension(SUFFIX)).unwrap();
        try_lock(&held, LockKind::Exclusive).unwrap();
        let started = Instant::now();
        // As many waits as tries would take too long.
        let wait = LONG / u32::try_from(TRIES).unwrap();
        let deadline = Deadline::after(wait);
        thread::scope(|scope| {
            scope.spawn(|| Pending::wait_until(&index, deadline));
            assert!(Pending::mark_until(&index, deadline).is_none());
        });
        assert!((wait..LONG).contains(&started.elapsed()), "{:?}", started.elapsed());
    }

    #[test]
    fn what_is_no_file_is_no_mark() {
        let place = tempfile::tempdir().unwrap();
        let index = place.path().join("x.index");
        let mark = index.with_extension(SUFFIX);
        rustix::fs::mknodat(rustix::fs::CWD, &mark, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        Pending::wait(&index);
        assert!(Pending::mark(&index).is_none());
    }
}
