//! The cache directory: whose it has to be, and the tag that keeps it out of backups.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::process::{getegid, geteuid, getgroups};

use super::new_file::create_private;
use super::open::open_with;

/// Says what a directory is to programs that make backups (Cache Directory Tagging Specification,
/// <https://bford.info/cachedir/>).
const TAG: (&str, &str) = (
    "CACHEDIR.TAG",
    "Signature: 8a477f597d28d172789f06886806bc55\n# This file marks a cache of kpackfs, which can be deleted at any time.\n",
);

/// Fails if a user other than this one may write to a directory, if there is one: what is in it is believed. With
/// `accepts_group`, members of a group to which this user belongs may.
pub(crate) fn check_cache(directory: &Path, accepts_group: bool) -> io::Result<()> {
    let unsafe_cache = |reason: String| Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
    let Some(found) = directory.metadata().ok().filter(fs::Metadata::is_dir) else { return Ok(()) };
    if found.uid() != geteuid().as_raw() {
        return unsafe_cache(format!("it belongs to the user with the ID {}", found.uid()));
    }
    let groups = getgroups().unwrap_or_default().into_iter().chain([getegid()]);
    let is_shared = accepts_group && groups.into_iter().any(|group| group.as_raw() == found.gid());
    let refused = if is_shared { 0o002 } else { 0o022 };
    // The bits of the group are also those of users and groups in an access control list (acl(5)).
    if found.mode() & refused == 0 {
        return Ok(());
    }
    unsafe_cache(format!("others may write to it (mode {:o})", found.mode() & 0o7777))
}

/// Creates the cache directory, with mode 0700. A new or empty one is tagged; in another one, the tag would keep files
/// of other programs out of backups.
pub(crate) fn create_cache(directory: &Path) -> io::Result<()> {
    create_private(directory).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => io::ErrorKind::NotADirectory.into(),
        _ => error,
    })?;
    // Another user may have created it since it was checked.
    check_cache(directory, true)?;
    if fs::read_dir(directory)?.next().is_none() {
        let (name, text) = TAG;
        let mut options = File::options();
        let tag = open_with(&directory.join(name), options.write(true).create_new(true).mode(0o644), 0);
        // Without it, only backups become larger.
        tag.and_then(|mut tag| tag.write_all(text.as_bytes())).ok();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown};

    use super::*;

    #[test]
    fn a_directory_to_which_others_write_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("a/b");
        check_cache(&directory, false).unwrap();
        create_cache(&directory).unwrap();
        assert_eq!(directory.metadata().unwrap().mode() & 0o777, 0o700);
        assert!(directory.join("CACHEDIR.TAG").exists() && !place.path().join("a/CACHEDIR.TAG").exists());
        for (mode, alone, shared) in
            [(0o755, true, true), (0o775, false, true), (0o777, false, false), (0o1777, false, false)]
        {
            fs::set_permissions(&directory, fs::Permissions::from_mode(mode)).unwrap();
            let accepts = |group| check_cache(&directory, group).is_ok();
            assert_eq!((accepts(false), accepts(true)), (alone, shared), "{mode:o}");
        }
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o770)).unwrap();
        if geteuid().is_root() {
            chown(&directory, None, Some(54_321)).unwrap();
            let refused = || check_cache(&directory, true).unwrap_err().to_string();
            assert_eq!(refused(), "others may write to it (mode 770)");
            chown(&directory, Some(54_321), None).unwrap();
            assert_eq!(refused(), "it belongs to the user with the ID 54321");
            assert_eq!(create_cache(&directory).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        }
    }

    #[test]
    fn a_file_is_no_cache_directory() {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("file"), "").unwrap();
        for path in ["file", "file/below"] {
            let error = create_cache(&place.path().join(path)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotADirectory, "{path}");
        }
    }

    #[test]
    fn a_directory_with_other_files_is_not_tagged() {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("thesis"), "").unwrap();
        create_cache(place.path()).unwrap();
        assert!(!place.path().join("CACHEDIR.TAG").exists());
    }
}
