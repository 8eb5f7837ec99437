//! A compressed bundle that is decompressed in memory, or its beginning.

use std::ops::Deref;

use super::decoder::BundleDecoder;
use crate::memory::Pooled;
use crate::rope::ReadError;
use crate::sync::Arc;

/// A decompressed bundle in memory, or its beginning. Its buffer is reused after the last use.
pub(crate) type Decompressed = Pooled<Vec<u8>>;

/// A bundle in memory, as far as it was decompressed. It stays there as long as this value.
pub(crate) struct Pinned {
    pub(super) bytes: Arc<Decompressed>,
    /// Decodes the bytes that follow, into the same buffer.
    pub(super) decoder: Option<Box<BundleDecoder>>,
    /// Why no more can be decompressed.
    pub(super) error: Option<ReadError>,
}

impl Pinned {
    /// Shares the bytes. Only the original can be extended, when all shares are gone.
    pub(crate) fn share(&self) -> Self {
        Self::from(Arc::clone(&self.bytes))
    }

    /// The memory of the bytes.
    pub(crate) fn bytes(&self) -> &Arc<Decompressed> {
        &self.bytes
    }

    /// Whether more of the bundle can be decompressed without starting again.
    pub(crate) fn can_be_extended(&self) -> bool {
        self.decoder.is_some()
    }

    /// Whether decompressing it has failed.
    pub(crate) fn is_failed(&self) -> bool {
        self.error.is_some()
    }

    /// Why the bytes before `end` cannot be decompressed, if that is known.
    pub(crate) fn error_before(&self, end: u64) -> Option<&ReadError> {
        self.error.as_ref().filter(|_| end > self.len() as u64)
    }

    /// The bytes, which must reach `end`.
    pub(super) fn to(self, end: u64) -> Result<Arc<Decompressed>, ReadError> {
        if self.len() as u64 >= end {
            return Ok(self.bytes);
        }
        let out_of_range = || ReadError::OutOfRange { offset: 0, length: end, size: self.bytes.len() as u64 };
        Err(self.error.clone().unwrap_or_else(out_of_range))
    }
}

impl From<Arc<Decompressed>> for Pinned {
    fn from(bytes: Arc<Decompressed>) -> Self {
        Self { bytes, decoder: None, error: None }
    }
}

impl Deref for Pinned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}
