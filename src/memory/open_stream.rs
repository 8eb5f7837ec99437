//! A decoder that waits at the position where its last reader stopped.

use std::io::Read;

/// A decoder and its position. The default value has no reader.
#[derive(Default)]
pub struct OpenStream {
    /// What it decodes, as a number given by [`Resources::next_id`](crate::resources::Resources::next_id).
    pub id: u64,
    /// Decoded bytes that were read.
    pub at: u64,
    /// Reads the bytes that follow.
    pub reader: Option<Box<dyn Read + Send>>,
}
