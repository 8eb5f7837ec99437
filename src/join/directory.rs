//! Directories of wheels.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::DirEntry;
use std::path::{Path, PathBuf};

use super::archives::some_of;
use crate::disk;
use crate::gpu::begins_device_part;
use crate::source::SourceError;
use crate::wheel::may_be_signature;

/// The wheels that a command is given.
#[derive(Debug, Default)]
pub struct GivenWheels {
    /// Their paths.
    pub wheels: Vec<PathBuf>,
    /// What else is in the directories of wheels, for the user.
    pub notes: Vec<String>,
    /// What in them cannot be used, for the user.
    pub warnings: Vec<String>,
}

/// Names of directories at the top of an install tree, of a split and of a split installation.
const OF_TREES: [&str; 6] = ["bin", "lib", "lib64", "host", ".kpack", ".kpackfs"];

/// Suffixes of files with code.
const CODE: [&str; 6] = ["so", "dll", "exe", "kpack", "hsaco", "co"];

/// Endings of the pages and METADATA of an index, which may be next to wheels.
const OF_INDEX: [&str; 3] = ["json", "html", "metadata"];

impl GivenWheels {
    /// All wheels that these inputs are or contain; `None` if one is neither a wheel nor a directory of wheels.
    pub fn of(inputs: &[PathBuf]) -> Result<Option<Self>, SourceError> {
        let mut all = Self::default();
        for input in inputs {
            if has_extension(input, "whl") && input.is_file() {
                all.wheels.push(input.clone());
                continue;
            }
            let Some(directory) = Self::in_directory(input)? else { return Ok(None) };
            all.wheels.extend(directory.wheels);
            all.notes.extend(directory.notes);
            all.warnings.extend(directory.warnings);
        }
        Ok(Some(all))
    }

    /// The wheels of a directory of wheels: one that has wheels, and nothing that makes it a tree. What else is in it is
    /// left out. `None` for anything else.
    pub fn in_directory(directory: &Path) -> Result<Option<Self>, SourceError> {
        let io = |source| SourceError::Io { path: directory.to_owned(), source };
        if !directory.is_dir() {
            return Ok(None);
        }
        let mut found = Self::default();
        let mut others = BTreeSet::new();
        for entry in std::fs::read_dir(directory).map_err(io)? {
            let entry = entry.map_err(io)?;
            match examine(&entry) {
                WheelNeighbour::OfTree => return Ok(None),
                WheelNeighbour::Wheel => found.wheels.push(entry.path()),
                WheelNeighbour::BesideWheels => {}
                WheelNeighbour::Other => drop(others.insert(entry.file_name().to_string_lossy().into_owned())),
                WheelNeighbour::Unusable(reason) => {
                    found.warnings.push(format!("{}: left out, since it is {reason}", entry.path().display()));
                }
            }
        }
        if found.wheels.is_empty() {
            return Ok(None);
        }
        found.wheels.sort();
        found.warnings.sort();
        if !others.is_empty() {
            let names = some_of(&others.iter().map(String::as_str).collect());
            found.notes.push(format!("{}: left out, since only its wheels are used: {names}", directory.display()));
        }
        Ok(Some(found))
    }
}

/// The wheels of a directory of wheels; none for anything else.
pub fn wheels_in(directory: &Path) -> Result<Vec<PathBuf>, SourceError> {
    Ok(GivenWheels::in_directory(directory)?.unwrap_or_default().wheels)
}

/// What an entry of a directory is for its wheels.
enum WheelNeighbour {
    Wheel,
    /// It is of an index, or a signature, which are read with the wheel that they are of.
    BesideWheels,
    /// The directory is a tree.
    OfTree,
    Other,
    /// Reading it would wait, or lead out of the directory.
    Unusable(&'static str),
}

fn examine(entry: &DirEntry) -> WheelNeighbour {
    let (path, name) = (entry.path(), entry.file_name());
    if path.is_dir() {
        return if is_of_tree(&name) { WheelNeighbour::OfTree } else { hidden_or_other(&name) };
    }
    if CODE.iter().any(|wanted| has_extension(&path, wanted)) || name.to_string_lossy().contains(".so.") {
        return WheelNeighbour::OfTree;
    }
    if may_be_signature(&path) || OF_INDEX.iter().any(|wanted| has_extension(&path, wanted)) {
        return WheelNeighbour::BesideWheels;
    }
    // Copies from macOS have a hidden file next to each file, with its name (`._x.whl`).
    if !has_extension(&path, "whl") || name.as_encoded_bytes().starts_with(b"._") {
        let is_special = entry.file_type().is_ok_and(|kind| !kind.is_file() && !kind.is_symlink());
        return if is_special { WheelNeighbour::Unusable("no file") } else { hidden_or_other(&name) };
    }
    match disk::beside(&path) {
        Some(_) => WheelNeighbour::Wheel,
        None if path.is_symlink() => {
            WheelNeighbour::Unusable("a symlink that leads out of its directory; put a copy there")
        }
        None => WheelNeighbour::Unusable("no file"),
    }
}

fn is_of_tree(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.ends_with(b".dist-info") || begins_device_part(name) || OF_TREES.iter().any(|tree| name == tree.as_bytes())
}

fn hidden_or_other(name: &OsStr) -> WheelNeighbour {
    if name.as_encoded_bytes().starts_with(b".") { WheelNeighbour::BesideWheels } else { WheelNeighbour::Other }
}

fn has_extension(path: &Path, wanted: &str) -> bool {
    path.extension().is_some_and(|extension| extension == wanted)
}
