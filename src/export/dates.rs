//! The modification times of files that are made. They have the time when they were written, whatever the time of the
//! input is, and never the second of a file that they replace: HTTP servers make an `ETag` of the second and the size
//! (nginx), and `rsync` skips files in which both are the same.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, utimensat};

use super::error::{ExportError, Warn, at};

/// The time at which the system call is made, by the clock of the filesystem. A server may have another clock.
pub(super) const NOW: Timestamps = {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    Timestamps { last_access: now, last_modification: now }
};

/// The most waits for another second. FAT has steps of two seconds.
const WAITS: usize = 3;

/// The time after the beginning of a second when files certainly get it: the kernel's clock for files has ticks of at most
/// 10 ms (`CONFIG_HZ`).
const TICK: Duration = Duration::from_millis(10);

/// Files that are made, each where it is written.
#[must_use = "an output gives them other times than those of the files that they replace"]
#[derive(Debug, Default)]
pub(crate) struct MadeFiles(pub(super) Vec<PathBuf>);

/// A new file, and the second of the one that it replaces.
struct Replacement<'a> {
    new: &'a Path,
    old: i64,
}

/// Gives each new file another second than the file in its place has: a later one, unless the time of that file is in
/// the future. Waits for the next second if a file was written in this one.
pub(super) fn set_apart<'a>(
    files: impl IntoIterator<Item = (&'a Path, PathBuf)>,
    warn: Warn,
) -> Result<(), ExportError> {
    let replacement = |(new, place): (&'a Path, PathBuf)| {
        // Of a symlink, readers know the file to which it leads.
        let old = place.metadata().ok().filter(Metadata::is_file)?.mtime();
        Some(Replacement { new, old })
    };
    let mut left = Vec::new();
    for file in files.into_iter().filter_map(replacement) {
        if time_of(file.new)?.0 <= file.old {
            left.push(file);
        }
    }
    for wait in 0..=WAITS {
        let mut rest = Duration::ZERO;
        let mut equal = Vec::new();
        for file in left {
            utimensat(CWD, file.new, &NOW, AtFlags::empty()).map_err(|error| at(file.new)(error.into()))?;
            let (now, past) = time_of(file.new)?;
            if now == file.old {
                rest = Duration::from_secs(1).saturating_sub(past) + TICK;
                equal.push(file);
            }
        }
        left = equal;
        if left.is_empty() || wait == WAITS {
            break;
        }
        thread::sleep(rest);
    }
    if let Some(file) = left.first() {
        let name = file.new.display();
        warn(&format!(
            "{name}: the filesystem gives it the time of the file that it replaces, so that web servers, rsync and caches may \
             take it for that; restart servers, and copy with rsync --checksum"
        ));
    }
    Ok(())
}

/// The modification time of a file: the second since 1970, and how much of it has passed.
fn time_of(path: &Path) -> Result<(i64, Duration), ExportError> {
    let found = fs::metadata(path).map_err(at(path))?;
    let past = u64::try_from(found.mtime_nsec()).map_err(|_| at(path)(io::ErrorKind::InvalidData.into()))?;
    Ok((found.mtime(), Duration::from_nanos(past)))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::SystemTime;

    use super::*;

    /// Writes a file, with a time that differs from now by these seconds.
    fn file(path: &Path, shift: i64) -> i64 {
        let file = File::create(path).unwrap();
        let step = Duration::from_secs(shift.unsigned_abs());
        let now = SystemTime::now();
        file.set_modified(if shift < 0 { now - step } else { now + step }).unwrap();
        time_of(path).unwrap().0
    }

    fn now() -> i64 {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        i64::try_from(since.as_secs()).unwrap()
    }

    #[test]
    fn a_new_file_has_another_second_than_the_old_one_and_none_of_the_future() {
        let place = tempfile::tempdir().unwrap();
        let [new, old] = ["new", "old"].map(|name| place.path().join(name));
        for shift in [0, 1, 100, -100] {
            let before = file(&old, shift);
            file(&new, 0);
            let begun = now();
            set_apart([(new.as_path(), old.clone())], |text| panic!("{text}")).unwrap();
            let after = time_of(&new).unwrap().0;
            assert_ne!(after, before, "{shift}");
            assert!(after <= now() && (after > before || before >= begun), "{shift}: {after}, {before}");
        }
    }

    #[test]
    fn files_without_a_predecessor_keep_their_time() {
        let place = tempfile::tempdir().unwrap();
        let new = place.path().join("new");
        let before = file(&new, -7);
        for old in ["missing", "."] {
            set_apart([(new.as_path(), place.path().join(old))], |text| panic!("{text}")).unwrap();
        }
        assert_eq!(time_of(&new).unwrap().0, before);
    }
}
