//! The user's choices.

use crate::gpu::TargetId;
use crate::source::EntryPath;

/// What the user chose.
#[derive(Clone, Debug, Default)]
pub struct CollectOptions {
    /// The GPUs.
    pub gpus: Vec<TargetId>,
    /// Libraries to take in, whatever the policy says, by their names.
    pub include: Vec<String>,
    /// Directories of the application that its users put into `LD_LIBRARY_PATH`.
    pub library_path: Vec<EntryPath>,
}
