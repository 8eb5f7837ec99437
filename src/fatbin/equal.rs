//! Compressed bundles that are equal byte for byte, such as those in wheels of one version for several Pythons.

use super::compressed::Compressed;
use super::packing::CompressedFormat;
use crate::rope::{ReadError, are_equal};

/// What is known of a bundle without reading it. Those of equal bundles are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BundleClaims {
    format: CompressedFormat,
    length: u64,
    size: u64,
}

impl Compressed {
    pub(crate) fn claims(&self) -> BundleClaims {
        let packing = self.packing;
        BundleClaims { format: packing.format, length: packing.length, size: packing.size }
    }

    /// Whether the compressed bytes of both are equal, so that they decompress to the same. If the other one is sound, so
    /// is this one.
    pub(crate) fn is_equal(&self, other: &Self) -> Result<bool, ReadError> {
        if self.claims() != other.claims() {
            return Ok(false);
        }
        let readers = [self, other].map(|bundle| bundle.content().reader(bundle.packing.start));
        if !are_equal(readers, self.packing.length)? {
            return Ok(false);
        }
        if other.damage.is_checked() {
            self.damage.note_checked();
        }
        Ok(true)
    }
}
