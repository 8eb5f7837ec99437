//! Mounting, and unmounting nothing but what was mounted here.

use std::ffi::{CString, OsStr};
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use fuser::{Config, Session, SessionACL};

use super::adapter::Adapter;
use super::mountinfo::{self, MountEntry};
use super::nodes::Nodes;
use super::requests::Shared;
use super::{FILESYSTEM_TYPE, FsError, helper, sys};
use crate::index::Resources;
use crate::view::Tree;

/// Two threads, so that one that copies bytes does not stop the other from answering; a third one gains nothing
/// and costs wake-ups.
const SESSION_THREADS: usize = 2;

/// Where and how to mount.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// The directory to mount on.
    pub mount_point: PathBuf,
    /// The input, absolute; it is what `findmnt` shows as the source.
    pub source: PathBuf,
    /// Whether other users may use the mount, as far as the permissions in it allow.
    pub allow_other: bool,
}

/// What to serve.
#[derive(Clone, Debug)]
pub struct Served {
    /// Everything that the mount shows.
    pub tree: Arc<Tree>,
    /// Whose counters count the requests.
    pub resources: Arc<Resources>,
    /// How large `df` says that the mount is.
    pub total_bytes: u64,
}

/// A mount that is being served by threads of this process. Dropping it unmounts lazily.
#[derive(Debug)]
pub struct Mounted {
    unmounter: Unmounter,
    session: Option<JoinHandle<io::Result<()>>>,
}

/// Unmounts one particular mount, and no other one that has taken its place.
#[derive(Clone, Debug)]
pub struct Unmounter {
    entry: MountEntry,
    /// Set when the kernel has said that the filesystem is gone. From then on its numbers mean nothing: the kernel
    /// gives both of them to the next mount that is made.
    gone: Arc<AtomicBool>,
}

/// Mounts `served`. When this returns, the mount can be used.
pub fn mount(options: &MountOptions, served: Served) -> Result<Mounted, FsError> {
    let place = check(options)?;
    let nodes = Nodes::new(served.tree);
    let device = attach(&place, options)?;
    let entry = match mountinfo::topmost(&place) {
        Ok(Some(entry)) if entry.kind == FILESYSTEM_TYPE => entry,
        // Somebody was faster and covered it or took it away; with `device` the session ends.
        Ok(_) => return Err(FsError::NotOurs(place)),
        Err(error) => return Err(error),
    };
    let gone = Arc::new(AtomicBool::new(false));
    let mut mounted = Mounted { unmounter: Unmounter { entry, gone: Arc::clone(&gone) }, session: None };
    let resources = Arc::clone(&served.resources);
    let shared = Arc::new(Shared::new(nodes, served.resources, served.total_bytes));
    let adapter = Adapter::new(Arc::clone(&shared));
    let mut config = Config::default();
    config.n_threads = Some(SESSION_THREADS);
    // Who may use the mount is decided by the kernel (`allow_other`). fuser's own check would in addition refuse
    // set-uid programs of the same user.
    let session = Session::from_fd(adapter, device, SessionACL::All, config).map_err(FsError::Session)?;
    shared.notifier.set(session.notifier()).ok();
    let run = move || {
        let result = session.run();
        gone.store(result.is_ok(), Ordering::Release);
        if let Err(error) = resources.memory.save() {
            tracing::warn!("what was learnt about the input cannot be kept: {error}");
        }
        result
    };
    let thread = thread::Builder::new().name("kpackfs-session".to_owned()).spawn(run).map_err(FsError::Session)?;
    mounted.session = Some(thread);
    Ok(mounted)
}

/// The mount point, absolute, if it can be mounted on.
fn check(options: &MountOptions) -> Result<PathBuf, FsError> {
    let path = &options.mount_point;
    let failed = |source| FsError::MountPoint { path: path.clone(), source };
    let place = mountinfo::absolute(path).map_err(failed)?;
    let present = mountinfo::topmost(&place)?.filter(|entry| entry.kind == FILESYSTEM_TYPE);
    let probed = c_string(place.as_os_str()).and_then(|place| sys::probe(&place));
    match (probed.and_then(|()| std::fs::metadata(&place)), present) {
        (Err(error), Some(_)) if matches!(error.raw_os_error(), Some(libc::ENOTCONN | libc::ECONNABORTED)) => {
            Err(FsError::Stale(place))
        }
        (Err(source), _) => Err(failed(source)),
        // Other filesystems may be there: autofs is, below a mount that systemd makes on demand.
        (Ok(_), Some(entry)) => {
            Err(FsError::AlreadyMounted { path: place, source_name: entry.source.to_string_lossy().into_owned() })
        }
        (Ok(metadata), None) if !metadata.is_dir() => Err(FsError::NotADirectory(place)),
        // Reads of a covered input would come back to this mount and wait for themselves.
        (Ok(_), None) if options.source.starts_with(&place) => {
            Err(FsError::CoversInput { path: place, input: options.source.clone() })
        }
        (Ok(_), None) => Ok(place),
    }
}

/// Mounts, and returns the device that the kernel's requests come from.
fn attach(place: &Path, options: &MountOptions) -> Result<OwnedFd, FsError> {
    let device = OpenOptions::new().read(true).write(true).open("/dev/fuse").map_err(FsError::Device)?;
    let (user, group) = sys::user_and_group();
    let mut data =
        format!("fd={},rootmode=40000,user_id={user},group_id={group},default_permissions", device.as_raw_fd());
    if options.allow_other {
        data.push_str(",allow_other");
    }
    let failed = |source| FsError::Mount { path: place.to_owned(), source };
    let source = c_string(options.source.as_os_str()).map_err(failed)?;
    let flags = libc::MS_RDONLY | libc::MS_NOSUID | libc::MS_NODEV;
    let target = c_string(place.as_os_str()).map_err(failed)?;
    let kind = c_string(OsStr::new(FILESYSTEM_TYPE)).map_err(failed)?;
    let data = c_string(OsStr::new(&data)).map_err(failed)?;
    match sys::mount(&source, &target, &kind, flags, &data) {
        Ok(()) => Ok(device.into()),
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
            helper::mount(place, options.source.as_os_str(), options.allow_other)
        }
        Err(error) => Err(failed(error)),
    }
}

fn c_string(text: &OsStr) -> io::Result<CString> {
    CString::new(text.as_bytes()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

impl Mounted {
    /// Unmounts this mount; can be sent to other threads.
    pub fn unmounter(&self) -> &Unmounter {
        &self.unmounter
    }

    /// Serves until somebody unmounts, from wherever. After a lazy unmount, this is when the last user is gone.
    pub fn wait(mut self) -> Result<(), FsError> {
        let Some(session) = self.session.take() else { return Ok(()) };
        match session.join() {
            Ok(Ok(())) => Ok(()),
            // The administrator's abort (/sys/fs/fuse/connections/*/abort) is an end like any other, except that it
            // leaves the mount behind, which goes now.
            Ok(Err(error)) if matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ECONNABORTED)) => Ok(()),
            Ok(Err(error)) => Err(FsError::Session(error)),
            Err(_) => Err(FsError::Session(io::Error::other("a session thread panicked"))),
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // That it is gone already is how most mounts end.
        self.unmounter.unmount(true).ok();
    }
}

impl Unmounter {
    /// Where the mount is.
    pub fn mount_point(&self) -> &Path {
        &self.entry.mount_point
    }

    /// Unmounts; if lazily, whoever uses the mount may go on. Fails with [`FsError::NotOurs`] if the mount is gone
    /// or covered.
    pub fn unmount(&self, lazy: bool) -> Result<(), FsError> {
        let place = &self.entry.mount_point;
        let there = if self.gone.load(Ordering::Acquire) { None } else { mountinfo::topmost(place)? };
        if there.as_ref() == Some(&self.entry) { detach(place, lazy) } else { Err(FsError::NotOurs(place.clone())) }
    }
}

/// Unmounts the kpackfs at `path`, also one whose daemon is gone. Refuses to unmount anything else.
pub fn umount(path: &Path, lazy: bool) -> Result<(), FsError> {
    detach(&mounted_at(path)?.mount_point, lazy)
}

/// The kpackfs that is mounted at `path` and has a living daemon.
pub fn find_mount(path: &Path) -> Result<MountEntry, FsError> {
    let entry = mounted_at(path)?;
    let place = entry.mount_point.as_os_str();
    match c_string(place).and_then(|place| sys::probe(&place)) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOTCONN | libc::ECONNABORTED)) => {
            Err(FsError::Stale(entry.mount_point))
        }
        // Whatever else is wrong shows when it is used.
        _ => Ok(entry),
    }
}

/// The kpackfs that is mounted at `path`, living or stale.
fn mounted_at(path: &Path) -> Result<MountEntry, FsError> {
    let place = mountinfo::absolute(path).map_err(|source| FsError::MountPoint { path: path.to_owned(), source })?;
    match mountinfo::topmost(&place)? {
        None => Err(FsError::NotMounted(place)),
        Some(entry) if entry.kind == FILESYSTEM_TYPE => Ok(entry),
        Some(MountEntry { kind, source, .. }) => {
            Err(FsError::Foreign { path: place, kind, source_name: source.to_string_lossy().into_owned() })
        }
    }
}

fn detach(place: &Path, lazy: bool) -> Result<(), FsError> {
    let failed = |source| FsError::Unmount { path: place.to_owned(), source };
    let target = c_string(place.as_os_str()).map_err(failed)?;
    let flags = libc::UMOUNT_NOFOLLOW | if lazy { libc::MNT_DETACH } else { 0 };
    match sys::umount(&target, flags) {
        Ok(()) => Ok(()),
        Err(error) => match error.raw_os_error() {
            Some(libc::EPERM) => helper::unmount(place, lazy),
            Some(libc::EBUSY) => Err(FsError::Busy(place.to_owned())),
            _ => Err(failed(error)),
        },
    }
}
