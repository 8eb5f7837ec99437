//! Compressed bundles that are equal byte for byte, such as those in wheels of one version for several Pythons.

use super::compressed::Compressed;
use super::packing::CompressedFormat;
use crate::rope::{ReadError, head_mut, to_usize};

/// Bytes that are compared at a time. Bundles that differ do so in their first bytes, where their tables are.
const PIECE: usize = 64 << 10;

/// What is known of a bundle without reading it. Those of equal bundles are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BundleClaims {
    format: CompressedFormat,
    length: u64,
    size: u64,
}

impl Compressed {
    pub(crate) fn claims(&self) -> BundleClaims {
        let &packing = self.packing();
        BundleClaims { format: packing.format, length: packing.length, size: packing.size }
    }

    /// Whether the compressed bytes of both are equal, so that they decompress to the same. If the other one is sound, so
    /// is this one.
    pub(crate) fn is_equal(&self, other: &Self) -> Result<bool, ReadError> {
        if self.claims() != other.claims() {
            return Ok(false);
        }
        let [mut mine, mut others] = [self, other].map(|bundle| bundle.content().reader(bundle.packing().start));
        let [mut left, mut right] = [vec![0; PIECE], vec![0; PIECE]];
        let mut rest = self.packing().length;
        while rest > 0 {
            let length = to_usize(rest).min(PIECE);
            let (left, right) = (head_mut(&mut left, length), head_mut(&mut right, length));
            mine.read(left)?;
            others.read(right)?;
            if left != right {
                return Ok(false);
            }
            rest -= length as u64;
        }
        if other.damage.is_checked() {
            self.damage.note_checked();
        }
        Ok(true)
    }
}
