//! The output directory. It may contain other files: a build has one directory for all of its components. A part with
//! an existing name is refused, or replaced on request.
//!
//! Parts are written to a hidden directory inside and renamed when all of them are complete. A run that fails, is
//! interrupted or is killed before that leaves the existing files unchanged.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use tempfile::{Builder, TempDir};

use super::error::{ExportError, at};
use super::inputs::Inputs;
use super::unfinished::{delete, unfinished};
use crate::disk::{LockKind, try_lock};
use crate::resources::Resources;
use crate::source::EntryPath;

/// The most names in a message.
const NAMED: usize = 3;

/// The prefix of hidden directories.
const PREFIX: &str = ".kpackfs-partial-";

/// The prefix of the name that a replaced part has for a moment, if the file system cannot exchange two names.
const ASIDE: &str = ".kpackfs-replaced-";

/// The most times that a hidden directory is created again because another process removed it as left behind.
const TRIES: usize = 100;

/// An output that is being written. If it is dropped before it is published, nothing is left.
pub(crate) struct Output {
    place: PathBuf,
    hidden: TempDir,
    /// Held as long as this process lives, so that no other process removes the directory as left behind.
    _lock: File,
    parts: Vec<OutputPart>,
    /// Parts that are removed without a replacement.
    gone: Vec<PathBuf>,
    warn: Warn,
}

/// Reports a warning to the user.
pub(crate) type Warn = fn(&str);

/// What an output may replace.
pub(crate) enum Replace {
    /// Everything that has the name of a part.
    Anything,
    /// These parts.
    Only(Vec<PathBuf>),
}

impl Replace {
    /// Everything or nothing.
    pub(crate) fn all(force: bool) -> Self {
        if force { Self::Anything } else { Self::Only(Vec::new()) }
    }

    fn allows(&self, part: &Path) -> bool {
        match self {
            Self::Anything => true,
            Self::Only(parts) => parts.iter().any(|allowed| allowed == part),
        }
    }
}

/// A part that is written to `staged` and renamed to `place`.
struct OutputPart {
    staged: PathBuf,
    place: PathBuf,
    may_replace: bool,
}

impl Output {
    /// Prepares output to the directory `place`. Fails if `parts` or `gone` exist in it and may not be replaced, and if
    /// they concern an input.
    /// Code objects are compressed once: until they are written, they are kept in an unnamed file in the directory.
    pub(crate) fn prepare(
        place: &Path,
        parts: &[PathBuf],
        gone: &[PathBuf],
        replace: &Replace,
        inputs: &Inputs,
        resources: &Resources,
        warn: Warn,
    ) -> Result<Self, ExportError> {
        parts.iter().chain(gone).try_for_each(|part| inputs.check(part))?;
        fs::create_dir_all(place).map_err(at(place))?;
        let existing = parts.iter().chain(gone).map(PathBuf::as_path).filter(|part| part.symlink_metadata().is_ok());
        let refused: Vec<_> = existing.filter(|part| !replace.allows(part)).collect();
        refuse_existing(&refused)?;
        clear(place, inputs, warn);
        // Locked before the directory exists: an interrupt in between would leave it.
        let mut unfinished = unfinished();
        let (hidden, lock) = hidden_in(place).map_err(at(place))?;
        *unfinished = Some(hidden.path().to_owned());
        drop(unfinished);
        resources.store.spool_to(place);
        let (place, gone) = (place.to_owned(), gone.to_vec());
        let mut output = Self { place, hidden, _lock: lock, parts: Vec::new(), gone, warn };
        for part in parts {
            output.add(part, replace.allows(part));
        }
        Ok(output)
    }

    /// Adds a part, and returns where it is written until all parts are complete.
    fn add(&mut self, place: &Path, may_replace: bool) -> PathBuf {
        let staged = self.staged(place);
        self.parts.push(OutputPart { staged: staged.clone(), place: place.to_owned(), may_replace });
        staged
    }

    fn staged(&self, place: &Path) -> PathBuf {
        // Its name appears in messages, so the staged part has the same name.
        self.hidden.path().join(place.strip_prefix(&self.place).unwrap_or(place))
    }

    /// The views, with the paths where they are written until all are complete.
    pub(crate) fn views(&self, views: &[(EntryPath, PathBuf)]) -> Vec<(EntryPath, PathBuf)> {
        views.iter().map(|(view, place)| (view.clone(), self.staged(place))).collect()
    }

    /// Adds a file that replaces an existing one, or a file of a part that has been written.
    pub(crate) fn write_file(&mut self, place: &Path, text: &str) -> Result<(), ExportError> {
        let is_in_part = self.parts.iter().any(|part| place.starts_with(&part.place));
        let staged = if is_in_part { self.staged(place) } else { self.add(place, true) };
        if let Some(directory) = staged.parent() {
            fs::create_dir_all(directory).map_err(at(&staged))?;
        }
        fs::write(&staged, text).map_err(at(&staged))
    }

    /// Renames everything. If this fails, nothing has been renamed.
    pub(crate) fn publish(self) -> Result<(), ExportError> {
        // An interrupt waits until this is done.
        let _unfinished = unfinished();
        // Replaced parts are deleted with the hidden directory.
        let gone = self.gone.iter().enumerate().map(|(number, place)| {
            let staged = self.hidden.path().join(format!("{ASIDE}{number}"));
            OutputPart { staged: place.clone(), place: staged, may_replace: false }
        });
        let gone: Vec<_> = gone.filter(|part| part.staged.symlink_metadata().is_ok()).collect();
        let parts: Vec<_> = gone.iter().chain(&self.parts).collect();
        for (number, part) in parts.iter().enumerate() {
            if let Err(error) = part.publish() {
                let (published, _) = parts.split_at(number);
                published.iter().rev().for_each(|part| part.take_back(self.warn));
                return Err(at(&part.place)(error));
            }
        }
        Ok(())
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        let mut unfinished = unfinished();
        *unfinished = None;
        let directory = self.hidden.path();
        if let Err(error) = delete(directory) {
            (self.warn)(&format!("{}: it cannot be deleted: {error}", directory.display()));
        }
    }
}

impl OutputPart {
    /// Renames the part. A replaced part gets the name of the staged one.
    fn publish(&self) -> io::Result<()> {
        if let Some(directory) = self.place.parent() {
            fs::create_dir_all(directory)?;
        }
        match self.rename(RenameFlags::NOREPLACE) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && self.may_replace => {
                self.rename(RenameFlags::EXCHANGE)
            }
            result => result,
        }
    }

    fn take_back(&self, warn: Warn) {
        let is_replaced = self.staged.symlink_metadata().is_ok();
        let back = Self { staged: self.place.clone(), place: self.staged.clone(), may_replace: true };
        let flags = if is_replaced { RenameFlags::EXCHANGE } else { RenameFlags::NOREPLACE };
        if let Err(error) = back.rename(flags) {
            warn(&format!("{}: it is new, and cannot be taken back: {error}", self.place.display()));
        }
    }

    fn rename(&self, flags: RenameFlags) -> io::Result<()> {
        let (staged, place) = (Movable::new(&self.staged), Movable::new(&self.place));
        let result = match renameat_with(CWD, &self.staged, CWD, &self.place, flags) {
            // Some file systems lack these flags (rename(2)), such as NFS and 9p.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) if flags == RenameFlags::EXCHANGE => self.exchange(),
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) if self.place.symlink_metadata().is_err() => {
                fs::rename(&self.staged, &self.place)
            }
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => Err(io::ErrorKind::AlreadyExists.into()),
            result => result.map_err(io::Error::from),
        };
        let is_exchanged = result.is_ok() && flags == RenameFlags::EXCHANGE;
        let (ours, theirs) = if result.is_ok() { (&self.place, &self.staged) } else { (&self.staged, &self.place) };
        staged.restore(ours);
        if is_exchanged || result.is_err() {
            place.restore(theirs);
        }
        result
    }

    /// Exchanges both in three steps. If the process is killed in between, the next run reports the name of the
    /// replaced part.
    fn exchange(&self) -> io::Result<()> {
        let mut name = std::ffi::OsString::from(ASIDE);
        name.push(self.place.file_name().unwrap_or_default());
        let aside = self.place.with_file_name(name);
        if aside.symlink_metadata().is_ok() {
            return Err(io::Error::other(format!("{} is in the way, which a killed run has left", aside.display())));
        }
        fs::rename(&self.place, &aside)?;
        if let Err(error) = fs::rename(&self.staged, &self.place) {
            fs::rename(&aside, &self.place)?;
            return Err(error);
        }
        fs::rename(&aside, &self.staged)
    }
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

/// Fails if there are paths that would be replaced.
pub(super) fn refuse_existing(taken: &[&Path]) -> Result<(), ExportError> {
    let Some(first) = taken.first() else { return Ok(()) };
    let more = match taken.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    let shown = taken.iter().skip(1).take(NAMED - 1).map(|place| format!(", {}", place.display()));
    let shown = shown.fold(first.display().to_string(), |all, one| all + &one);
    Err(ExportError::Existing(shown + &more))
}

/// Creates a hidden directory, and locks it.
fn hidden_in(place: &Path) -> io::Result<(TempDir, File)> {
    for _ in 0..TRIES {
        let directory = Builder::new().prefix(PREFIX).permissions(Permissions::from_mode(0o700)).tempdir_in(place)?;
        // Another process may have removed it as left behind before it was locked.
        match lock(directory.path()) {
            Ok(Some(lock)) => return Ok((directory, lock)),
            Ok(None) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("other processes remove what is made there"))
}

/// Locks a directory. `None` if another process has locked or removed it.
fn lock(directory: &Path) -> io::Result<Option<File>> {
    #[expect(clippy::disallowed_methods, reason = "nothing but a directory is opened, and that does not wait")]
    let file = File::options().read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW).open(directory)?;
    if try_lock(&file, LockKind::Exclusive).is_err() {
        return Ok(None);
    }
    let is_there = directory.symlink_metadata()?.ino() == file.metadata()?.ino();
    Ok(is_there.then_some(file))
}

/// Deletes what killed processes have left in an output directory, unless it is an input. Reports names that only the
/// user can judge.
fn clear(output: &Path, inputs: &Inputs, warn: Warn) {
    let entries = fs::read_dir(output).into_iter().flatten().flatten();
    for entry in entries {
        let (name, path) = (entry.file_name(), entry.path());
        let name = name.to_string_lossy();
        if name.starts_with(PREFIX) && inputs.check(&path).is_ok() && lock(&path).is_ok_and(|lock| lock.is_some()) {
            if let Err(error) = delete(&path) {
                warn(&format!("{}: left by a run that was killed: {error}", path.display()));
            }
        } else if name.starts_with(ASIDE) {
            let path = path.display();
            warn(&format!("{path}: a run that was killed has left it; it is what was replaced"));
        }
    }
}

#[cfg(test)]
#[path = "output_tests.rs"]
mod tests;
