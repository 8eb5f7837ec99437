//! Why a tree cannot be mounted, served or unmounted.

use std::io;
use std::path::{Path, PathBuf};

use crate::disk::StoppedMount;
use crate::fs::RingError;
use crate::threads::ThreadError;

/// Why a tree cannot be mounted, served or unmounted.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The FUSE device cannot be opened.
    #[error("/dev/fuse: {error}: {}", device_remedy(.0), error = .0)]
    Device(io::Error),
    /// The mount point cannot be used.
    #[error("{}: {source}", path.display())]
    MountPoint { path: PathBuf, source: io::Error },
    /// There is nothing to mount on.
    #[error("{}: no such directory; create it, and mount again", .0.display())]
    NoDirectory(PathBuf),
    /// The mount point is not a directory.
    #[error("{}: not a directory, and so no mount point, which comes last", .0.display())]
    NotADirectory(PathBuf),
    /// The daemon of an older mount ended and left the mount behind.
    #[error("{path}: the daemon of the kpackfs mount here is gone; `kpackfs umount {path}` removes it", path = .0.display())]
    Stale(PathBuf),
    /// A kpackfs with a running daemon is mounted there already.
    #[error("{}: a kpackfs is mounted here already, of {source_name}; unmount it, or name another directory", path.display())]
    AlreadyMounted { path: PathBuf, source_name: String },
    /// The mount would cover its own input.
    #[error("{}: mounting here would cover the input {}; name another directory", path.display(), input.display())]
    CoversInput { path: PathBuf, input: PathBuf },
    /// The mount would be in a mount of its own input, or in the one that contains it.
    #[error("{}: it is in the mount {}, which shows the input {}; name a directory outside of it", path.display(), mount.display(), input.display())]
    InOwnMount { path: PathBuf, mount: PathBuf, input: PathBuf },
    /// The mount would be in one whose daemon has ended.
    #[error(
        "{}: the daemon of the mount {mount} has ended: unmount it (`kpackfs umount {mount}`), or name a directory outside of it",
        path.display(), mount = mount.display()
    )]
    InDeadMount { path: PathBuf, mount: PathBuf },
    /// A path leads into a mount whose daemon is stopped.
    #[error("{}: {mount}", path.display())]
    Stopped { path: PathBuf, mount: &'static StoppedMount },
    /// The kernel refused to mount.
    #[error("{}: cannot be mounted on: {source}", path.display())]
    Mount { path: PathBuf, source: io::Error },
    /// There is no fusermount3.
    #[error("{}: fusermount3 is not installed, which users other than root need; install the package fuse3", .0.display())]
    NoHelper(PathBuf),
    /// fusermount3, which mounts and unmounts for unprivileged users, cannot be run or has failed.
    #[error("{}: fusermount3: {message}", path.display())]
    Helper { path: PathBuf, message: String },
    /// The FUSE session could not be started or was broken.
    #[error("FUSE session: {0}")]
    Session(io::Error),
    /// Requests cannot travel through rings.
    #[error("--transport uring: {0}")]
    Rings(#[from] RingError),
    /// Nothing is mounted there.
    #[error("{}: not a mount point; `findmnt -t fuse.kpackfs` lists those of kpackfs", .0.display())]
    NotMounted(PathBuf),
    /// Nothing is mounted there, but it is in a kpackfs mount.
    #[error("{}: not a mount point, but in the kpackfs mount {}; name that", path.display(), mount_point.display())]
    InMount { path: PathBuf, mount_point: PathBuf },
    /// Another filesystem is mounted there.
    #[error("{}: not a kpackfs mount: a {kind} with the source {source_name} is mounted here{}", path.display(), by(*owner))]
    Foreign { path: PathBuf, kind: String, source_name: String, owner: Option<u32> },
    /// Another user mounted it.
    #[error(
        "{}: mounted by the user with ID {owner}; only that user and root may unmount it, and others may read it only if it \
         was mounted with --allow-other", path.display()
    )]
    OfAnother { path: PathBuf, owner: u32 },
    /// This mount was replaced or covered by another kpackfs.
    #[error("{}: this mount is gone or covered by another one", .0.display())]
    NotOurs(PathBuf),
    /// The mount is in use.
    #[error("{}: in use; close what is open in it, or detach it with --lazy", .0.display())]
    Busy(PathBuf),
    /// Another filesystem is mounted in it.
    #[error("{}: in use; {} is mounted in it, unmount that first", path.display(), inner.display())]
    HasMount { path: PathBuf, inner: PathBuf },
    /// The kernel refused to unmount.
    #[error("{}: cannot be unmounted: {source}", path.display())]
    Unmount { path: PathBuf, source: io::Error },
    /// No thread can be started.
    #[error(transparent)]
    Thread(#[from] ThreadError),
    /// A system call failed.
    #[error("{what}: {source}{}", remedy(what, source))]
    System { what: &'static str, source: io::Error },
    /// The given mount point is not a FUSE device that the caller has opened and mounted.
    #[error("{}: not an open FUSE device: {source}", path.display())]
    Handed { path: PathBuf, source: io::Error },
    /// The mount was made by the program that started this process, which has to unmount it.
    #[error("{}: mounted by the caller, who has to unmount it", .0.display())]
    NotMade(PathBuf),
    /// The tree could not be prepared.
    #[error("{reason}")]
    Prepare {
        /// The whole reason.
        reason: String,
        /// Whether the input was understood.
        is_understood: bool,
    },
    /// The daemon reported an error.
    #[error("{reason}")]
    Daemon {
        /// Its message.
        reason: String,
        /// What is at fault.
        fault: Fault,
    },
    /// The daemon ended without a message.
    #[error("the daemon ended before the mount was ready: {0}")]
    DaemonDied(String),
}

/// What is at fault when a mount fails. Commands and mount(8) have exit codes for it. The number is that in the daemon's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Fault {
    /// The input or the mount point.
    Named = 1,
    /// The system, which refused a service.
    System = 2,
    /// The input was not understood, or is in a mount that does not answer.
    NotUnderstood = 3,
}

/// The system call that makes the daemon.
pub(super) const FORK: &str = "fork";

impl MountError {
    /// Why what is mounted at a path is not found.
    pub(super) fn of_path(path: &Path, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::NotFound => Self::NotMounted(path.to_owned()),
            _ => Self::MountPoint { path: path.to_owned(), source },
        }
    }

    /// What is at fault.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Device(_)
            | Self::Session(_)
            | Self::Rings(_)
            | Self::Thread(_)
            | Self::System { .. }
            | Self::DaemonDied(_) => Fault::System,
            Self::Stopped { .. } | Self::Stale(_) | Self::Prepare { is_understood: false, .. } => Fault::NotUnderstood,
            Self::Daemon { fault, .. } => *fault,
            _ => Fault::Named,
        }
    }

    /// For `map_err`: names what was attempted.
    pub(crate) fn system<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::System { what, source: source.into() }
    }
}

/// The end of a message: what to do about a failed system call, if that is known.
fn remedy(what: &str, source: &io::Error) -> &'static str {
    match (source.kind(), what) {
        (io::ErrorKind::NotFound, path) if path.starts_with("/proc/") => "; mount /proc",
        (io::ErrorKind::WouldBlock, FORK) => {
            "; raise the limit on processes (ulimit -u, or pids.max of the control group)"
        }
        _ => "",
    }
}

/// The end of a message: which user mounted something.
fn by(owner: Option<u32>) -> String {
    owner.map(|owner| format!(", by the user with ID {owner}")).unwrap_or_default()
}

/// What to do if the device cannot be opened.
fn device_remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "your user may not open it: `chmod 666 /dev/fuse` as root, or mount as root",
        _ => {
            "load the kernel's module fuse, or pass the device to the container: --device /dev/fuse --cap-add SYS_ADMIN"
        }
    }
}
