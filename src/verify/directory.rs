//! Directories on the disk.

use std::path::{Path, PathBuf};

use crate::source::SourceError;
use crate::split::SIMPLE;

/// The page of a package index, and of each project in it.
const PAGE: &str = "index.html";

/// The wheels in a directory that contains wheels and no other directory, so that it is neither a split nor an
/// installation.
pub(super) fn wheels_in(path: &Path) -> Result<Vec<PathBuf>, SourceError> {
    if directories_in(path)?.is_empty() { wheels_among(path) } else { Ok(Vec::new()) }
}

/// The wheels in a package index, or in a directory that contains one and no other directory: those of its projects, and
/// those next to its pages.
pub(super) fn wheels_in_index(path: &Path) -> Result<Vec<PathBuf>, SourceError> {
    let has_page = |directory: &Path| directory.join(PAGE).is_file();
    let is_above = !has_page(path) && matches!(directories_in(path)?.as_slice(), [only] if only == SIMPLE);
    let root = if is_above { path.join(SIMPLE) } else { path.to_owned() };
    let projects: Vec<_> = directories_in(&root)?.into_iter().map(|name| root.join(name)).collect();
    if !has_page(&root) || !projects.iter().any(|project| has_page(project)) {
        return Ok(Vec::new());
    }
    let mut wheels = if is_above { wheels_among(path)? } else { Vec::new() };
    for directory in std::iter::once(&root).chain(&projects) {
        wheels.extend(wheels_among(directory)?);
    }
    Ok(wheels)
}

/// The wheels in a directory, whatever else is in it.
pub(super) fn wheels_among(path: &Path) -> Result<Vec<PathBuf>, SourceError> {
    let entries = if path.is_dir() { read_directory(path)? } else { Vec::new() };
    Ok(entries.into_iter().filter(|entry| entry.is_file() && is_wheel(entry)).collect())
}

/// The names of the directories in a directory that are not hidden.
pub(super) fn directories_in(path: &Path) -> Result<Vec<String>, SourceError> {
    let entries = if path.is_dir() { read_directory(path)? } else { Vec::new() };
    let directories = entries.into_iter().filter(|entry| entry.is_dir());
    let names = directories.filter_map(|entry| Some(entry.file_name()?.to_string_lossy().into_owned()));
    Ok(names.filter(|name| !name.starts_with('.')).collect())
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
