//! A place in a deflate stream where decoding can start.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::rope::BlockBoundary;

/// See the [module](self). The default is the beginning of a stream.
#[derive(Debug, Default)]
pub(super) struct Checkpoint {
    /// Its block boundary.
    pub(super) boundary: BlockBoundary,
    /// The content before it, up to 32 KiB, as a zstd frame. Empty at the beginning of the stream.
    pub(super) window: Box<[u8]>,
    /// Whether the window is known to be right. A window from a stored index is not, until it was checked.
    verified: AtomicBool,
}

impl Checkpoint {
    pub(super) fn new(boundary: BlockBoundary, window: Box<[u8]>, is_verified: bool) -> Self {
        Self { boundary, window, verified: AtomicBool::new(is_verified) }
    }

    pub(super) fn is_verified(&self) -> bool {
        self.window.is_empty() || self.verified.load(Ordering::Relaxed)
    }

    pub(super) fn set_verified(&self) {
        self.verified.store(true, Ordering::Relaxed);
    }
}
