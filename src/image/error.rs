//! Why an image cannot be read.

use std::path::PathBuf;

use crate::rope::ReadError;
use crate::source::SourceError;

/// Why an image cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error.
        source: std::io::Error,
    },
    /// A document cannot be read.
    #[error("{}: {source}", path.display())]
    Unread {
        /// The file.
        path: PathBuf,
        /// The error.
        source: ReadError,
    },
    /// The directory or the archive is no layout.
    #[error("{}: not an OCI image layout: {reason}; skopeo copy docker://IMAGE oci:DIR:TAG makes one", path.display())]
    NotALayout {
        /// The directory or the archive.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A document cannot be used.
    #[error("{}: not a usable {what}: {reason}", path.display())]
    Document {
        /// The file.
        path: PathBuf,
        /// What it should be.
        what: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// There are more documents than are read.
    #[error("{}: not a usable image index: more than {most} documents, or nested more than {deepest} times", path.display())]
    TooManyDocuments {
        /// The document at which the limit was reached.
        path: PathBuf,
        /// The most documents.
        most: usize,
        /// The deepest nesting.
        deepest: usize,
    },
    /// A blob is not what its descriptor says.
    #[error("{}: {reason}; get the image again", path.display())]
    Blob {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// There is no such image in the layout.
    #[error("{}: {wanted}; there are {existing}", path.display())]
    NoSuchImage {
        /// The layout.
        path: PathBuf,
        /// What was looked for.
        wanted: String,
        /// What there is.
        existing: String,
    },
    /// A media type that is not understood.
    #[error("{what}: the media type {media_type:?} is not one of {expected}")]
    MediaType {
        /// What has it: a digest.
        what: String,
        /// The type.
        media_type: String,
        /// Those that are understood.
        expected: &'static str,
    },
    /// A member makes a layer unusable.
    #[error("layer {layer}: member {member:?}: {reason}")]
    Member {
        /// The digest of the layer.
        layer: String,
        /// The name of the member.
        member: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A layer cannot be read.
    #[error("layer {layer}: {source}")]
    Layer {
        /// The digest of the layer.
        layer: String,
        /// The error.
        source: SourceError,
    },
    /// What later layers hide cannot be examined.
    #[error("files that later layers hide: {reason}")]
    Hidden {
        /// Why not.
        reason: String,
    },
    /// A file of the input cannot be opened.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A file cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}
