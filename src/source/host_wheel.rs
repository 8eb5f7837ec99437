//! A host wheel with its device wheels, laid over each other.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;

use super::entry::Entry;
use super::path::EntryPath;

/// A host wheel, and what its device wheels hold. The entries of the input are those of all of them.
#[derive(Debug)]
pub struct HostWheel {
    /// Its `*.dist-info` directory. The input has none of the device wheels'.
    pub dist_info: EntryPath,
    /// The device wheels, in the order in which they were given.
    pub devices: Vec<DeviceWheel>,
    /// The paths of files that a device wheel has as well, with the same content.
    pub shared: BTreeSet<EntryPath>,
    /// Paths at which two device wheels have different files. The input has the first one.
    pub conflicts: BTreeMap<EntryPath, OnePath>,
}

/// A device wheel, with its files where they are installed.
#[derive(Debug)]
pub struct DeviceWheel {
    /// Its path.
    pub location: PathBuf,
    /// The device part that its distribution is named after: `gfx942`.
    pub part: String,
    /// Its requirements on distributions other than the host wheel and its device wheels, each on one line.
    pub requires: Vec<String>,
    /// Its files and symlinks, also those of its `*.dist-info` directory.
    pub files: Vec<Entry>,
}

/// Two wheels install different files at one path.
#[derive(Clone, Debug, thiserror::Error)]
#[error(
    "{} and {}: {reason} at {installed:?}, where both are installed; give the files different names",
    first.display(),
    second.display()
)]
pub struct OnePath {
    /// A wheel.
    pub first: PathBuf,
    /// Another one.
    pub second: PathBuf,
    /// The path in the installation.
    pub installed: EntryPath,
    /// The difference.
    pub reason: &'static str,
}

impl HostWheel {
    /// The paths of files that only device wheels hold.
    pub(crate) fn held(&self) -> HashSet<&EntryPath> {
        let files = self.devices.iter().flat_map(|device| &device.files).map(|file| &file.path);
        files.filter(|path| !self.shared.contains(path)).collect()
    }
}
