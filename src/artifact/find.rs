//! Which artifacts a directory holds.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::MANIFEST;

/// Artifacts that were found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// The directory is one.
    One,
    /// It holds some.
    Several {
        /// Directories with a manifest, by name.
        artifacts: BTreeMap<String, PathBuf>,
        /// Names of directories without one.
        others: Vec<String>,
        /// Names of archives of artifacts.
        archives: Vec<String>,
    },
}

/// Whether a file is called as archives of artifacts are. These are compressed as a whole, so that nothing in them can be
/// read without what stands before it.
pub fn is_archive(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    [".tar", ".tar.zst", ".tar.xz", ".tar.gz"].iter().any(|end| name.ends_with(end))
}

/// Looks for manifests in a directory and in those directly below it. `None` if there are none.
pub fn find(directory: &Path) -> io::Result<Option<Found>> {
    if !directory.is_dir() {
        return Ok(None);
    }
    if directory.join(MANIFEST).is_file() {
        return Ok(Some(Found::One));
    }
    let mut artifacts = BTreeMap::new();
    let mut others = Vec::new();
    for (name, path) in directories(directory)? {
        if path.join(MANIFEST).is_file() {
            artifacts.insert(name, path);
        } else {
            others.push(name);
        }
    }
    let files = std::fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    let files = files.iter().filter(|path| is_archive(path) && path.is_file());
    let mut archives: Vec<_> =
        files.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned())).collect();
    archives.sort();
    let is_empty = artifacts.is_empty() && archives.is_empty();
    Ok((!is_empty).then_some(Found::Several { artifacts, others, archives }))
}

/// The directories directly below the directory of all shards, by name, which is the shard's.
pub fn shards(directory: &Path) -> io::Result<BTreeMap<String, PathBuf>> {
    directories(directory)
}

/// Names that begin with a dot are nobody's artifacts.
fn directories(directory: &Path) -> io::Result<BTreeMap<String, PathBuf>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if path.is_dir() && !name.starts_with('.') {
            found.insert(name, path);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{Found, find};

    #[test]
    fn artifacts_are_told_by_their_manifests() {
        let place = tempfile::tempdir().unwrap();
        assert_eq!(find(place.path()).unwrap(), None);
        for name in ["blas_lib_gfx1100", "fft_lib_generic", "notes"] {
            fs::create_dir(place.path().join(name)).unwrap();
        }
        assert_eq!(find(place.path()).unwrap(), None);
        fs::write(place.path().join("blas_lib_gfx1100/artifact_manifest.txt"), "").unwrap();
        fs::write(place.path().join("rand_lib_gfx1100.tar.zst"), "").unwrap();
        let Some(Found::Several { artifacts, others, archives }) = find(place.path()).unwrap() else { panic!() };
        assert_eq!(archives, ["rand_lib_gfx1100.tar.zst"]);
        assert_eq!(artifacts.into_keys().collect::<Vec<_>>(), ["blas_lib_gfx1100"]);
        assert_eq!(others, ["fft_lib_generic", "notes"]);
        assert_eq!(find(&place.path().join("blas_lib_gfx1100")).unwrap(), Some(Found::One));
        assert_eq!(find(&place.path().join("missing")).unwrap(), None);
    }
}
