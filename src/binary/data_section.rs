//! The roles of sections in which device code may be.

use std::ops::Range;

/// A section that may hold device code.
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
    /// Code for NVIDIA's GPUs.
    Nvidia,
}
