//! What was in an output directory when a run began. A run may take away what it knew, and nothing that another one has
//! written since then.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::error::{ExportError, refused};

/// The device and the inode of a file or directory, and when that was changed last: the number of a deleted one is used
/// again. Writing in directories below it does not count.
type FileId = (u64, u64, i64, i64);

/// What was at some paths.
#[derive(Clone, Default)]
pub(super) struct Before(pub(super) BTreeMap<PathBuf, Option<FileId>>);

impl Before {
    /// Takes note of what is at a path, unless that was noted before.
    pub(super) fn note(&mut self, path: &Path) {
        self.0.entry(path.to_owned()).or_insert_with(|| id_of(path));
    }

    /// Fails if something else is at one of the paths now.
    pub(super) fn check(&self) -> Result<(), ExportError> {
        let changed = self.0.iter().find(|(path, before)| id_of(path) != **before);
        let reason = "changed since this run began, probably by another one; run this one again";
        changed.map_or(Ok(()), |(path, _)| Err(refused(path, reason)))
    }
}

fn id_of(path: &Path) -> Option<FileId> {
    let found = path.symlink_metadata().ok()?;
    Some((found.dev(), found.ino(), found.ctime(), found.ctime_nsec()))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// Runs the change, and returns whether it is noticed.
    fn is_noticed(change: impl FnOnce(&Path)) -> bool {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir_all(place.path().join("part/deep")).unwrap();
        let mut before = Before::default();
        for name in ["part", "none"] {
            before.note(&place.path().join(name));
        }
        before.check().unwrap();
        change(place.path());
        before.check().is_err()
    }

    #[test]
    fn what_comes_and_goes_is_noticed() {
        assert!(is_noticed(|place| fs::create_dir(place.join("none")).unwrap()));
        assert!(is_noticed(|place| fs::remove_dir_all(place.join("part")).unwrap()));
        assert!(is_noticed(|place| {
            fs::create_dir(place.join("other")).unwrap();
            fs::remove_dir_all(place.join("part")).unwrap();
            fs::rename(place.join("other"), place.join("part")).unwrap();
        }));
        assert!(!is_noticed(|place| fs::write(place.join("other"), "").unwrap()));
        assert!(!is_noticed(|place| fs::write(place.join("part/deep/file"), "").unwrap()));
    }

    /// The same inode with another time is what a new file with the number of a deleted one looks like.
    #[test]
    fn an_inode_number_is_no_proof() {
        assert!(is_noticed(|place| {
            let part = place.join("part");
            let before = id_of(&part);
            // The clock of the filesystem has steps.
            while id_of(&part) == before {
                fs::set_permissions(&part, Permissions::from_mode(0o755)).unwrap();
            }
        }));
    }

    #[test]
    fn what_was_noted_first_counts() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("file");
        let [mut earlier, mut later] = [Before::default(), Before::default()];
        earlier.note(&file);
        fs::write(&file, "").unwrap();
        later.note(&file);
        earlier.note(&file);
        later.check().unwrap();
        assert!(earlier.check().is_err());
    }
}
