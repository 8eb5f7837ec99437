//! Renaming what is complete. Whatever had the name before is kept or exchanged, never overwritten.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

/// The prefix of the name that a replaced file has for a moment, if the filesystem cannot exchange two names.
pub(crate) const ASIDE: &str = ".kpackfs-replaced-";

/// Renames a file or directory. Fails if there is another one.
pub(crate) fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    rename(from, to, RenameFlags::NOREPLACE)
}

/// Exchanges the names of two files or directories.
pub(crate) fn exchange(from: &Path, to: &Path) -> io::Result<()> {
    rename(from, to, RenameFlags::EXCHANGE)
}

fn rename(from: &Path, to: &Path, flags: RenameFlags) -> io::Result<()> {
    let (ours, theirs) = (Movable::new(from), Movable::new(to));
    let result = match renameat_with(CWD, from, CWD, to, flags) {
        // Some filesystems lack these flags (rename(2)), such as NFS and 9p.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) if flags == RenameFlags::EXCHANGE => {
            exchange_in_steps(from, to)
        }
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) if to.symlink_metadata().is_err() => fs::rename(from, to),
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => Err(io::ErrorKind::AlreadyExists.into()),
        result => result.map_err(io::Error::from),
    };
    let is_exchanged = result.is_ok() && flags == RenameFlags::EXCHANGE;
    let (new, old) = if result.is_ok() { (to, from) } else { (from, to) };
    ours.restore(new);
    if is_exchanged || result.is_err() {
        theirs.restore(old);
    }
    result
}

/// If the process is killed in between, the next run reports the name of what was replaced.
fn exchange_in_steps(from: &Path, to: &Path) -> io::Result<()> {
    let mut name = OsString::from(ASIDE);
    name.push(to.file_name().unwrap_or_default());
    let aside = to.with_file_name(name);
    if aside.symlink_metadata().is_ok() {
        return Err(io::Error::other(format!("{} is in the way, which a killed run has left", aside.display())));
    }
    fs::rename(to, &aside)?;
    if let Err(error) = fs::rename(from, to) {
        fs::rename(&aside, to)?;
        return Err(error);
    }
    fs::rename(&aside, from)
}

/// Permissions to restore after a move. Only a user who may write to a directory can move it to another one, since its
/// `..` changes (`may_write`).
struct Movable(Option<Permissions>);

impl Movable {
    /// Makes a directory writable if it is not.
    fn new(path: &Path) -> Self {
        let metadata =
            path.symlink_metadata().ok().filter(|metadata| metadata.is_dir() && metadata.mode() & 0o200 == 0);
        Self(metadata.and_then(|metadata| {
            let writable = Permissions::from_mode(metadata.mode() | 0o200);
            fs::set_permissions(path, writable).is_ok().then(|| metadata.permissions())
        }))
    }

    fn restore(self, path: &Path) {
        if let Some(permissions) = self.0 {
            fs::set_permissions(path, permissions).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filesystems_that_cannot_exchange_move_what_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let [new, place] = ["hidden/part", "part"].map(|name| directory.path().join(name));
        for (path, file) in [(&new, "new"), (&place, "old")] {
            fs::create_dir_all(path).unwrap();
            fs::write(path.join(file), "").unwrap();
        }
        exchange_in_steps(&new, &place).unwrap();
        assert!(place.join("new").exists() && new.join("old").exists());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
        fs::remove_dir_all(&new).unwrap();
        assert!(exchange_in_steps(&new, &place).is_err());
        assert!(place.join("new").exists());
    }
}
