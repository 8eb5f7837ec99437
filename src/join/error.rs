//! Why several inputs cannot be used together.

use std::path::PathBuf;

use crate::rope::ReadError;
use crate::source::{OnePath, SourceError};
use crate::wheel::WheelError;

/// Why several inputs cannot be used together.
#[derive(Debug, thiserror::Error)]
pub enum WheelsError {
    /// One of them cannot be listed.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// One of them cannot be used.
    #[error("{}: {source}", path.display())]
    Wheel { path: PathBuf, source: WheelError },
    /// One of them is not a wheel.
    #[error("{}: of several inputs each has to be a wheel, packed or not, and this is none", .0.display())]
    NotAWheel(PathBuf),
    /// Two are wheels of the same distribution.
    #[error("{} and {}: both are {name}; name one of them", first.display(), second.display())]
    Twice { first: PathBuf, second: PathBuf, name: String },
    /// One requires another version of one of the others.
    #[error("{}: it requires {name} {wanted}, and {} is version {found}", path.display(), other.display())]
    Version {
        /// The wheel.
        path: PathBuf,
        /// The required distribution.
        name: String,
        /// The required version.
        wanted: String,
        /// The wheel of that distribution.
        other: PathBuf,
        /// Its version.
        found: String,
    },
    /// One is unrelated to the others.
    #[error("{}: it neither requires one of the other wheels in exactly one version, nor does one of them require it so; name those that belong together, or write an index of all (split --format index)", .0.display())]
    Unrelated(PathBuf),
    /// Two install different files at one path.
    #[error(transparent)]
    OnePath(#[from] OnePath),
    /// Bytes cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}
