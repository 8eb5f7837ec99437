//! A bundle that is open: how its code objects can be read now.

use std::sync::Arc;

use super::Decompressed;
use crate::memory::{Lent, OpenStream};

/// What a code object is read from.
#[derive(Default)]
pub enum OpenBundle {
    /// The whole bundle, decompressed.
    Whole(Arc<Decompressed>),
    /// A stream of it, unless somebody reads that now.
    Stream(Option<Lent<OpenStream>>),
    /// There is no compressed bundle.
    #[default]
    None,
}
