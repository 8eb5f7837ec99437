//! The changes that turn a fat binary into a host or thin one, in a form that can be stored in the index.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use super::BinaryError;
use super::coff::{CHECKSUM_SIZE, computed_checksum};
use super::elf::Symbols;
use crate::rope::{Content, Edit, ReadError, Rope, Segment, edited};

/// Replaces the bytes `start..end` of the original. Like an [`Edit`], but without contents.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Patch {
    /// First byte that is replaced.
    pub(super) start: u64,
    /// The byte after the last one that is replaced.
    pub(super) end: u64,
    /// The bytes in its place.
    pub(super) replacement: Vec<PatchPiece>,
}

/// A part of a replacement.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum PatchPiece {
    /// These bytes.
    Literal(ByteBuf),
    /// This many zeros.
    Zeros(u64),
    /// `length` bytes of the original from `offset` on.
    Original { offset: u64, length: u64 },
    /// A symbol table of the original with changed symbols.
    Symbols(Symbols),
    /// The checksum of the resulting image.
    Checksum,
    /// `length` bytes that are made when they are read. `number` is an index in the list of contents that is passed
    /// when edits are built.
    Made { number: usize, length: u64 },
}

impl PatchPiece {
    pub(super) fn literal(bytes: impl Into<Vec<u8>>) -> Self {
        Self::Literal(ByteBuf::from(bytes))
    }
}

impl Patch {
    /// Overwrites the bytes at `start`; the length stays.
    pub(super) fn overwrite(start: u64, bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = bytes.into();
        Self { start, end: start.saturating_add(bytes.len() as u64), replacement: vec![PatchPiece::literal(bytes)] }
    }

    /// Replaces a symbol table.
    pub(super) fn symbols(symbols: Symbols) -> Self {
        let range = symbols.range();
        Self { start: range.start, end: range.end, replacement: vec![PatchPiece::Symbols(symbols)] }
    }

    /// Removes `start..end`.
    pub(super) fn cut(start: u64, end: u64) -> Self {
        Self { start, end, replacement: Vec::new() }
    }
}

/// Bytes of the original's headers and tables that changes hold in memory.
pub(super) fn literal_bytes(changes: &[Patch]) -> u64 {
    let pieces = changes.iter().flat_map(|change| &change.replacement);
    pieces.map(|piece| if let PatchPiece::Literal(bytes) = piece { bytes.len() as u64 } else { 0 }).sum()
}

/// The changes as edits of `original`, with `made` for [`PatchPiece::Made`]. Fails if they do not fit `original`.
pub(super) fn edits(
    original: &Arc<dyn Content>,
    changes: &[Patch],
    made: &[Option<Arc<dyn Content>>],
) -> Result<Vec<Edit>, BinaryError> {
    let convert = |checksum: &Segment| -> Result<Vec<Edit>, ReadError> {
        let segment = |piece: &PatchPiece| match piece {
            PatchPiece::Literal(bytes) => Ok(Segment::literal(bytes.as_slice())),
            PatchPiece::Zeros(length) => Ok(Segment::zeros(*length)),
            PatchPiece::Original { offset, length } => Segment::range(Arc::clone(original), *offset, *length),
            PatchPiece::Symbols(symbols) => symbols.of(original),
            PatchPiece::Checksum => Ok(checksum.clone()),
            PatchPiece::Made { number, length } => {
                let made = made.get(*number).and_then(Option::as_ref).filter(|made| made.size() == *length);
                let missing = || ReadError::OutOfRange { offset: 0, length: *length, size: 0 };
                Ok(Segment::whole(Arc::clone(made.ok_or_else(missing)?)))
            }
        };
        let edit = |change: &Patch| {
            let replacement = change.replacement.iter().map(segment).collect::<Result<_, _>>()?;
            Ok(Edit { start: change.start, end: change.end, replacement })
        };
        changes.iter().map(edit).collect()
    };
    let without_checksum = convert(&Segment::zeros(CHECKSUM_SIZE))?;
    if !changes.iter().flat_map(|change| &change.replacement).any(|piece| matches!(piece, PatchPiece::Checksum)) {
        return Ok(without_checksum);
    }
    let checksum = computed_checksum(Arc::new(rope(original, without_checksum)?));
    Ok(convert(&Segment::whole(Arc::new(checksum)))?)
}

/// The result of `edits` on `original`.
pub(super) fn rope(original: &Arc<dyn Content>, edits: Vec<Edit>) -> Result<Rope, BinaryError> {
    edited(original, edits).map_err(|error| BinaryError::unsupported(error.to_string()))
}
