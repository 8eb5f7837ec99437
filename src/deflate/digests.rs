//! Digests of the content that a stream is made of, read in its order.

use std::ops::Range;

use crate::metrics::Counters;
use crate::rope::{Content, ReadError, Sha256, read_range};

/// The digests so far.
#[derive(Default)]
pub(crate) struct StreamDigests {
    sha256: Sha256,
    crc32: crc32fast::Hasher,
}

impl StreamDigests {
    /// Adds the next bytes.
    pub(super) fn update(&mut self, piece: &[u8]) {
        self.sha256.update(piece);
        self.crc32.update(piece);
    }

    /// Adds the next bytes, which are a range of a content.
    pub(super) fn read(&mut self, content: &dyn Content, range: Range<u64>) -> Result<(), ReadError> {
        read_range(content, range, |piece| self.update(piece))
    }

    /// The SHA-256. Fails if the CRC-32 differs from the one combined for the stream.
    pub(super) fn finish(self, crc32: u32, counters: &Counters, size: u64) -> Result<[u8; 32], ReadError> {
        counters.bytes_hashed.add(size);
        if self.crc32.finalize() != crc32 {
            return Err(ReadError::damaged(
                &"deflate stream".into(),
                "a part of it has another CRC-32 than it had before",
            ));
        }
        Ok(self.sha256.finish())
    }
}
