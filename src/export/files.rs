//! Single files that a command writes. All names are checked before the first file is written.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use super::dates::MadeFiles;
use super::error::{ExportError, Warn, at, not_regular, refused};
use super::inputs::Inputs;
use super::output::{Output, Replace};
use super::unfinished::create_directory;
use crate::disk::{Durability, parent};
use crate::index::FrameStore;

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
            let reason =
                format!("both {other} and {name} would be written to it; write them one at a time, to different names");
            return Err(refused(&path, reason));
        }
        self.files.insert(path, (name, source));
        Ok(())
    }

    /// Writes all files by `write`, or none if one of them cannot be written. A file has a later second than the one that it
    /// replaces. Returns their paths.
    pub(crate) fn write<E: From<ExportError>>(
        self,
        inputs: &Inputs,
        warn: Warn,
        write: impl Fn(&T, &File, &Path) -> Result<(), E>,
    ) -> Result<Vec<PathBuf>, E> {
        self.check()?;
        let (place, replace) = (self.directory(), Replace::all(self.may_replace));
        let places: Vec<_> = self.files.keys().cloned().collect();
        let mut output = Output::prepare(&place, &places, &[], &replace, inputs, &FrameStore::default(), warn)?;
        for (path, (_, source)) in &self.files {
            let staged = output.staged(path);
            let directory = parent(&staged);
            create_directory(directory).map_err(at(directory))?;
            let file = File::create_new(&staged).map_err(at(path))?;
            write(source, &file, path)?;
            output.add_made(MadeFiles(vec![staged]));
        }
        output.publish(Durability::Deferred)?;
        Ok(places)
    }

    /// The directory that has all files, whose paths are sorted.
    fn directory(&self) -> PathBuf {
        let mut above = self.files.keys().next().map(|path| parent(path)).into_iter().flat_map(Path::ancestors);
        let last = self.files.keys().next_back();
        let is_common = |it: &&Path| !it.as_os_str().is_empty() && last.is_some_and(|last| last.starts_with(it));
        above.find(is_common).unwrap_or(Path::new(".")).to_owned()
    }

    /// Fails if a file would be written in place of something that is none, or where a directory has to be.
    fn check(&self) -> Result<(), ExportError> {
        // A path sorts right before the paths below it.
        for ((outer, (name, _)), (inner, (other, _))) in self.files.iter().zip(self.files.iter().skip(1)) {
            if inner.starts_with(outer) {
                let reason =
                    format!("it would be a file for {name}, and a directory for {other}; write them one at a time");
                return Err(refused(outer, reason));
            }
        }
        match self.files.keys().find(|path| is_no_file(path)) {
            Some(other) => Err(not_regular(other)),
            None => Ok(()),
        }
    }
}

/// Whether there is a directory, a device or the like. A symlink to a device, such as /dev/stdout, is not replaced either.
fn is_no_file(path: &Path) -> bool {
    path.metadata().is_ok_and(|existing| !existing.is_file() && !existing.is_dir())
        || path.symlink_metadata().is_ok_and(|existing| existing.is_dir())
}
