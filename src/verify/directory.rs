//! Directories on the disk.

use std::path::{Path, PathBuf};

use crate::source::SourceError;

/// The wheels in a directory that contains wheels and no other directory, so that it is neither a split nor an
/// installation.
pub(super) fn wheels_in(path: &Path) -> Result<Vec<PathBuf>, SourceError> {
    let mut wheels = Vec::new();
    if !path.is_dir() {
        return Ok(wheels);
    }
    for entry in read_directory(path)? {
        let is_hidden = entry.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if entry.is_dir() && !is_hidden {
            return Ok(Vec::new());
        }
        if entry.is_file() && is_wheel(&entry) {
            wheels.push(entry);
        }
    }
    Ok(wheels)
}

/// The wheels in a directory, whatever else is in it.
pub(super) fn wheels_among(path: &Path) -> Result<Vec<PathBuf>, SourceError> {
    let entries = if path.is_dir() { read_directory(path)? } else { Vec::new() };
    Ok(entries.into_iter().filter(|entry| entry.is_file() && is_wheel(entry)).collect())
}

/// The entries of a directory, sorted.
pub(super) fn read_directory(path: &Path) -> Result<Vec<PathBuf>, SourceError> {
    let io = |source| SourceError::Io { path: path.to_owned(), source };
    let entries = std::fs::read_dir(path).map_err(io)?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>().map_err(io)?;
    paths.sort();
    Ok(paths)
}

pub(super) fn is_wheel(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "whl")
}
