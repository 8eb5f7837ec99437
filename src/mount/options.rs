//! Options of mounting.

use std::path::PathBuf;

use super::transport::Transport;
use crate::fs::PassthroughChoice;

/// Where and how to mount.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// The directory to mount on, or `/dev/fd/N` for a FUSE device that the caller has opened and mounted (libfuse,
    /// `fuse_mnt_parse_fuse_fd`). Then the caller has to unmount it.
    pub mount_point: PathBuf,
    /// The absolute path of the input. `findmnt` shows it as the source.
    pub source: PathBuf,
    /// Whether other users may use the mount, as far as the permissions in it allow.
    pub allow_other: bool,
    /// Whether to prevent execution of programs, and loading of libraries, from the mount.
    pub no_exec: bool,
    /// Whether the kernel shall read files by itself.
    pub passthrough: PassthroughChoice,
    /// How requests and replies travel.
    pub transport: Transport,
}
