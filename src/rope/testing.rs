//! Contents for tests.

use std::sync::Arc;

use super::{Content, Rope, Segment};

/// These bytes, in memory.
pub(crate) fn literal(bytes: impl AsRef<[u8]>) -> Arc<dyn Content> {
    Arc::new(Rope::new([Segment::literal(bytes.as_ref())]).unwrap())
}
