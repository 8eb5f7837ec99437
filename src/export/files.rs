//! Single files that a command writes. All names are checked before the first file is written.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::dates::set_apart;
use super::error::{ExportError, Warn, at};
use super::inputs::Inputs;
use super::output::refuse_existing;
use crate::disk::{Durability, NewFile, parent};

/// Files to write: the path of each, what it is made of, and how it is named in messages.
pub(crate) struct NewFiles<T> {
    files: BTreeMap<PathBuf, (String, T)>,
    may_replace: bool,
}

impl<T> NewFiles<T> {
    pub(crate) fn new(may_replace: bool) -> Self {
        Self { files: BTreeMap::new(), may_replace }
    }

    /// Adds a file. Fails if another one has the same path.
    pub(crate) fn add(&mut self, path: PathBuf, name: String, source: T) -> Result<(), ExportError> {
        if let Some((other, _)) = self.files.get(&path) {
            return Err(ExportError::SamePath { path, first: other.clone(), second: name });
        }
        self.files.insert(path, (name, source));
        Ok(())
    }

    /// Writes all files by `write`, or none if one of them may not be written. A file has a later second than the one that it
    /// replaces. Returns their paths.
    pub(crate) fn write<E: From<ExportError>>(
        self,
        inputs: &Inputs,
        warn: Warn,
        write: impl Fn(&T, &File, &Path) -> Result<(), E>,
    ) -> Result<Vec<PathBuf>, E> {
        self.check(inputs)?;
        for (path, (_, source)) in &self.files {
            let directory = parent(path);
            fs::create_dir_all(directory).map_err(at(directory))?;
            let file = NewFile::create(path, ".kpackfs-", ".partial", 0o666).map_err(at(path))?;
            write(source, file.as_file(), path)?;
            set_apart([(file.temporary_path(), path.clone())], warn)?;
            file.publish(self.may_replace, Durability::Deferred).map_err(at(path))?;
        }
        Ok(self.files.into_keys().collect())
    }

    /// Fails if a file would be written to an input, in place of something else, or where a directory has to be.
    fn check(&self, inputs: &Inputs) -> Result<(), ExportError> {
        // A path sorts right before the paths below it.
        for ((outer, (name, _)), (inner, (other, _))) in self.files.iter().zip(self.files.iter().skip(1)) {
            if inner.starts_with(outer) {
                let (path, file, directory) = (outer.clone(), name.clone(), other.clone());
                return Err(ExportError::FileAndDirectory { path, file, directory });
            }
        }
        inputs.check_all(self.files.keys().map(PathBuf::as_path))?;
        if let Some(other) = self.files.keys().find(|path| is_no_file(path)) {
            return Err(ExportError::NotRegular(other.clone()));
        }
        let taken: Vec<_> =
            self.files.keys().map(PathBuf::as_path).filter(|it| it.symlink_metadata().is_ok()).collect();
        if self.may_replace { Ok(()) } else { refuse_existing(&taken) }
    }
}

/// Whether there is a directory, a device or the like. A symlink to a device, such as /dev/stdout, is not replaced either.
fn is_no_file(path: &Path) -> bool {
    path.metadata().is_ok_and(|existing| !existing.is_file() && !existing.is_dir())
        || path.symlink_metadata().is_ok_and(|existing| existing.is_dir())
}
