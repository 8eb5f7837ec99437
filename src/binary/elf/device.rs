//! The locations of device code and of its wrappers.

use std::ops::Range;

/// The device code and the segment that maps it.
#[derive(Clone, Debug)]
pub(super) struct MappedDevice {
    /// Offsets of the device code.
    pub(super) offsets: Range<u64>,
    /// Index of the program header of the segment that maps it.
    pub(super) load: usize,
}

/// Device code and its wrappers.
pub(super) struct WrappedCode {
    /// Index of the section with the device code, if the file has section headers.
    pub(super) section: Option<usize>,
    pub(super) places: Vec<WrapperPlace>,
    pub(super) device: MappedDevice,
    /// Virtual addresses of the device code.
    pub(super) addresses: Range<u64>,
}

/// The location of a wrapper: file offset and virtual address.
pub(super) struct WrapperPlace {
    pub(super) offset: u64,
    pub(super) address: u64,
}

impl WrapperPlace {
    /// The address of the pointer: the third field, after two of four bytes.
    pub(super) fn pointer(&self) -> u64 {
        self.address.wrapping_add(8)
    }
}
