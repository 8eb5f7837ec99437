//! The roles of sections in which device code may be.

use std::ops::Range;

use crate::devicecode::DeviceForm;

/// A section, or bytes that no section describes.
#[derive(Debug)]
pub(super) struct DataSection {
    pub(super) role: DataRole,
    /// Its bytes in the file, as far as its header says.
    pub(super) range: Range<u64>,
}

/// What a section holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DataRole {
    /// Data of the program.
    Data,
    /// Bundles for wrappers.
    Bundles,
    /// Code of others, of this form.
    Foreign(DeviceForm),
    /// What only a tool has added: a section that is not loaded, or bytes that no section describes.
    Unloaded,
    /// Instructions, debug information, and what loaders and linkers read.
    Other,
}
