//! Where a library searches for its database.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::files::{LibraryFiles, NoListing};
use crate::database::{DatabaseReader, EmptyVariable, Handler, VERSION, is_version};
use crate::gpu::TargetId;
use crate::loader::NameSearch;
use crate::resources::Resources;

/// The directory that a library takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DatabasePlace {
    pub(crate) directory: PathBuf,
    /// The environment variable that names it.
    pub(crate) variable: Option<&'static str>,
}

/// A library, and the names under which it may have been loaded.
pub(crate) struct LoadedLibrary<'a> {
    pub(crate) path: &'a Path,
    /// The directories of those names.
    pub(crate) directories: &'a [PathBuf],
}

/// A library that looks in a database for what a GPU needs.
pub(crate) struct DatabaseSearch<'a> {
    pub(crate) handler: Handler,
    pub(crate) library: &'a Path,
    pub(crate) place: &'a DatabasePlace,
    pub(crate) device: &'a TargetId,
    pub(crate) files: &'a dyn LibraryFiles,
    pub(crate) resources: &'a Arc<Resources>,
}

impl DatabasePlace {
    /// The directory that the environment names, or else the one near the library.
    pub(crate) fn of(
        reader: &DatabaseReader,
        library: &LoadedLibrary<'_>,
        files: &dyn LibraryFiles,
        variables: &BTreeMap<OsString, OsString>,
    ) -> Option<Self> {
        let named = reader.variable.and_then(|name| Some((name, variables.get(&OsString::from(name))?)));
        let named = named.and_then(|(name, value)| {
            let directory = match reader.empty {
                _ if !value.is_empty() => PathBuf::from(value),
                EmptyVariable::Unset => return None,
                EmptyVariable::Root => PathBuf::from("/"),
                EmptyVariable::WorkingDirectory => PathBuf::from("."),
            };
            Some(Self { directory, variable: Some(name) })
        });
        named.or_else(|| Self::near(reader, library, files))
    }

    /// The directory near the library.
    pub(crate) fn near(reader: &DatabaseReader, library: &LoadedLibrary<'_>, files: &dyn LibraryFiles) -> Option<Self> {
        let near = |directory: &PathBuf| {
            let searched =
                reader.searched.iter().filter_map(|relative| resolve(files, directory, relative, library.path));
            let candidates: Vec<_> = searched.collect();
            let is_denied = |it: &&PathBuf| files.list(it).is_err_and(|error| error == NoListing::Denied);
            let place =
                candidates.iter().find(|it| files.is_readable(it)).or_else(|| candidates.iter().find(is_denied));
            place.or(candidates.last()).cloned()
        };
        let places: Vec<_> = library.directories.iter().filter_map(near).collect();
        let directory = places.iter().find(|it| files.is_readable(it)).or(places.first()).cloned()?;
        Some(Self { directory, variable: None })
    }
}

/// A path below `directory`, without `..`: the directory of a library is named without symlinks, or is a real one. `None` if
/// it has a version in it, and the library names none that is there.
fn resolve(files: &dyn LibraryFiles, directory: &Path, relative: &str, library: &Path) -> Option<PathBuf> {
    let mut path = directory.to_owned();
    for component in Path::new(relative).components() {
        match component {
            Component::ParentDir => drop(path.pop()),
            Component::Normal(name) if name == VERSION => path.push(version_in(files, &path, relative, library)?),
            other => path.push(other),
        }
    }
    Some(path)
}

/// The version that the library has in the text of a relative path, of those in a directory.
fn version_in(files: &dyn LibraryFiles, directory: &Path, relative: &str, library: &Path) -> Option<String> {
    let (names, content) = (files.list(directory).ok()?, files.open(library)?);
    names
        .into_iter()
        .filter(|name| is_version(name))
        .find(|name| NameSearch::in_content(&*content, [relative.replace(VERSION, name).as_bytes()]) == Some([true]))
}
