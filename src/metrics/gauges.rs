//! Memory in use, by class.

use serde::Serialize;

/// Classes of memory, in the order in which a thread may reserve them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryClass {
    /// Decompressed offload bundles, and compressed bundles while they are read.
    Bundles,
    /// Code objects that are being compressed, and compression contexts.
    Compression,
    /// The cache of compressed code objects.
    Frames,
    /// The cache of inflated pieces of members.
    Spans,
    /// Indexes of deflate streams, decoders, and headers of bundles captured while a member is first inflated.
    Streams,
}

/// Bytes in use now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Gauges {
    /// The budget.
    pub capacity: u64,
    /// See [`MemoryClass::Bundles`].
    pub bundles: u64,
    /// See [`MemoryClass::Compression`].
    pub compression: u64,
    /// See [`MemoryClass::Frames`].
    pub frames: u64,
    /// See [`MemoryClass::Spans`].
    pub spans: u64,
    /// See [`MemoryClass::Streams`].
    pub streams: u64,
    /// What parsers keep of the input: in addition to the budget, and at most half of it.
    pub tables: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Gauges {
        /// All bytes in use.
        pub(crate) fn total(&self) -> u64 {
            self.buffers() + self.frames + self.spans + self.streams
        }

        /// Bytes in use for work. Zero when nothing has happened for a while.
        pub(crate) fn buffers(&self) -> u64 {
            self.bundles + self.compression
        }
    }
}
