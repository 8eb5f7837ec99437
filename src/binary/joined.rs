//! A split binary with its device code put back.
//!
//! The result is a fat binary as compilers make it: wrappers have the magic HIPF and the index 0, and each leads to a
//! bundle. Everything else keeps its address. The result is scanned like any other fat binary before it is used.

use std::sync::Arc;

use super::changes::{self, Patch, PatchPiece};
use super::{BinaryError, FATBIN_WRAPPER_MAGIC, FatBinary, coff, elf};
use crate::fatbin::CODE_ALIGNMENT;
use crate::rope::{Content, Rope, head_mut, to_usize};

/// Bytes that HIP reads from the beginning of a bundle, whatever its length (`hip_fatbin.cpp` of CLR).
const READ_BY_HIP: u64 = 4096;

/// Consecutive bundles, as they are in a section.
#[derive(Debug)]
pub(super) struct Placed {
    /// For each bundle, its offset in the section and its length.
    pub(super) bundles: Vec<(u64, u64)>,
    /// Bytes of the section.
    pub(super) size: u64,
}

impl Placed {
    /// Places bundles of these lengths. The section begins at a multiple of [`CODE_ALIGNMENT`].
    fn new(lengths: impl Iterator<Item = u64>) -> Result<Self, BinaryError> {
        let too_large = || BinaryError::unsupported("its device code is too large");
        let (mut placed, mut end) = (Self { bundles: Vec::new(), size: 0 }, 0_u64);
        for length in lengths {
            let start = end.checked_next_multiple_of(CODE_ALIGNMENT).ok_or_else(too_large)?;
            end = start.checked_add(length).ok_or_else(too_large)?;
            placed.size = end.max(start.saturating_add(READ_BY_HIP));
            placed.bundles.push((start, length));
        }
        if placed.size > i64::MAX.unsigned_abs() / 4 { Err(too_large()) } else { Ok(placed) }
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

/// The fields of a wrapper that leads to a bundle at `address`.
pub(super) fn wrapper(address: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(24);
    bytes.extend(FATBIN_WRAPPER_MAGIC.to_le_bytes());
    bytes.extend(1_u32.to_le_bytes());
    bytes.extend(address.to_le_bytes());
    bytes.extend(0_u64.to_le_bytes());
    bytes
}

/// The split binary `content` with these bundles, one for each wrapper.
pub fn join(content: &Arc<dyn Content>, bundles: &[Arc<dyn Content>]) -> Result<Arc<dyn Content>, BinaryError> {
    let mut magic = [0; 4];
    content.peek(head_mut(&mut magic, to_usize(content.size()).min(4)))?;
    let placed = Placed::new(bundles.iter().map(|bundle| bundle.size()))?;
    let changes: Vec<Patch> =
        if magic == object::elf::ELFMAG { elf::join(content, &placed)? } else { coff::join(content, &placed)? };
    let made: Vec<_> = bundles.iter().map(|bundle| Some(Arc::clone(bundle))).collect();
    let rope: Rope = changes::rope(content, changes::edits(content, &changes, &made)?)?;
    let joined: Arc<dyn Content> = Arc::new(rope);
    check(&joined, &placed)?;
    Ok(joined)
}

/// Fails unless the file is a fat binary in which each wrapper leads to its own bundle.
fn check(joined: &Arc<dyn Content>, placed: &Placed) -> Result<(), BinaryError> {
    let wrong = |reason: String| BinaryError::unsupported(format!("its device code cannot be put back: {reason}"));
    let fat = FatBinary::scan(joined).map_err(|error| wrong(error.to_string()))?;
    let found = fat.map(|fat| fat.wrappers()).unwrap_or_default();
    let start = found.first().map_or(0, |wrapper| wrapper.bundle);
    let expected = placed.bundles.iter().map(|(place, _)| start.checked_add(*place));
    if found.len() == placed.bundles.len() && found.iter().map(|it| Some(it.bundle)).eq(expected) {
        return Ok(());
    }
    Err(wrong("its wrappers would not lead there".to_owned()))
}
