//! Content as a rope: an immutable list of segments whose total length is known when it is built.
//!
//! A file's size has to be exact before its first byte is made. Tools that trust `st_size` are silently wrong
//! otherwise. So planning fixes lengths, and reading copies ranges.
//!
//! It imports no other room: a source is whatever implements [`Content`].
//!
//! ```
//! use std::sync::Arc;
//!
//! use kpackfs::rope::{Content, Edit, ReadError, Rope, Segment, edited};
//!
//! let segments = [Segment::literal(*b"Hello, "), Segment::zeros(3), Segment::literal(*b"!")];
//! let text: Arc<dyn Content> = Arc::new(Rope::new(segments)?);
//! assert_eq!(text.size(), 11);
//!
//! // A changed copy has the same segments but for what is changed.
//! let changed = edited(&text, vec![Edit::replace(7, 10, *b"world")])?;
//! assert_eq!(changed.to_vec()?, b"Hello, world!");
//!
//! let mut bytes = [0; 5];
//! changed.read_at(7, &mut bytes)?;
//! assert_eq!(&bytes, b"world");
//! assert!(matches!(changed.read_at(9, &mut bytes), Err(ReadError::OutOfRange { .. })));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bounds;
mod content;
mod edit;
mod error;
mod extent;
mod identity;
mod lazy;
mod read;
mod segments;
mod sha256;
mod slice;
mod xxh3;

pub use bounds::SizeBounds;
pub use content::{BlockBoundary, Content, InOrderReader, InPassing, Materialize, Packed, PackedContent};
pub use edit::{Edit, EditError, edited};
pub use error::ReadError;
pub(crate) use error::{reason_at, with_causes};
pub use extent::{Backing, Extent, ExtentSource};
pub use identity::{Identifier, Identity};
pub use lazy::LazyContent;
pub(crate) use read::{are_equal, in_pieces};
pub use read::{equal, read_all, read_range};
pub use segments::{Rope, Segment};
pub use sha256::Sha256;
pub use slice::{check_range, copy_from};
pub(crate) use slice::{head, head_mut, tail, to_usize};
pub use xxh3::Xxh3;

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
