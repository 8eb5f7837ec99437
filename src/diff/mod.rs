//! The changes between two inputs: sizes, targets, code objects, kernels, members and metadata, as one model. `tables`
//! and the page render it.
//!
//! Code objects are equal if all of their bytes are. Kernels are equal if their names and their code sizes in the
//! symbol tables are: a new compiler changes every code object, but few kernels.

mod code;
mod compare;
mod gate;
mod inventory;
mod members;
mod metadata;
mod side;
mod tables;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

use crate::artifact::ManifestError;
use crate::metrics::Progress;
use crate::rope::ReadError;
use crate::source::SourceError;
use crate::split::SplitError;

use code::KernelNames;
use inventory::Inventory;

pub(crate) use gate::Gate;
pub(crate) use members::Members;
pub(crate) use metadata::MetadataChange;
pub(crate) use side::{InputForm, Settings, Side};
pub(crate) use tables::growth;

/// Why two inputs cannot be compared.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DiffError {
    /// An input cannot be listed.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// An artifact's manifest cannot be used.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// An input cannot be planned.
    #[error("{}: {source}", location.display())]
    Split {
        /// The input.
        location: PathBuf,
        /// The reason.
        source: SplitError,
    },
    /// A file cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A code object of an archive cannot be read.
    #[error("an archive: {0}")]
    Archive(String),
}

/// A number of things and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Amount {
    /// Their number.
    pub count: u64,
    /// Their bytes.
    pub size: u64,
}

/// A value before and after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Pair<T> {
    /// In the first input.
    pub before: T,
    /// In the second input.
    pub after: T,
}

/// Numbers of equal, changed, added and removed items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Changes {
    /// In both, and equal.
    pub same: Amount,
    /// In both, and different.
    pub changed: Pair<Amount>,
    /// In the second input only.
    pub came: Amount,
    /// In the first input only.
    pub went: Amount,
}

/// The change of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Change {
    /// Equal.
    Same,
    /// Different.
    Changed,
    /// Added.
    Came,
    /// Removed.
    Went,
}

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

impl Amount {
    fn add(&mut self, count: u64, size: u64) {
        self.count += count;
        self.size = self.size.saturating_add(size);
    }

    fn plus(mut self, other: Self) -> Self {
        self.add(other.count, other.size);
        self
    }
}

impl Changes {
    fn plus(self, other: Self) -> Self {
        Self {
            same: self.same.plus(other.same),
            changed: Pair {
                before: self.changed.before.plus(other.changed.before),
                after: self.changed.after.plus(other.changed.after),
            },
            came: self.came.plus(other.came),
            went: self.went.plus(other.went),
        }
    }
}

impl Change {
    /// The change of an item that exists or not on each side.
    fn of(before: bool, after: bool, is_equal: bool) -> Self {
        match (before, after) {
            (false, _) => Self::Came,
            (true, false) => Self::Went,
            (true, true) if is_equal => Self::Same,
            (true, true) => Self::Changed,
        }
    }

    /// The word for it in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Changed => "changed",
            Self::Came => "came",
            Self::Went => "went",
        }
    }
}

impl Diff {
    /// Reads all code objects of both inputs, and files that may be equal.
    pub(crate) fn of(before: &Side, after: &Side, progress: &Progress) -> Result<Self, DiffError> {
        let names = KernelNames::default();
        let inventories =
            Pair { before: Inventory::of(before, &names, progress)?, after: Inventory::of(after, &names, progress)? };
        compare::compare(Pair { before, after }, &inventories, &names, progress)
    }
}
