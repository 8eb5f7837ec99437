//! Where a library searches for its database.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use super::listing::is_readable;
use crate::database::DatabaseReader;

/// The directory that a library takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) directory: PathBuf,
    /// The environment variable that names it.
    pub(super) variable: Option<&'static str>,
}

impl Place {
    /// The directory that the environment names, or else the one near the library.
    pub(super) fn of(
        reader: &DatabaseReader,
        directories: &[PathBuf],
        variables: &BTreeMap<OsString, OsString>,
    ) -> Option<Self> {
        let named = reader.variable.and_then(|name| Some((name, variables.get(&OsString::from(name))?)));
        if let Some((name, value)) = named.filter(|(_, value)| !value.is_empty() || !reader.ignores_empty) {
            let directory = if value.is_empty() { PathBuf::from("/") } else { value.into() };
            return Some(Self { directory, variable: Some(name) });
        }
        Self::near(reader, directories)
    }

    /// The directory near the library. `directories` are those under whose names it may have been loaded.
    pub(super) fn near(reader: &DatabaseReader, directories: &[PathBuf]) -> Option<Self> {
        let near = |library: &PathBuf| {
            let searched = reader.searched.iter().map(|relative| resolve(library, relative));
            let candidates: Vec<_> = searched.collect();
            candidates.iter().find(|it| is_readable(it)).or(candidates.last()).cloned()
        };
        let places: Vec<_> = directories.iter().filter_map(near).collect();
        let directory = places.iter().find(|it| is_readable(it)).or(places.first()).cloned()?;
        Some(Self { directory, variable: None })
    }
}

/// A path below `directory`, without `..`: the directory of a library is named without symlinks, or is a real one.
fn resolve(directory: &Path, relative: &str) -> PathBuf {
    let mut path = directory.to_owned();
    for component in Path::new(relative).components() {
        match component {
            Component::ParentDir => {
                path.pop();
            }
            other => path.push(other),
        }
    }
    path
}
