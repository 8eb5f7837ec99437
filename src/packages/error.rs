//! Why shards cannot be joined.

use std::fmt;
use std::path::PathBuf;

use super::artifacts::ArtifactError;
use crate::artifact::{ArtifactName, KpmError};
use crate::kpack::KpackError;
use crate::rope::ReadError;
use crate::source::{EntryPath, SourceError};

/// Why shards cannot be joined.
#[derive(Debug, thiserror::Error)]
pub enum RecombineError {
    /// A shard cannot be listed.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// An artifact of a shard cannot be used.
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
    /// The primary shard is missing, or has no host code.
    #[error("{}: no generic artifacts found in the primary shard {shard:?}; SHARDS, which should have it, has {}", place.display(), existing.join(", "))]
    NoPrimary { place: PathBuf, shard: String, existing: Vec<String> },
    /// `error_on_duplicate_device_code` is set, and two shards have code for one processor.
    #[error(
        "{first} and {second}: both are device code for {name}; take it out of one shard (--exclude-targets), or set \
         error_on_duplicate_device_code to false to use the first"
    )]
    Duplicate { name: ArtifactName, first: String, second: String },
    /// `error_on_left_out_host_code` is set, and host code would be left out.
    #[error(
        "{left_out}; make that shard the primary one, take this out of it, or set error_on_left_out_host_code to false to leave \
         it out"
    )]
    LeftOut { left_out: LeftOut },
    /// Two different files have one path in a package.
    #[error("{first} and {second}: they differ and would be the same file of {name}")]
    Conflict { name: ArtifactName, first: String, second: String },
    /// A file is at the path of a directory.
    #[error("{file} and {directory}: a file and a directory would have one place in {name}; take one out of its shard")]
    NotADirectory { name: ArtifactName, file: String, directory: String },
    /// `verify_generic_artifacts_match` is set, and host code differs.
    #[error(
        "{first} and {second}: {reason}; verify_generic_artifacts_match wants all shards to have the same host code"
    )]
    GenericMismatch { first: String, second: String, reason: &'static str },
    /// `error_on_missing_architecture` is set, and no shard has a part.
    #[error("{}: group {group} of {} wants {name}, which no shard there has", place.display(), config.display())]
    Missing { place: PathBuf, config: PathBuf, name: ArtifactName, group: String },
    /// A `.kpm` manifest cannot be used.
    #[error("{file}: {source}")]
    Kpm { file: String, source: KpmError },
    /// An archive cannot be used.
    #[error("{file}: {source}")]
    Archive { file: String, source: KpackError },
    /// Bytes cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Host code of a shard that the primary shard lacks.
#[derive(Debug)]
pub struct LeftOut {
    pub(super) artifact: String,
    pub(super) primary: String,
    /// The number of files, and one of them.
    pub(super) files: (usize, EntryPath),
    /// Whether the primary shard has any of the component.
    pub(super) has_component: bool,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { artifact, primary, files: (count, one), .. } = self;
        let (these, them) = if *count == 1 {
            (format!("{one} is"), "it")
        } else {
            (format!("{count} files such as {one} are"), "them")
        };
        let lack = if self.has_component {
            format!("does not have {them}")
        } else {
            "does not have this component".to_owned()
        };
        write!(
            formatter,
            "{artifact}: {these} host code that no package would have: the primary shard {primary:?} {lack}"
        )
    }
}
