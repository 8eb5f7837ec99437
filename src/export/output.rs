//! The output directory. It may contain other files: a build has one directory for all of its components. A part with
//! an existing name is refused, or replaced on request.
//!
//! Parts are written to a hidden directory inside and renamed when all of them are complete. A run that fails, is
//! interrupted or is killed before that leaves the existing files unchanged.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::before::Before;
use super::dates::{MadeFiles, set_apart};
use super::error::{ExportError, Warn, at, not_a_directory, refused};
use super::inputs::Inputs;
use super::unfinished::{create_directory, unfinished};
use crate::disk::{
    ASIDE, Durability, NewFile, PREFIX, Staging, delete, delete_abandoned, exchange, lock_directory, parent,
    rename_new, sync_directory, sync_filesystem,
};
use crate::index::FrameStore;
use crate::source::EntryPath;
use crate::text::{NAMED, first_names};

/// An output that is being written. If it is dropped before it is published, nothing is left.
pub(crate) struct Output {
    place: PathBuf,
    hidden: Staging,
    parts: Vec<OutputPart>,
    /// The files in them that are not the input's, where they are written.
    made: MadeFiles,
    /// Parts that are removed without a replacement.
    gone: Vec<PathBuf>,
    /// What was there that is replaced or removed, or that the output depends on.
    pub(super) before: Before,
    /// Directories whose names survive a power cut.
    synced: BTreeSet<PathBuf>,
    warn: Warn,
}

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
        store: &FrameStore,
        warn: Warn,
    ) -> Result<Self, ExportError> {
        inputs.check_all(parts.iter().chain(gone).map(PathBuf::as_path))?;
        if place.exists() && !place.is_dir() {
            return Err(not_a_directory(place));
        }
        create_directory(place).map_err(at(place))?;
        let existing = parts.iter().chain(gone).map(PathBuf::as_path).filter(|part| part.symlink_metadata().is_ok());
        let refused: Vec<_> = existing.filter(|part| !replace.allows(part)).collect();
        if !refused.is_empty() {
            return Err(there_already(&refused));
        }
        clear(place, inputs, warn);
        // Locked before the directory exists: an interrupt in between would leave it.
        let mut unfinished = unfinished();
        let hidden = Staging::create(place).map_err(at(place))?;
        *unfinished = Some(hidden.path().to_owned());
        drop(unfinished);
        store.spool_to(place);
        let (place, gone) = (place.to_owned(), gone.to_vec());
        let made = MadeFiles::default();
        let (before, synced) = (Before::default(), BTreeSet::new());
        let mut output = Self { place, hidden, parts: Vec::new(), made, gone, before, synced, warn };
        output.gone.iter().for_each(|part| output.before.note(part));
        for part in parts {
            output.add(part, replace.allows(part));
        }
        Ok(output)
    }

    /// Adds a part, and returns where it is written until all parts are complete.
    pub(super) fn add(&mut self, place: &Path, may_replace: bool) -> PathBuf {
        let staged = self.staged(place);
        if may_replace {
            self.before.note(place);
        }
        self.parts.push(OutputPart { staged: staged.clone(), place: place.to_owned(), may_replace });
        staged
    }

    pub(super) fn staged(&self, place: &Path) -> PathBuf {
        // Its name appears in messages, so the staged part has the same name.
        self.hidden.path().join(place.strip_prefix(&self.place).unwrap_or(place))
    }

    /// The path of a file in the output, by the path where it is written.
    pub(crate) fn relative<'p>(&self, staged: &'p Path) -> Option<&'p Path> {
        staged.strip_prefix(self.hidden.path()).ok()
    }

    /// The views, with the paths where they are written until all are complete.
    pub(crate) fn views(&self, views: &[(EntryPath, PathBuf)]) -> Vec<(EntryPath, PathBuf)> {
        views.iter().map(|(view, place)| (view.clone(), self.staged(place))).collect()
    }

    /// Takes note of files that were written and are not the input's.
    pub(crate) fn add_made(&mut self, files: MadeFiles) {
        self.made.0.extend(files.0);
    }

    /// Adds a file that replaces an existing one, or a file of a part that has been written. One that is believed without
    /// further proof is `Durability::Synced`, so that it is not empty after a power cut.
    pub(crate) fn write_file(&mut self, place: &Path, text: &[u8], durability: Durability) -> Result<(), ExportError> {
        let is_in_part = self.parts.iter().any(|part| place.starts_with(&part.place));
        let staged = if is_in_part { self.staged(place) } else { self.add(place, true) };
        if let Some(directory) = staged.parent() {
            create_directory(directory).map_err(at(&staged))?;
        }
        if durability == Durability::Synced {
            self.synced.extend([self.place.clone(), parent(place).to_owned()]);
        }
        let write = || {
            let file = NewFile::create(&staged, "", "", 0o666)?;
            file.as_file().write_all(text)?;
            file.publish(true, durability)
        };
        write().map_err(at(&staged))?;
        self.made.0.push(staged);
        Ok(())
    }

    /// Renames everything. If this fails, nothing has been renamed. With `Durability::Synced`, all of it is on the disk
    /// before the first name is.
    pub(crate) fn publish(mut self, durability: Durability) -> Result<(), ExportError> {
        // Before it is locked: other runs would wait for the disk.
        self.sync(durability)?;
        let lock = self.lock()?;
        self.publish_locked(lock)
    }

    /// Has everything on the disk that is written so far.
    pub(super) fn sync(&mut self, durability: Durability) -> Result<(), ExportError> {
        if durability == Durability::Synced {
            sync_filesystem(&self.place).map_err(at(&self.place))?;
            self.synced.insert(self.place.clone());
        }
        Ok(())
    }

    /// Keeps other runs from publishing to the directory: parts of two runs would not belong together. An interrupt does
    /// not wait for this.
    pub(super) fn lock(&self) -> Result<File, ExportError> {
        lock_directory(&self.place).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => refused(
                &self.place,
                "another run of kpackfs is writing there; run this one again when that one has ended",
            ),
            _ => at(&self.place)(error),
        })
    }

    /// Renames everything. If this fails, nothing has been renamed. Takes the [lock](Self::lock) of the directory: that is
    /// not held while replaced parts are deleted.
    pub(super) fn publish_locked(self, lock: File) -> Result<(), ExportError> {
        self.before.check()?;
        let place = |staged: &Path| Some(self.place.join(self.relative(staged)?));
        let made = self.made.0.iter().filter_map(|staged| Some((staged.as_path(), place(staged)?)));
        set_apart(made, self.warn)?;
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
                return Err(error);
            }
        }
        drop(lock);
        self.synced.iter().try_for_each(|directory| sync_directory(directory).map_err(at(directory)))
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
    fn publish(&self) -> Result<(), ExportError> {
        let directory = parent(&self.place);
        fs::create_dir_all(directory).map_err(at(directory))?;
        let renamed = match rename_new(&self.staged, &self.place) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            Err(_) if self.may_replace => exchange(&self.staged, &self.place),
            Err(_) => return Err(there_already(&[&self.place])),
            Ok(()) => Ok(()),
        };
        renamed.map_err(at(&self.place))
    }

    fn take_back(&self, warn: Warn) {
        let is_replaced = self.staged.symlink_metadata().is_ok();
        let rename = if is_replaced { exchange } else { rename_new };
        if let Err(error) = rename(&self.place, &self.staged) {
            warn(&format!("{}: it is new, and cannot be taken back: {error}", self.place.display()));
        }
    }
}

/// The error about paths that would be replaced.
fn there_already(taken: &[&Path]) -> ExportError {
    ExportError::Existing(first_names(taken.iter().map(|place| place.display()), NAMED, ", ", ","))
}

/// Deletes what killed processes have left in an output directory, unless it is an input. Reports names that only the
/// user can judge.
fn clear(output: &Path, inputs: &Inputs, warn: Warn) {
    let entries = fs::read_dir(output).into_iter().flatten().flatten();
    for entry in entries {
        let (name, path) = (entry.file_name(), entry.path());
        let name = name.to_string_lossy();
        if name.starts_with(PREFIX) && inputs.check(&path).is_ok() {
            if let Err(error) = delete_abandoned(&path) {
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
