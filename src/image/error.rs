//! Why an image cannot be read.

use std::path::PathBuf;

use crate::rope::ReadError;
use crate::source::SourceError;

/// Why an image cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: std::io::Error },
    /// A document cannot be read.
    #[error("{}: {source}", path.display())]
    Unread { path: PathBuf, source: ReadError },
    /// The directory or the archive is no layout.
    #[error("{}: not an OCI image layout: {reason}; skopeo copy docker://IMAGE oci:DIR:TAG makes one", path.display())]
    NotALayout { path: PathBuf, reason: String },
    /// A document cannot be used.
    #[error("{}: not a usable {what}: {reason}", path.display())]
    Document { path: PathBuf, what: &'static str, reason: String },
    /// There are more documents than are read.
    #[error("{}: not a usable image index: more than {most} documents, or nested more than {deepest} times", path.display())]
    TooManyDocuments { path: PathBuf, most: usize, deepest: usize },
    /// A blob is not what its descriptor says.
    #[error("{}: {reason}; get the image again", path.display())]
    Blob { path: PathBuf, reason: String },
    /// There is no such image in the layout.
    #[error("{}: {wanted}; there are {existing}", path.display())]
    NoSuchImage { path: PathBuf, wanted: String, existing: String },
    /// A media type that is not understood.
    #[error("{what}: the media type {media_type:?} is not one of {expected}")]
    MediaType { what: String, media_type: String, expected: &'static str },
    /// A member makes a layer unusable.
    #[error("layer {layer}: member {member:?}: {reason}")]
    Member { layer: String, member: String, reason: String },
    /// A layer cannot be read.
    #[error("layer {layer}: {source}")]
    Layer { layer: String, source: SourceError },
    /// What later layers hide cannot be examined.
    #[error("files that later layers hide: {reason}")]
    Hidden { reason: String },
    /// A file of the input cannot be opened.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A file cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}
