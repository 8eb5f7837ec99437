//! A changed copy of a content: the unchanged ranges and, between them, what replaces the others.

use std::sync::Arc;

use super::{Content, ReadError, Rope, Segment};

/// Replaces the bytes `start..end` of a content by other segments, or by nothing.
#[derive(Clone, Debug)]
pub struct Edit {
    /// First byte that is replaced.
    pub start: u64,
    /// The byte after the last one that is replaced; `start` to insert only.
    pub end: u64,
    /// The bytes in its place. Their number may differ.
    pub replacement: Vec<Segment>,
}

impl Edit {
    /// Overwrites the bytes at `start` with as many others.
    pub fn patch(start: u64, bytes: impl Into<Arc<[u8]>>) -> Self {
        let segment = Segment::literal(bytes);
        Self { start, end: start.saturating_add(segment.length()), replacement: vec![segment] }
    }

    /// Replaces `start..end` with `bytes`.
    pub fn replace(start: u64, end: u64, bytes: impl Into<Arc<[u8]>>) -> Self {
        Self { start, end, replacement: vec![Segment::literal(bytes)] }
    }

    /// Removes `start..end`.
    pub fn cut(start: u64, end: u64) -> Self {
        Self { start, end, replacement: Vec::new() }
    }
}

/// Why a list of edits cannot be applied.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// Two edits touch the same byte.
    #[error("two changes overlap at byte {0}")]
    Overlap(u64),
    /// An edit lies outside of the content that it changes.
    #[error(transparent)]
    Range(#[from] ReadError),
}

/// Applies `edits` to `content`. Their offsets are those of the *original* content. Their order matters only among
/// insertions at the same offset.
pub fn edited(content: &Arc<dyn Content>, mut edits: Vec<Edit>) -> Result<Rope, EditError> {
    edits.sort_by_key(|edit| (edit.start, edit.end));
    let mut segments = Vec::with_capacity(edits.len() * 2 + 1);
    let mut at = 0;
    for edit in edits {
        if edit.start < at {
            return Err(EditError::Overlap(edit.start));
        }
        if edit.end < edit.start || edit.end > content.size() {
            let length = edit.end.saturating_sub(edit.start);
            return Err(ReadError::OutOfRange { offset: edit.start, length, size: content.size() }.into());
        }
        segments.push(Segment::range(Arc::clone(content), at, edit.start - at)?);
        segments.extend(edit.replacement);
        at = edit.end;
    }
    segments.push(Segment::range(Arc::clone(content), at, content.size() - at)?);
    Ok(Rope::new(segments)?)
}
