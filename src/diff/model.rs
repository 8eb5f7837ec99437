//! The result of `diff`.

use std::collections::BTreeMap;

use serde::Serialize;

use super::amount::{Amount, Change, Changes, Pair};
use super::gate::Gate;
use super::members::Members;
use super::metadata::MetadataChange;
use super::side::InputForm;

/// The result of `diff`. `docs/json.md` describes it as JSON.
#[derive(Debug, Serialize)]
pub(crate) struct Diff {
    /// The inputs.
    pub inputs: Pair<Head>,
    /// Name, version, requirements and extras, if both are wheels.
    pub metadata: Option<MetadataChange>,
    /// Downloads: `all`, and for each GPU.
    pub downloads: BTreeMap<String, Download>,
    /// Device code and databases by target.
    pub targets: BTreeMap<String, TargetChange>,
    /// Top-level directories, largest change first.
    pub packages: Vec<PackageChange>,
    /// Libraries with device code, largest change first.
    pub libraries: Vec<LibraryChange>,
    /// Kernel databases by library and key.
    pub databases: BTreeMap<String, BTreeMap<String, Pair<Amount>>>,
    /// Code objects by digest.
    pub code_objects: Changes,
    /// Kernels by symbol.
    pub kernels: Changes,
    /// Code objects whose symbols could not be read.
    pub unread_symbols: Pair<u64>,
    /// Kernels that differ, largest change first.
    pub changed_kernels: Vec<KernelChange>,
    /// Number of those that are not listed.
    pub more_changed_kernels: usize,
    /// Files and symlinks.
    pub members: Members,
    /// The limit on growth, if one was given.
    pub gate: Option<Gate>,
    /// What could not be compared, with reasons.
    pub warnings: Vec<String>,
}

/// An input as a whole.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Head {
    /// Its file name.
    pub name: String,
    /// Its form.
    pub form: InputForm,
    /// Files and symlinks.
    pub files: Amount,
    /// Bytes of the host part.
    pub host_size: u64,
    /// Code objects.
    pub code: Amount,
    /// Files of kernel databases.
    pub databases: Amount,
}

/// The size of a download.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Download {
    /// Bytes in the first input.
    pub before: Option<u64>,
    /// Bytes in the second one.
    pub after: Option<u64>,
    /// Whether the sizes are estimates.
    pub is_estimate: bool,
}

/// A target.
#[derive(Debug, Default, Serialize)]
pub(crate) struct TargetChange {
    /// Code objects for it.
    pub code: Pair<Amount>,
    /// Files of databases for it.
    pub databases: Pair<Amount>,
    /// Its code objects by digest.
    pub code_objects: Changes,
    /// Its kernels by symbol.
    pub kernels: Changes,
}

/// A top-level directory.
#[derive(Debug, Default, Serialize)]
pub(crate) struct PackageChange {
    /// Its name; `.` for files outside of directories.
    pub name: String,
    /// Files and symlinks.
    pub files: Pair<Amount>,
    /// Bytes in the host part.
    pub host_size: Pair<u64>,
    /// Code objects of its libraries.
    pub code: Pair<Amount>,
    /// Files of databases.
    pub databases: Pair<Amount>,
}

/// A library with device code.
#[derive(Debug, Serialize)]
pub(crate) struct LibraryChange {
    /// Its path.
    pub path: String,
    /// The change.
    pub change: Change,
    /// Bytes of the file.
    pub size: Pair<Option<u64>>,
    /// Bytes in the host part.
    pub host_size: Pair<Option<u64>>,
    /// Its code objects by target.
    pub targets: BTreeMap<String, Pair<Amount>>,
    /// Its code objects by digest.
    pub code_objects: Changes,
    /// Its kernels by symbol.
    pub kernels: Changes,
}

/// A kernel, summed up over the targets for which it differs.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct KernelChange {
    /// The library.
    pub library: String,
    /// Its symbol, without `.kd`.
    pub name: String,
    /// The change.
    pub change: Change,
    /// The targets.
    pub targets: Vec<String>,
    /// Its number and the bytes of its code before.
    pub before: Amount,
    /// Its number and the bytes of its code after.
    pub after: Amount,
}
