//! Why requests cannot travel through rings.

use std::io;

use crate::threads::ThreadError;

/// The most queues. Each needs 16 MiB of addresses, and a thread.
pub(super) const MAX_QUEUES: u16 = 256;

pub(super) const SYSFS: &str = "/sys";

/// The parameter of the kernel's module that allows rings.
pub(super) const ENABLE: &str = "/sys/module/fuse/parameters/enable_uring";

pub(super) const POSSIBLE: &str = "/sys/devices/system/cpu/possible";

/// Why requests cannot travel through rings.
#[derive(Debug, thiserror::Error)]
pub enum RingError {
    /// The administrator has not allowed it.
    #[error("FUSE over io_uring is off; as root, turn it on: echo Y > {ENABLE}")]
    Off,
    /// The kernel cannot do it.
    #[error("the kernel has no FUSE over io_uring: that needs Linux 6.14 with CONFIG_FUSE_IO_URING")]
    Missing,
    /// There is no sysfs, which tells.
    #[error("{ENABLE}: no such file; mount sysfs at {SYSFS}")]
    NoSysfs,
    /// A thread for a queue cannot be started.
    #[error(transparent)]
    Thread(#[from] ThreadError),
    /// `io_uring` cannot be used.
    #[error("io_uring: {0}: see the sysctl kernel.io_uring_disabled, and seccomp in a container")]
    Ring(io::Error),
    /// The list of processors cannot be read.
    #[error("{POSSIBLE}: {0}")]
    Processors(String),
    /// Queues for all processors would need too many addresses.
    #[error("{0} processors are possible; rings are for {MAX_QUEUES} at most")]
    TooMany(u16),
    /// The kernel wants more queues than there are processors in its list.
    #[error("the kernel has more processors than {POSSIBLE} says")]
    TooFew,
    /// The kernel accepts no entry of a queue, and has fallen back to `/dev/fuse`.
    #[error("the kernel does not accept entries of io_uring: {0}")]
    Register(io::Error),
    /// Requests can no longer be received or answered.
    #[error("the ring of processor {0} has failed: {1}")]
    Broken(u16, String),
}

impl RingError {
    /// Whether the kernel sends its requests to `/dev/fuse` instead, if this is why rings were not started.
    pub(crate) fn falls_back(&self) -> bool {
        !matches!(self, Self::Broken(..))
    }
}
