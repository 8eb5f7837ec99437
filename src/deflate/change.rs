//! The bytes that edits really change. An edit that replaces a table with another one of the same length may change
//! only a few entries.

use crate::rope::{Content, Edit, ReadError, Rope, Segment, to_usize};

/// The longest distance that a match can reach back (RFC 1951, section 2).
pub(super) const WINDOW: u64 = 32 << 10;

/// Bytes read at a time.
const PIECE: u64 = 128 << 10;

/// Bytes compared at a time.
const GRAIN: usize = 256;

/// A range of the original that is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ChangedRange {
    /// First byte of the original.
    pub(super) start: u64,
    /// The byte after the last one; `start` for an insertion.
    pub(super) end: u64,
    /// Number of bytes that replace it.
    pub(super) added: u64,
}

/// The changes in the order of the original. `edits` have been checked against it.
pub(super) fn changes(original: &dyn Content, edits: &[Edit]) -> Result<Vec<ChangedRange>, ReadError> {
    let mut changes = Vec::with_capacity(edits.len());
    for edit in edits {
        let added = edit.replacement.iter().map(Segment::length).sum();
        if edit.end - edit.start == added {
            compare(original, edit, &mut changes)?;
        } else {
            changes.push(ChangedRange { start: edit.start, end: edit.end, added });
        }
    }
    changes.sort_unstable();
    Ok(changes)
}

/// Adds the differences of an edit that keeps the length. Equal ranges shorter than a block's history cannot be reused,
/// and count as changed.
fn compare(original: &dyn Content, edit: &Edit, changes: &mut Vec<ChangedRange>) -> Result<(), ReadError> {
    let replacement = Rope::new(edit.replacement.iter().cloned())?;
    let (mut old, mut new) = (Vec::new(), Vec::new());
    let mut last: Option<ChangedRange> = None;
    let mut at = edit.start;
    while at < edit.end {
        let length = to_usize((edit.end - at).min(PIECE));
        old.resize(length, 0);
        new.resize(length, 0);
        original.read_at(at, &mut old)?;
        replacement.read_at(at - edit.start, &mut new)?;
        for (old, new) in old.chunks(GRAIN).zip(new.chunks(GRAIN)) {
            let end = at + old.len() as u64;
            if old != new {
                match &mut last {
                    Some(last) if at - last.end < WINDOW => {
                        last.end = end;
                        last.added = end - last.start;
                    }
                    _ => changes.extend(last.replace(ChangedRange { start: at, end, added: end - at })),
                }
            }
            at = end;
        }
    }
    changes.extend(last);
    Ok(())
}
