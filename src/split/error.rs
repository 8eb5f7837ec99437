//! Why an input cannot be split.

use std::path::PathBuf;

use crate::gpu::{BundleKey, doubt};
use crate::rope::ReadError;
use crate::source::{EntryPath, OnePath};

/// Number of files and directories in all views together. The largest ROCm wheels have some hundred thousand.
pub(super) const MAX_SHOWN: usize = 8 << 20;

/// A group name that cannot be part of a file name.
#[derive(Debug, thiserror::Error)]
#[error("--group {0:?}: a group is a name of up to 100 letters, digits, \"_\", \"-\", \"+\" and inner \".\"")]
pub struct GroupError(pub(super) String);

/// Why an input cannot be split at all.
#[derive(Debug, thiserror::Error)]
pub enum SplitError {
    /// An overlay root is not a directory of the input.
    #[error("--overlay-root {0}: there is no such directory in the input")]
    NoSuchRoot(EntryPath),
    /// The group cannot be a part of a file name.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// The input has nothing for a target that an option names.
    #[error("{option} {wanted}: the input has nothing for it{}; {}", doubt(.wanted.as_str()), splittable(.existing))]
    NoSuchTarget { option: &'static str, wanted: BundleKey, existing: Vec<BundleKey> },
    /// Two members of a wheel are installed at one path.
    #[error(
        "{first:?} and {second:?}: both are installed as {installed:?}, and {reason}, so that one of them would be lost; \
         remove or rename one"
    )]
    OnePath { first: EntryPath, second: EntryPath, installed: EntryPath, reason: &'static str },
    /// Two device wheels install different files at one path.
    #[error(transparent)]
    OfDeviceWheels(#[from] OnePath),
    /// A device wheel is named after no device part.
    #[error("{}: its name ends with {part:?}, which is no device part", location.display())]
    NoPart { location: PathBuf, part: String },
    /// An entry of the input is in the way of an archive.
    #[error(
        "{path:?} of the input and the archive {archive:?} of the split: both cannot be there; rename the first, or choose \
         another name or place for archives (--group, --overlay-root)"
    )]
    Blocked { path: EntryPath, archive: EntryPath },
    /// A file of the input cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The views would be too large: each target has a view of all files.
    #[error(
        "{keys} targets and families with {entries} files and directories each are more than {MAX_SHOWN}; choose some with --gpu-targets"
    )]
    TooManyTargets { keys: usize, entries: usize },
}

/// A list of targets for messages.
pub fn join(keys: &[BundleKey]) -> String {
    let names: Vec<_> = keys.iter().map(BundleKey::as_str).collect();
    names.join(", ")
}

/// What is there to split. Data is searched by `inspect` only.
fn splittable(keys: &[BundleKey]) -> String {
    match keys {
        [] => "there is nothing to split in it; `kpackfs inspect` says what code it has".to_owned(),
        keys => format!("it has code for {}", join(keys)),
    }
}
