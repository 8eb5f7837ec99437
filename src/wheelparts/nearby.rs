//! The extras of required distributions, as wheels and sdists next to the input declare them.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use tar::Archive;

use crate::disk;
use crate::memory::{Parser, WholeFile};
use crate::resources::Resources;
use crate::source::{EntryPath, Input};
use crate::wheel::{KnownExtras, Metadata, WheelName, normalise};

/// Memory for reading METADATA of another wheel, in bytes.
const MEMORY: u64 = 16 << 20;

/// The most bytes of an unpacked sdist before its PKG-INFO, which build backends write near the beginning.
const MAX_SDIST: u64 = 256 << 20;

/// The most files in the directory that are looked at, and the most that are read.
const MAX_FILES: usize = 10_000;
const MAX_READ: usize = 20;

/// Adds what files next to `input` state about the extras of distributions of which nothing is known. Returns warnings
/// about files that cannot be read.
pub(super) fn add_extras(input: &Path, metadata: &Metadata, known: &mut KnownExtras) -> Vec<String> {
    let wanted: Vec<_> = metadata.split_requirements().filter(|it| !known.has(it.name)).collect();
    let mut warnings = Vec::new();
    if wanted.is_empty() {
        return warnings;
    }
    let is_wanted = |name: &str, version: &str| {
        wanted.iter().any(|requirement| normalise(requirement.name) == name && requirement.accepts(version))
    };
    let named = files(input).into_iter().filter_map(|path| Some((distribution(&path)?, path)));
    for ((name, _), path) in named.filter(|((name, version), _)| is_wanted(name, version)).take(MAX_READ) {
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match read(&path) {
            Ok(metadata) if is_wanted(&normalise(&metadata.name), &metadata.version) => known.add(&metadata, &file),
            Ok(metadata) if normalise(&metadata.name) == name => {
                warnings.push(format!("{file}: not read, since it is version {}", metadata.version));
            }
            Ok(metadata) => warnings.push(format!("{file}: not read, since it is one of {}", metadata.name)),
            Err(error) => warnings.push(format!("{file}: {error}; its extras are not known")),
        }
    }
    warnings
}

/// The files next to the input, in the order of their names.
fn files(input: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(disk::parent(input)).into_iter().flatten().filter_map(Result::ok).take(MAX_FILES);
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).filter(|path| disk::beside(path).is_some()).collect();
    paths.sort();
    paths
}

/// The normalised name of the distribution and the version in the name of a wheel or an sdist (`name-version.tar.gz`).
fn distribution(path: &Path) -> Option<(String, String)> {
    let name = path.file_name()?.to_str()?;
    if let Some(stem) = name.strip_suffix(".tar.gz") {
        let (name, version) = stem.rsplit_once('-')?;
        return Some((normalise(name), version.to_owned()));
    }
    WheelName::parse(name).ok().map(|name| (normalise(&name.distribution), name.version))
}

fn read(path: &Path) -> Result<Metadata, String> {
    if path.extension().is_some_and(|it| it == "whl") {
        let input = Input::open(path, &Resources::new(MEMORY)).map_err(|error| error.to_string())?;
        return Metadata::read(&input).map_err(|error| error.to_string());
    }
    let bytes = package_info(path).map_err(|error| error.to_string())?;
    let name = EntryPath::new(b"PKG-INFO").map_err(|error| error.to_string())?;
    Metadata::parse(bytes, &name).map_err(|error| error.to_string())
}

/// `NAME-VERSION/PKG-INFO` of an sdist (PEP 517, PEP 643).
fn package_info(path: &Path) -> io::Result<Vec<u8>> {
    let (file, _) = disk::open(path)?;
    // Blocks may decode to nothing.
    let mut archive = Archive::new(MultiGzDecoder::new(file.take(MAX_SDIST)).take(MAX_SDIST));
    for entry in archive.entries()? {
        let entry = entry?;
        let is_info = {
            let path = entry.path_bytes();
            let mut parts = path.split(|&byte| byte == b'/').filter(|part| *part != b".");
            parts.nth(1) == Some(b"PKG-INFO") && parts.next().is_none()
        };
        if is_info {
            let size = entry.size();
            let read = |bytes: &mut Vec<u8>| -> io::Result<()> {
                bytes.clear();
                entry.take(size).read_to_end(bytes).map(drop)
            };
            return WholeFile::new(Parser::Metadata, size, read).map(WholeFile::into_bytes);
        }
    }
    Err(io::Error::other("there is no PKG-INFO in it"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use tar::{Builder, Header};

    use super::add_extras;
    use crate::source::EntryPath;
    use crate::wheel::{KnownExtras, Metadata};

    fn sdist(path: &Path, files: &[(&str, &str)]) {
        let mut builder = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        for (name, text) in files {
            let mut header = Header::new_gnu();
            header.set_size(text.len() as u64);
            header.set_mode(0o644);
            header.set_cksum();
            builder.append_data(&mut header, name, text.as_bytes()).unwrap();
        }
        fs::write(path, builder.into_inner().unwrap().finish().unwrap()).unwrap();
    }

    fn requirements(place: &Path, key: &str) -> (Vec<String>, Vec<String>) {
        let text = "Metadata-Version: 2.1\nName: demo\nVersion: 1\nRequires-Dist: rocm.sdk[libraries,device-all]==7\n";
        let path = EntryPath::new(b"METADATA").unwrap();
        let metadata = Metadata::parse(text.as_bytes().to_vec(), &path).unwrap();
        let mut known = KnownExtras::default();
        let warnings = add_extras(&place.join("demo-1-py3-none-any.whl"), &metadata, &mut known);
        (metadata.device_requirements(&key.parse().unwrap(), &known), warnings)
    }

    #[test]
    fn extras_of_an_sdist_next_to_the_input() {
        let place = tempfile::tempdir().unwrap();
        let info = |extra: &str| {
            format!("Metadata-Version: 2.2\nName: rocm_sdk\nVersion: 7\nProvides-Extra: libraries\n{extra}\n")
        };
        let unchecked = (vec!["rocm.sdk[device-gfx942]==7".to_owned()], Vec::new());
        assert_eq!(requirements(place.path(), "gfx942"), unchecked);
        let file = place.path().join("rocm_sdk-7.tar.gz");
        // One in a directory of the sources is not that of the sdist.
        let other = ("rocm_sdk-7/x.egg-info/PKG-INFO", "Name: x\n");
        sdist(&file, &[other, ("rocm_sdk-7/PKG-INFO", &info("Provides-Extra: device_gfx942\n"))]);
        assert_eq!(requirements(place.path(), "gfx942"), unchecked);
        assert_eq!(requirements(place.path(), "gfx1100"), (Vec::new(), Vec::new()));
        // Extras that are made when it is built may be there although they are not declared.
        sdist(&file, &[("rocm_sdk-7/PKG-INFO", &info("Dynamic: Provides-Extra\n"))]);
        assert_eq!(requirements(place.path(), "gfx942"), unchecked);
        fs::write(&file, "no archive").unwrap();
        let (found, warnings) = requirements(place.path(), "gfx942");
        assert_eq!((found, warnings.len()), (unchecked.0, 1), "{warnings:?}");
    }

    #[test]
    fn only_versions_that_are_required_count() {
        let place = tempfile::tempdir().unwrap();
        let info = |version: &str, extra: &str| {
            format!("Metadata-Version: 2.2\nName: rocm_sdk\nVersion: {version}\nProvides-Extra: {extra}\n")
        };
        let add = |file: &str, version: &str, extra: &str| {
            sdist(&place.path().join(file), &[("x/PKG-INFO", &info(version, extra))]);
        };
        add("rocm_sdk-6.0.tar.gz", "6.0", "device-gfx90a");
        add("rocm_sdk-7.1.tar.gz", "7.1", "device-gfx90a");
        let unchecked = vec!["rocm.sdk[device-gfx942]==7".to_owned()];
        assert_eq!(requirements(place.path(), "gfx942"), (unchecked.clone(), Vec::new()));
        add("rocm_sdk-7.tar.gz", "7.0", "device-gfx1100");
        assert_eq!(requirements(place.path(), "gfx942"), (Vec::new(), Vec::new()));
        // A file name may be wrong.
        add("rocm_sdk-7.tar.gz", "6.0", "device-gfx1100");
        let (found, warnings) = requirements(place.path(), "gfx942");
        assert_eq!((found, warnings.len()), (unchecked, 1), "{warnings:?}");
    }
}
