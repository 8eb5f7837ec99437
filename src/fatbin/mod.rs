//! Device code: offload bundles, compressed or not, and the code objects in them.
//!
//! A bundle is taken from where a wrapper points; payload is never searched for magics, since device code may contain
//! them.
//!
//! It does not know host binaries: a content and the place of a bundle in it are given to it.

mod bundle;
mod compressed;
mod header;
mod kernels;
mod open;
mod packing;
mod search;
mod stored;
mod thin;

use std::fmt;
use std::sync::Arc;

use crate::gpu::TargetId;
use crate::rope::{Content, ReadError};

pub use bundle::{Bundle, MAGIC_SIZE, bundle_size, is_bundle, read_bundle};
pub use compressed::{Compressed, DECODER, Decompressed};
pub use header::{CODE_HEADER, code_problem, code_target, is_code, is_processor, tells_features};
pub use kernels::{CodeScan, Kernel, Scanned};
pub use open::OpenBundle;
pub use packing::{CompressedFormat, Method, WINDOW_LOG, window_of};
pub use search::{Effort, search};
pub use stored::StoredObject;
pub use thin::{
    BundlePart, BundleParts, CODE_ALIGNMENT, COMPRESSION, COMPRESSION_LEVEL, ThinBundle, bundle_of, bundle_table_size,
};

/// Code for one target.
#[derive(Clone)]
pub struct CodeObject {
    /// What it runs on.
    pub target: TargetId,
    /// Its bytes, as they were in the bundle. May be empty.
    pub content: Arc<dyn Content>,
    /// The compressed bundle that has to be decompressed to read it, if there is one.
    pub bundle: Option<Arc<Compressed>>,
    /// Where it begins in the decompressed bundle, in bytes; 0 without one.
    pub offset: u64,
}

impl fmt::Debug for CodeObject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "CodeObject({}, {} bytes)", self.target, self.content.size())
    }
}

/// Why an offload bundle cannot be understood.
#[derive(Debug, thiserror::Error)]
pub enum FatbinError {
    /// What the wrapper points at is no bundle, or a broken one.
    #[error("offload bundle at {offset:#x}: {reason}")]
    Malformed {
        /// File offset of the bundle.
        offset: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// The file's bytes cannot be had.
    #[error(transparent)]
    Read(#[from] ReadError),
}

#[cfg(test)]
mod tests;
