//! Records of an open index. Large records are only in the file, except while planning needs them.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::records::{Record, RecordKind};

/// Records of at least this many bytes are dropped from memory once they are saved, and read again on demand. Reading one
/// takes as long as reading the index.
pub(super) const LARGE: usize = 64 << 10;

/// A record of an open index.
#[derive(Debug)]
pub(super) struct IndexState {
    /// The last day on which a session used it, in days since 1970.
    pub(super) day: u32,
    pub(super) length: u64,
    /// `None` if only the file has it.
    pub(super) bytes: Option<Arc<[u8]>>,
    /// Whether this session used it.
    pub(super) used: AtomicBool,
    /// Whether the bytes are large and in the file as well, so that they leave when they have been asked for.
    pub(super) leaves: bool,
}

/// Whether planning looks up such records, once, at the beginning of every session.
fn is_for_planning(kind: u8) -> bool {
    kind == RecordKind::Plain as u8 || kind == RecordKind::Scan as u8
}

impl IndexState {
    /// A record that was read from the file.
    pub(super) fn stored(record: Record) -> Self {
        let Record { kind, day, bytes, .. } = record;
        let (length, is_large) = (bytes.len() as u64, bytes.len() >= LARGE);
        let bytes = (!is_large || is_for_planning(kind)).then_some(bytes);
        Self { day, length, bytes, used: AtomicBool::new(false), leaves: is_large }
    }
}
