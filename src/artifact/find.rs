//! The artifacts in a directory.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::manifest::manifest_path;
use super::{ArtifactName, MANIFEST};
use crate::gpu::begins_device_part;
use crate::source::{DirectoryListing, ListedEntry, ListedKind, has_member};

/// Artifacts that were found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FoundArtifacts {
    /// The path itself is an artifact: a directory, or a tar archive.
    One,
    /// The directory contains artifacts.
    Several {
        /// Directories with a manifest, and tar archives of artifacts, by name.
        artifacts: BTreeMap<String, PathBuf>,
        /// Names of directories without a manifest.
        others: Vec<String>,
        /// Names of other tar archives.
        archives: Vec<String>,
    },
}

impl FoundArtifacts {
    /// Whether there is any: any directory may have other tar archives.
    pub fn has_any(&self) -> bool {
        !matches!(self, Self::Several { artifacts, .. } if artifacts.is_empty())
    }
}

/// Suffixes of tar archives.
const ARCHIVES: [&str; 4] = [".tar", ".tar.zst", ".tar.xz", ".tar.gz"];

/// The name without the suffix of a tar archive; `None` if it has none.
pub fn name_of_archive(path: &Path) -> Option<&str> {
    let name = path.file_name()?.to_str()?;
    ARCHIVES.iter().find_map(|end| name.strip_suffix(end))
}

/// Whether a tar archive is an artifact, by its name and its manifest.
pub fn is_packed_artifact(archive: &Path) -> bool {
    name_of_archive(archive).is_some_and(names_family) && may_have_manifest(archive)
}

/// Whether a name is that of an artifact for a family of GPUs, or for all.
fn names_family(name: &str) -> bool {
    ArtifactName::parse(name).is_some_and(|name| name.is_generic() || begins_device_part(name.family.as_bytes()))
}

/// Whether a tar archive has a manifest. Of one that cannot be read to its end, opening it tells.
fn may_have_manifest(archive: &Path) -> bool {
    has_member(archive, &manifest_path()).ok().flatten() != Some(false)
}

/// Finds artifacts in a directory, or recognises a file as one. `None` if there are none.
pub fn find(path: &Path) -> io::Result<Option<FoundArtifacts>> {
    if path.is_dir() {
        return Ok(find_in(&DirectoryListing::list(path)?));
    }
    Ok((path.is_file() && is_packed_artifact(path)).then_some(FoundArtifacts::One))
}

/// Finds artifacts in a directory: manifests in it and directly below it, and tar archives of artifacts. An
/// unpacked artifact takes precedence over an archive of the same name. `None` if there are none.
pub fn find_in(directory: &DirectoryListing) -> Option<FoundArtifacts> {
    if directory.has(MANIFEST, ListedKind::File) {
        return Some(FoundArtifacts::One);
    }
    let (mut artifacts, mut others) = (BTreeMap::new(), Vec::new());
    for (name, path) in directories(directory) {
        if path.join(MANIFEST).is_file() {
            artifacts.insert(name, path);
        } else {
            others.push(name);
        }
    }
    // Tar archives next to wheels are sdists, unless they have the name of a family.
    let has_wheels = directory.entries.iter().any(|entry| entry.has_extension("whl"));
    let may_be_artifact =
        |name: &str| if has_wheels { names_family(name) } else { ArtifactName::parse(name).is_some() };
    let mut archives = Vec::new();
    for file in directory.entries.iter().filter(|entry| entry.kind == ListedKind::File) {
        let path = directory.path.join(&file.name);
        let Some(name) = name_of_archive(&path) else { continue };
        if artifacts.contains_key(name) {
            continue;
        }
        if may_be_artifact(name) && may_have_manifest(&path) {
            artifacts.insert(name.to_owned(), path.clone());
        } else {
            archives.push(file.name.to_string_lossy().into_owned());
        }
    }
    let is_empty = artifacts.is_empty() && (archives.is_empty() || has_wheels);
    (!is_empty).then_some(FoundArtifacts::Several { artifacts, others, archives })
}

/// The shards in `directory` by name: its subdirectories.
pub fn shards(directory: &Path) -> io::Result<BTreeMap<String, PathBuf>> {
    Ok(directories(&DirectoryListing::list(directory)?).collect())
}

fn directories(directory: &DirectoryListing) -> impl Iterator<Item = (String, PathBuf)> {
    let path = |entry: &ListedEntry| directory.path.join(&entry.name);
    directory.directories().map(move |entry| (entry.name.to_string_lossy().into_owned(), path(entry)))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{FoundArtifacts, find};

    #[test]
    fn artifacts_are_told_by_their_manifests() {
        let place = tempfile::tempdir().unwrap();
        assert_eq!(find(place.path()).unwrap(), None);
        for name in ["blas_lib_gfx1100", "fft_lib_generic", "notes"] {
            fs::create_dir(place.path().join(name)).unwrap();
        }
        assert_eq!(find(place.path()).unwrap(), None);
        fs::write(place.path().join("blas_lib_gfx1100/artifact_manifest.txt"), "").unwrap();
        for name in ["rand_lib_gfx1100.tar.zst", "blas_lib_gfx1100.tar.xz", "notes.tar", "rand_lib_unknown.tar"] {
            fs::write(place.path().join(name), "").unwrap();
        }
        let Some(FoundArtifacts::Several { artifacts, others, archives }) = find(place.path()).unwrap() else {
            panic!()
        };
        assert_eq!(archives, ["notes.tar"]);
        let found: Vec<_> = artifacts.iter().map(|(name, path)| (name.as_str(), path.is_dir())).collect();
        assert_eq!(found, [("blas_lib_gfx1100", true), ("rand_lib_gfx1100", false), ("rand_lib_unknown", false)]);
        assert_eq!(find(&place.path().join("rand_lib_unknown.tar")).unwrap(), Some(FoundArtifacts::One));
        assert_eq!(find(&place.path().join("rand_lib_gfx1100.tar.zst")).unwrap(), Some(FoundArtifacts::One));
        assert_eq!(find(&place.path().join("notes.tar")).unwrap(), None);
        assert_eq!(others, ["fft_lib_generic", "notes"]);
        assert_eq!(find(&place.path().join("blas_lib_gfx1100")).unwrap(), Some(FoundArtifacts::One));
        assert_eq!(find(&place.path().join("missing")).unwrap(), None);
        let wheels = tempfile::tempdir().unwrap();
        fs::write(wheels.path().join("x-1.0.tar.gz"), "").unwrap();
        assert!(find(wheels.path()).unwrap().is_some());
        fs::write(wheels.path().join("x-1.0-py3-none-any.whl"), "").unwrap();
        assert_eq!(find(wheels.path()).unwrap(), None);
    }
}
