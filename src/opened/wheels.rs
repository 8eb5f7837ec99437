//! Directories of wheels, and package indexes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::disk;
use crate::gpu::begins_device_part;
use crate::source::{DirectoryListing, ListedEntry, ListedKind, SourceError};
use crate::split::{SIMPLE, WHEELS};
use crate::text::some_of;
use crate::wheel::may_be_signature;

/// The wheels of a directory.
#[derive(Clone, Debug, Default)]
pub struct WheelDirectory {
    /// Their paths, sorted.
    pub wheels: Vec<PathBuf>,
    /// Further wheels of the same names in other directories of an index, which are to be the same wheels.
    pub copies: Vec<PathBuf>,
    /// What else is in it, for the user.
    pub notes: Vec<String>,
    /// What in it cannot be used, for the user.
    pub warnings: Vec<String>,
    /// Whether it is a package index.
    pub is_index: bool,
}

/// Names of directories at the top of an install tree, of a split and of a split installation.
const OF_TREES: [&str; 6] = ["bin", "lib", "lib64", "host", ".kpack", ".kpackfs"];

/// Suffixes of files with code.
const CODE: [&str; 6] = ["so", "dll", "exe", "kpack", "hsaco", "co"];

/// Endings of the pages and METADATA of an index, which may be next to wheels.
const OF_INDEX: [&str; 3] = ["json", "html", "metadata"];

/// The page of a package index, and of each project in it (Python Packaging User Guide, "Simple repository API").
const PAGE: &str = "index.html";

impl WheelDirectory {
    /// The wheels of a directory of wheels: one that has wheels, and nothing that makes it a tree. What else is in it is
    /// left out. `None` for anything else.
    pub(super) fn of(listing: &DirectoryListing) -> Option<Self> {
        let mut found = Self::default();
        let mut others = BTreeSet::new();
        for entry in &listing.entries {
            let path = listing.path.join(&entry.name);
            match examine(entry, &path) {
                WheelNeighbour::OfTree => return None,
                WheelNeighbour::Wheel => found.wheels.push(path),
                WheelNeighbour::BesideWheels => {}
                WheelNeighbour::Other => drop(others.insert(entry.name.to_string_lossy().into_owned())),
                WheelNeighbour::Unusable(reason) => {
                    found.warnings.push(format!("{}: left out, since it is {reason}", path.display()));
                }
            }
        }
        if found.wheels.is_empty() {
            return None;
        }
        if !others.is_empty() {
            let names = some_of(&others);
            found.notes.push(format!("{}: left out, since only its wheels are used: {names}", listing.path.display()));
        }
        Some(found)
    }

    /// The wheels in a package index, or in a directory that contains one and no other directory: those of its projects,
    /// and those next to its pages.
    pub(super) fn of_index(listing: &DirectoryListing) -> Result<Option<Self>, SourceError> {
        let has_page = |listing: &DirectoryListing| listing.has(PAGE, ListedKind::File);
        let is_above = !has_page(listing) && matches!(listing.directory_names().as_slice(), [only] if only == SIMPLE);
        let below = is_above.then(|| DirectoryListing::read(&listing.path.join(SIMPLE))).transpose()?;
        let root = below.as_ref().unwrap_or(listing);
        let is_tree =
            |entry: &ListedEntry| matches!(examine(entry, &root.path.join(&entry.name)), WheelNeighbour::OfTree);
        if !has_page(root) || root.entries.iter().any(is_tree) {
            return Ok(None);
        }
        let projects = root.directories().map(|project| DirectoryListing::read(&root.path.join(&project.name)));
        let projects = projects.collect::<Result<Vec<_>, _>>()?;
        if !projects.iter().any(has_page) {
            return Ok(None);
        }
        let above = below.as_ref().map(|_| listing);
        let places = above.into_iter().chain([root]).chain(&projects);
        let mut names = BTreeSet::new();
        let wheels = places.flat_map(|place| place.files("whl"));
        let (wheels, copies): (Vec<_>, Vec<_>) =
            wheels.partition(|wheel| names.insert(wheel.file_name().map(ToOwned::to_owned)));
        Ok((!wheels.is_empty()).then(|| Self { wheels, copies, is_index: true, ..Self::default() }))
    }
}

/// Whether a directory may be an unpacked wheel: it has one `*.dist-info` directory.
pub fn is_unpacked_wheel(directory: &Path) -> Result<bool, SourceError> {
    Ok(DirectoryListing::read(directory)?.dist_infos().count() == 1)
}

/// A wheel in a tree or an installation, of which it is no part: in its directory, or in `wheels/`.
pub fn wheel_in_tree(tree: &Path) -> Result<Option<PathBuf>, SourceError> {
    let top = DirectoryListing::read_if_directory(tree)?;
    let has_below = top.has(WHEELS, ListedKind::Directory);
    let below = has_below.then(|| DirectoryListing::read(&tree.join(WHEELS))).transpose()?;
    for listing in std::iter::once(top).chain(below) {
        if let Some(wheel) = listing.files("whl").next() {
            return Ok(Some(wheel));
        }
    }
    Ok(None)
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

fn examine(entry: &ListedEntry, path: &Path) -> WheelNeighbour {
    let name = entry.name.as_encoded_bytes();
    if entry.kind == ListedKind::Directory {
        return if is_of_tree(name) { WheelNeighbour::OfTree } else { hidden_or_other(name) };
    }
    if CODE.iter().any(|wanted| entry.has_extension(wanted)) || entry.name.to_string_lossy().contains(".so.") {
        return WheelNeighbour::OfTree;
    }
    if may_be_signature(path) || OF_INDEX.iter().any(|wanted| entry.has_extension(wanted)) {
        return WheelNeighbour::BesideWheels;
    }
    if !entry.has_extension("whl") || entry.is_of_macos() {
        let is_special = entry.kind == ListedKind::Other && !entry.is_symlink;
        return if is_special { WheelNeighbour::Unusable("no file") } else { hidden_or_other(name) };
    }
    match (entry.kind, entry.is_symlink) {
        (ListedKind::File, false) => WheelNeighbour::Wheel,
        (_, true) if disk::beside(path).is_some() => WheelNeighbour::Wheel,
        (_, true) => WheelNeighbour::Unusable("a symlink that leads out of its directory; put a copy there"),
        _ => WheelNeighbour::Unusable("no file"),
    }
}

fn is_of_tree(name: &[u8]) -> bool {
    name.ends_with(b".dist-info") || begins_device_part(name) || OF_TREES.iter().any(|tree| name == tree.as_bytes())
}

fn hidden_or_other(name: &[u8]) -> WheelNeighbour {
    if name.starts_with(b".") { WheelNeighbour::BesideWheels } else { WheelNeighbour::Other }
}
