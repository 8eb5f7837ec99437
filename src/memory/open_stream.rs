//! A decoder that is kept where its last reader left it.

use std::io::Read;

/// A decoder and its position. The default value is one that nobody can continue.
#[derive(Default)]
pub struct OpenStream {
    /// What it decodes, as a number given by [`Resources::next_id`](crate::resources::Resources::next_id).
    pub id: u64,
    /// Decoded bytes that were read.
    pub at: u64,
    /// Gives the bytes behind these.
    pub reader: Option<Box<dyn Read + Send>>,
}
