//! The form that replaces a binary's device code: a marker that names archives, bundles with less code, or, in a split
//! binary, all bundles again.

use std::collections::BTreeMap;
use std::ops::Range;

use super::BinaryError;
use super::changes::{Patch, PatchPiece};
use super::wrapper::{FATBIN_WRAPPER_MAGIC, HIPK_MAGIC, WrapperFields};
use crate::fatbin::{BundlePart, CODE_ALIGNMENT, ThinBundle};

/// Bytes that HIP reads from the beginning of a bundle, whatever its length (`hip_fatbin.cpp` of CLR).
const READ_BY_HIP: u64 = 4096;

/// A bundle of a binary, and its replacement.
#[derive(Clone, Debug)]
pub struct Replaced {
    /// Its offset in the file.
    pub offset: u64,
    /// The replacement.
    pub bundle: ThinBundle,
    /// Bytes of the compressed replacement with its header, if it is compressed. If that does not fit, the bundle stays
    /// whole.
    pub compressed: Option<u64>,
    /// Bytes available for it.
    pub slot: u64,
}

/// A form of device code.
#[derive(Debug)]
pub(super) struct CodeForm {
    kind: FormKind,
    front: Vec<PatchPiece>,
    /// Bytes of the form.
    pub(super) size: u64,
}

#[derive(Debug)]
enum FormKind {
    /// All wrappers lead to the marker.
    Host,
    /// For each bundle, by its old file offset: its new offset from the beginning of the device code.
    Thin(BTreeMap<u64, u64>),
}

impl CodeForm {
    /// A marker.
    pub(super) fn marker(bytes: &[u8]) -> Self {
        Self { kind: FormKind::Host, front: vec![PatchPiece::literal(bytes)], size: bytes.len() as u64 }
    }

    /// Bundles in the order of their offsets. The device code is at `device` in the file and at `address` in memory.
    ///
    /// No bundle takes more than its slot or has a stricter alignment than before, so all of them fit.
    pub(super) fn thin(device: &Range<u64>, address: u64, bundles: &[Replaced]) -> Result<Self, BinaryError> {
        let mut form = Self { kind: FormKind::Thin(BTreeMap::new()), front: Vec::new(), size: 0 };
        let mut last = 0;
        let mut places = BTreeMap::new();
        for (number, replaced) in bundles.iter().enumerate() {
            let before = replaced.offset.checked_sub(device.start);
            let before = before.ok_or_else(|| BinaryError::malformed("a bundle lies outside of its device code"))?;
            let old = address.wrapping_add(before);
            let alignment = 1 << old.trailing_zeros().min(CODE_ALIGNMENT.ilog2());
            let padding = address.wrapping_add(form.size).wrapping_neg() & (alignment - 1);
            form.push(PatchPiece::Zeros(padding), padding);
            last = form.size;
            places.insert(replaced.offset, form.size);
            form.push_bundle(number, replaced);
        }
        let room = device.end - device.start;
        if form.size > room {
            let reason = format!("its device code takes {} bytes, and there are {room}", form.size);
            return Err(BinaryError::unsupported(reason));
        }
        let readable = last.saturating_add(READ_BY_HIP).min(room).saturating_sub(form.size);
        form.push(PatchPiece::Zeros(readable), readable);
        form.kind = FormKind::Thin(places);
        Ok(form)
    }

    fn push(&mut self, piece: PatchPiece, length: u64) {
        if length > 0 {
            self.front.push(piece);
            self.size = self.size.saturating_add(length);
        }
    }

    fn push_bundle(&mut self, number: usize, replaced: &Replaced) {
        match (&replaced.bundle, replaced.made()) {
            (ThinBundle::Compressed { .. }, Some(length)) => self.push(PatchPiece::Made { number, length }, length),
            (ThinBundle::Whole { length } | ThinBundle::Compressed { length, .. }, _) => {
                self.push(PatchPiece::Original { offset: replaced.offset, length: *length }, *length);
            }
            (ThinBundle::Raw(parts), _) => {
                for part in &parts.list {
                    match part {
                        BundlePart::Literal(bytes) => {
                            self.push(PatchPiece::literal(bytes.as_slice()), bytes.len() as u64);
                        }
                        BundlePart::Zeros(length) => self.push(PatchPiece::Zeros(*length), *length),
                        &BundlePart::Code { offset, length } => {
                            self.push(PatchPiece::Original { offset, length }, length);
                        }
                    }
                }
            }
        }
    }

    /// Whether device code is left in the file.
    pub(super) fn is_thin(&self) -> bool {
        matches!(self.kind, FormKind::Thin(_))
    }

    /// Offset, from the beginning of the old device code, to which a wrapper of the bundle at this file offset points.
    pub(super) fn place(&self, bundle: u64) -> Result<u64, BinaryError> {
        match &self.kind {
            FormKind::Host => Ok(0),
            FormKind::Thin(places) => {
                let place = places.get(&bundle).copied();
                place.ok_or_else(|| BinaryError::malformed("a wrapper points at an unknown bundle"))
            }
        }
    }

    /// For each bundle, in the order of old offsets: its offset in the device code before and after. `start` is the
    /// file offset of the device code.
    pub(super) fn moves(&self, start: u64) -> Vec<(u64, u64)> {
        match &self.kind {
            FormKind::Host => vec![(0, 0)],
            FormKind::Thin(places) => places.iter().map(|(old, new)| (old.saturating_sub(start), *new)).collect(),
        }
    }

    /// The wrapper's fields from its beginning on, with a pointer to `address`. A split wrapper has its index in a
    /// field that fat ones do not use; in a thin binary the field stays as it is.
    pub(super) fn wrapper(&self, index: usize, address: u64) -> Vec<u8> {
        match self.kind {
            FormKind::Host => WrapperFields::encode(HIPK_MAGIC, address, Some(index as u64)),
            FormKind::Thin(_) => WrapperFields::encode(FATBIN_WRAPPER_MAGIC, address, None),
        }
    }

    /// The changes that put the form and `behind` in place of the bytes `range`. Code that stays in place, or moves
    /// only because bytes before it are removed, is not part of any change. So its part of a deflate stream can be
    /// reused.
    pub(super) fn replace(&self, behind: Vec<PatchPiece>, range: Range<u64>) -> Vec<Patch> {
        let mut changes = Vec::new();
        let mut at = range.start;
        let mut replacement = Vec::new();
        for piece in self.front.iter().cloned().chain(behind) {
            match piece {
                PatchPiece::Original { offset, length }
                    if offset >= at && offset.saturating_add(length) <= range.end =>
                {
                    changes.push(Patch { start: at, end: offset, replacement: std::mem::take(&mut replacement) });
                    at = offset + length;
                }
                piece => replacement.push(piece),
            }
        }
        changes.push(Patch { start: at, end: range.end, replacement });
        changes.retain(|change| change.start < change.end || !change.replacement.is_empty());
        changes
    }
}

impl Replaced {
    /// Bytes of the compressed replacement, if they fit. They may not, because the original may be compressed at a
    /// higher level.
    pub(super) fn made(&self) -> Option<u64> {
        match &self.bundle {
            ThinBundle::Compressed { length, .. } => self.compressed.filter(|made| made <= length.max(&self.slot)),
            ThinBundle::Whole { .. } | ThinBundle::Raw(_) => None,
        }
    }
}

/// Consecutive bundles, as they are in a section.
#[derive(Debug)]
pub(super) struct BundleLayout {
    /// For each bundle, its offset in the section and its length.
    bundles: Vec<(u64, u64)>,
    /// For each wrapper, the offset of its bundle in the section.
    pub(super) wrappers: Vec<u64>,
    /// Bytes of the section.
    pub(super) size: u64,
}

impl BundleLayout {
    /// Places bundles of these lengths. `wrappers` has the number of each wrapper's bundle. The section begins at a
    /// multiple of [`CODE_ALIGNMENT`].
    pub(super) fn new(lengths: impl Iterator<Item = u64>, wrappers: &[usize]) -> Result<Self, BinaryError> {
        let too_large = || BinaryError::unsupported("its device code is too large");
        let (mut layout, mut end) = (Self { bundles: Vec::new(), wrappers: Vec::new(), size: 0 }, 0_u64);
        for length in lengths {
            let start = end.checked_next_multiple_of(CODE_ALIGNMENT).ok_or_else(too_large)?;
            end = start.checked_add(length).ok_or_else(too_large)?;
            layout.size = end.max(start.saturating_add(READ_BY_HIP));
            layout.bundles.push((start, length));
        }
        let place = |number: &usize| layout.bundles.get(*number).map(|(start, _)| *start);
        let missing = || BinaryError::malformed("a wrapper has no bundle");
        layout.wrappers = wrappers.iter().map(place).collect::<Option<_>>().ok_or_else(missing)?;
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
