//! Converts what mount(8) and mount.fuse3 ask for to arguments of `kpackfs mount`.
//!
//! mount(8) calls `/sbin/mount.kpackfs SOURCE DIRECTORY [-s] [-f] [-n] [-v] [-o OPTIONS] [-t TYPE] [-N NAMESPACE]`, where
//! `-f` means that nothing is to be mounted (util-linux, `mnt_context_prepare_helper` and `exec_helper` in libmount).
//! mount.fuse3 calls `kpackfs SOURCE DIRECTORY -o OPTIONS` (libfuse, util/mount.fuse.c). Users of other FUSE
//! filesystems call it in the same way. There `-f` means the foreground.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::too_many_lines))]

mod arguments;
mod list;

pub use arguments::{Caller, KnownOption, MountRequest, fuse_source};

/// Exit code of mount(8): wrong invocation.
pub const USAGE: u8 = 1;
/// Exit code of mount(8): the system refused a service.
pub const SYSTEM: u8 = 2;
/// Exit code of mount(8): nothing was mounted.
pub const FAILURE: u8 = 32;
