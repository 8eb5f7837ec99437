//! Bundles one after the other, as they are in a section.

use super::BinaryError;
use super::changes::PatchPiece;
use crate::fatbin::CODE_ALIGNMENT;

/// Bytes that HIP reads from the beginning of a bundle, whatever its length (`hip_fatbin.cpp` of CLR).
pub(super) const READ_BY_HIP: u64 = 4096;

/// Consecutive bundles, as they are in a section.
#[derive(Debug)]
pub(super) struct BundleLayout {
    /// For each bundle, its offset in the section and its length.
    pub(super) bundles: Vec<(u64, u64)>,
    /// Bytes of the section.
    pub(super) size: u64,
}

impl BundleLayout {
    /// Places bundles of these lengths. The section begins at a multiple of [`CODE_ALIGNMENT`].
    pub(super) fn new(lengths: impl Iterator<Item = u64>) -> Result<Self, BinaryError> {
        let too_large = || BinaryError::unsupported("its device code is too large");
        let (mut layout, mut end) = (Self { bundles: Vec::new(), size: 0 }, 0_u64);
        for length in lengths {
            let start = end.checked_next_multiple_of(CODE_ALIGNMENT).ok_or_else(too_large)?;
            end = start.checked_add(length).ok_or_else(too_large)?;
            layout.size = end.max(start.saturating_add(READ_BY_HIP));
            layout.bundles.push((start, length));
        }
        if layout.size > i64::MAX.unsigned_abs() / 4 { Err(too_large()) } else { Ok(layout) }
    }

    /// The bundles, with zeros between them and after them up to `length`.
    pub(super) fn pieces(&self, length: u64) -> Vec<PatchPiece> {
        let (mut pieces, mut at) = (Vec::new(), 0);
        for (number, &(start, length)) in self.bundles.iter().enumerate() {
            pieces.extend([PatchPiece::Zeros(start - at), PatchPiece::Made { number, length }]);
            at = start + length;
        }
        pieces.push(PatchPiece::Zeros(length.saturating_sub(at)));
        pieces.retain(|piece| !matches!(piece, PatchPiece::Zeros(0) | PatchPiece::Made { length: 0, .. }));
        pieces
    }
}
