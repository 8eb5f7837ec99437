//! The option by which commands replace existing files.

use clap::Args;

/// Whether existing files are replaced.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct Replacing {
    /// Replace existing files
    #[arg(long)]
    pub(super) force: bool,
}
