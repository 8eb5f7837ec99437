//! Device code: offload bundles, compressed or not, and the code objects in them.
//!
//! A bundle is read where a wrapper points to. Payload is never searched for magics, since device code may contain
//! them.
//!
//! It does not know host binaries. Its callers provide a content and the location of a bundle in it.
//!
//! ```
//! use std::sync::Arc;
//!
//! use kpackfs::fatbin::{CodeObject, bundle_of, read_bundle};
//! use kpackfs::resources::Resources;
//! use kpackfs::rope::{Content, Rope, Segment};
//!
//! let code = |target: &str, bytes: &'static [u8]| -> Result<CodeObject, Box<dyn std::error::Error>> {
//!     Ok(CodeObject::new(target.parse()?, Arc::new(Rope::new([Segment::literal(bytes)])?)))
//! };
//! let bundle: Arc<dyn Content> = Arc::new(bundle_of(&[code("gfx90a", b"code for an MI200")?, code("gfx1100", b"and for an RX 7900")?])?);
//!
//! // Only the table is read; the contents of code objects are ranges of the bundle.
//! let objects = read_bundle(&bundle, 0, bundle.size(), &Resources::new(64 << 20))?;
//! let sizes: Vec<_> = objects.iter().map(|object| (object.target.to_string(), object.content.size())).collect();
//! assert_eq!(sizes, [("gfx90a".to_owned(), 17), ("gfx1100".to_owned(), 18)]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bundle;
mod code_file;
mod compressed;
mod damage;
mod decoder;
mod entry_id;
mod equal;
mod error;
mod first_block;
mod frames;
mod header;
mod kernels;
mod open;
mod packing;
mod pinned;
mod slice;
mod stored;
mod thin;

use std::sync::Arc;

use crate::gpu::TargetId;
use crate::rope::{Content, ExtentSource};

pub(crate) use bundle::is_plain_bundle;
pub use bundle::{Bundle, MAGIC_SIZE, bundle_size, is_bundle, read_bundle};
pub(crate) use code_file::{CodeFile, begins_code, damage_after_head, damage_for, damage_of_file};
pub(crate) use compressed::{Compressed, DECODER};
pub(crate) use entry_id::EntryTargets;
pub(crate) use equal::BundleClaims;
pub use error::FatbinError;
pub(crate) use frames::{
    ANY_SIZE, MAX_FRAME_HEADER, frame_length, from_first_frame, header_at, in_frames, is_skipped_frame,
};
use header::of_target;
pub(crate) use header::{
    BITCODE, CODE_BEGINNING, CodeDamage, code_damage, damage_by_beginning, end_by_beginning, end_of_cubin, is_bitcode,
    is_code, tells_features,
};
pub use header::{CODE_HEADER, code_problem, code_target, loaded_code_problem};
pub(crate) use kernels::{CodeScan, Kernel, Scanned};
pub(crate) use open::OpenBundle;
pub(crate) use packing::{CompressedFormat, Method, WINDOW_LOG, content_size, is_absurd, window_of};
pub(crate) use pinned::{Decompressed, Pinned};
pub(crate) use stored::StoredObject;
pub use thin::bundle_of;
pub(crate) use thin::{
    BundlePart, BundleParts, CODE_ALIGNMENT, COMPRESSION, COMPRESSION_LEVEL, ThinBundle, bundle_table_size,
};

/// Code for one target.
#[derive(Clone, derive_more::Debug)]
#[debug("CodeObject({target}, {} bytes)", content.size())]
pub struct CodeObject {
    /// The target that it runs on.
    pub target: TargetId,
    /// Its bytes as they are in the bundle. May be empty.
    pub content: Arc<dyn Content>,
    /// The compressed bundle that has to be decompressed to read it, if any.
    pub(crate) bundle: Option<Arc<Compressed>>,
    /// Its offset in bytes: in the decompressed bundle, or without one in the file; 0 if it is in neither.
    pub(crate) offset: u64,
}

impl CodeObject {
    /// A code object outside of compressed bundles.
    pub fn new(target: TargetId, content: Arc<dyn Content>) -> Self {
        Self { target, content, bundle: None, offset: 0 }
    }

    /// Whether it is in a compressed bundle, or in a file that is inflated to be read.
    pub(crate) fn is_packed(&self) -> bool {
        let extents = self.content.extents(0, self.content.size());
        self.bundle.is_some() || extents.iter().any(|extent| matches!(extent.source, ExtentSource::Read))
    }

    /// The target in its header; `None` if that names none, or cannot be read.
    fn header_target(&self) -> Option<TargetId> {
        code_target(&self.content.beginning(CODE_HEADER).ok()?)
    }

    /// Its target and why nothing can load it, if it is damaged.
    fn damage(self) -> Option<(Option<TargetId>, String)> {
        let damage = code_damage(&*self.content, Some(&self.target))?;
        let reason = of_target(&self.target, &damage);
        Some((Some(self.target), reason))
    }

    /// Bytes of the compressed bundle that reading it decompresses, if any.
    pub fn decompressed_size(&self) -> Option<u64> {
        self.bundle.as_ref().map(|bundle| bundle.size())
    }
}

#[cfg(test)]
mod tests;
