//! Mounting, unmounting, and the daemon that serves a mount. Only kpackfs mounts are ever unmounted.
//!
//! fuser begins the session, but does not mount: fuser 0.18 may unmount another filesystem when its session ends, loses
//! the subtype for root, and does not escape the source name.

mod announce;
mod autosave;
mod daemon;
mod ending;
mod error;
mod helper;
mod options;
pub mod signals;
mod sys;
mod target;
mod transport;

use std::ffi::CString;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use fuser::{Config, Session, SessionACL};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::process::{getgid, getuid};

use crate::confine::can_mount;
use crate::disk::{
    KPACKFS, MOUNTINFO, MountEntry, absolute_mount_point, is_dead, list_all_mounts, lock_directory, topmost_mount,
};
use crate::fs::{Answers, Filesystem, KernelPages, Negotiation, serve as answer_requests};
use crate::resources::Resources;
use crate::threads;
use crate::tree::Tree;

pub use self::announce::ReadyFile;
pub(crate) use self::announce::tell_failure;
pub use self::autosave::autosave;
pub use self::daemon::{ServeOptions, enter_namespace, serve};
use self::ending::Daemons;
pub(crate) use self::ending::ends;
pub use self::ending::{RunningDaemon, check_running};
pub use self::error::{Fault, MountError};
pub use self::options::MountOptions;
pub(crate) use self::sys::raise_open_files;
use self::target::check_free;
pub(crate) use self::target::{MountTarget, check};
pub use self::transport::Transport;

/// The type of our mounts in `/proc/mounts` and `findmnt -t`.
pub const FILESYSTEM_TYPE: &str = KPACKFS;

/// With two threads, one can copy bytes while the other one answers. A third one gains nothing and costs wake-ups.
const SESSION_THREADS: usize = 2;

/// What a mount serves.
#[derive(Clone, Debug)]
pub struct Served {
    /// The tree to serve.
    pub tree: Arc<Tree>,
    /// Resources whose counters count the requests.
    pub resources: Arc<Resources>,
    /// The size that `df` reports, in bytes.
    pub total_bytes: u64,
}

/// A mount that threads of this process serve. Dropping it unmounts lazily.
#[derive(Debug)]
pub struct Mounted {
    /// Unmounts this mount. Can be sent to other threads.
    pub unmounter: Unmounter,
    session: Option<JoinHandle<io::Result<()>>>,
}

/// Unmounts one particular mount, and never another one that has replaced it.
#[derive(Clone, Debug)]
pub struct Unmounter {
    /// Where the mount is.
    pub place: PathBuf,
    /// `None` if the caller made the mount.
    pub(super) entry: Option<MountEntry>,
    /// Set when the kernel has reported the end of the filesystem. From then on its numbers are invalid: the kernel
    /// reuses both for the next mount.
    gone: Arc<AtomicBool>,
    fs: Arc<Filesystem>,
}

/// Mounts `served`. The mount is ready when this returns. A stale mount at the same place is removed first.
pub fn mount(options: &MountOptions, served: Served) -> Result<Mounted, MountError> {
    let target = loop {
        match check(options) {
            Err(MountError::Stale(place)) => recover(&place)?,
            result => break result?,
        }
    };
    // The name of a device that the caller has mounted says nothing.
    let place = if let MountTarget::Directory(place) = &target { place.clone() } else { PathBuf::new() };
    let resources = Arc::clone(&served.resources);
    let fs = Filesystem::new(place, served.tree, served.resources, served.total_bytes);
    // Before the mount: from then on, nothing may fail.
    let answers = Answers::new(&fs);
    let prepared = transport::prepare(options.transport, &answers)?;
    let negotiation = Negotiation::new(&answers, options.passthrough, prepared.is_ok());
    // They start when the mount has been reported as ready.
    threads::check(SESSION_THREADS + 1)?;
    let (device, place, entry) = match target {
        MountTarget::Handed(number) => {
            (sys::inherited(number).map_err(MountError::Device)?, options.mount_point.clone(), None)
        }
        MountTarget::Directory(place) => {
            let (device, entry) = attach_alone(&place, options)?;
            (device, place, Some(entry))
        }
    };
    resources.budget.release_when_idle();
    let gone = Arc::new(AtomicBool::new(false));
    let mut mounted =
        Mounted { unmounter: Unmounter { place, entry, gone: Arc::clone(&gone), fs: Arc::clone(&fs) }, session: None };
    // The kernel decides who may use the mount (`allow_other`). fuser's own check would in addition refuse set-uid
    // programs of the same user.
    let session =
        Session::from_fd(negotiation, device, SessionACL::All, Config::default()).map_err(MountError::Session)?;
    fs.set_page_cache(Box::new(KernelPages(session.notifier())));
    let device = Arc::new(session.as_fd().try_clone_to_owned().map_err(MountError::Device)?);
    answers.set_device(&device);
    let unmounter = mounted.unmounter.clone();
    let fail = transport::give_up(move || _ = unmounter.unmount(true), Arc::clone(&resources));
    let rings = transport::start(options.transport, prepared, &device, fail, &resources)?;
    let run = move || {
        let result = answer_requests(&answers, &device, SESSION_THREADS);
        drop((session, rings));
        gone.store(result.is_ok(), Ordering::Release);
        // Before the index is saved, so that the next mount, which waits for that, sees both.
        resources.store.finish();
        resources.index.save_or_log();
        result
    };
    mounted.session = Some(threads::spawn("kpackfs-session", run)?);
    Ok(mounted)
}

/// Mounts on a directory, while no other process mounts there. Returns the device, and the mount as it is listed.
fn attach_alone(place: &Path, options: &MountOptions) -> Result<(OwnedFd, MountEntry), MountError> {
    // From the check to the mount. Where nobody can lock, nobody waits.
    let lock = lock_directory(place);
    if lock.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
        tracing::warn!("{}: another process has locked it (flock), and is not waited for any longer", place.display());
    }
    check_free(&all_mounts()?, place)?;
    let device = attach(place, options)?;
    drop(lock);
    match topmost(place)? {
        Some(entry) if entry.kind == FILESYSTEM_TYPE => Ok((device, entry)),
        // Another process has covered or removed the mount meanwhile. Dropping `device` ends the session.
        _ => Err(MountError::NotOurs(place.to_owned())),
    }
}

/// Removes a stale mount.
fn recover(place: &Path) -> Result<(), MountError> {
    tracing::warn!("{}: the daemon of the kpackfs mount here is gone: removed", place.display());
    match umount(place, true) {
        // Another process has removed it.
        Err(MountError::NotMounted(_) | MountError::Foreign { .. }) => Ok(()),
        result => result.map(drop),
    }
}

/// Mounts, and returns the FUSE device.
fn attach(place: &Path, options: &MountOptions) -> Result<OwnedFd, MountError> {
    #[expect(clippy::disallowed_methods, reason = "the device of FUSE, which opens without waiting")]
    let device = OpenOptions::new().read(true).write(true).open("/dev/fuse").map_err(MountError::Device)?;
    let (user, group) = (getuid().as_raw(), getgid().as_raw());
    let mut data =
        format!("fd={},rootmode=40000,user_id={user},group_id={group},default_permissions", device.as_raw_fd());
    if options.allow_other {
        data.push_str(",allow_other");
    }
    let failed = |source| MountError::Mount { path: place.to_owned(), source };
    let data = CString::new(data).map_err(|error| failed(error.into()))?;
    let mut flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
    flags.set(MountFlags::NOEXEC, options.no_exec);
    match rustix::mount::mount(&options.source, place, FILESYSTEM_TYPE, flags, &*data) {
        Ok(()) => Ok(device.into()),
        Err(Errno::PERM) if !can_mount() => helper::mount(place, options),
        Err(error) => Err(failed(error.into())),
    }
}

impl Mounted {
    /// Waits until it is unmounted by any process. After a lazy unmount, this is when the last user is gone.
    pub fn wait(mut self) -> Result<(), MountError> {
        let Some(session) = self.session.take() else { return Ok(()) };
        match session.join() {
            Ok(Ok(())) => Ok(()),
            // An abort by the administrator (/sys/fs/fuse/connections/*/abort) ends the session, too, but leaves the
            // mount behind. It is removed now.
            Ok(Err(error)) if matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ECONNABORTED)) => Ok(()),
            Ok(Err(error)) => Err(MountError::Session(error)),
            Err(_) => Err(MountError::Session(io::Error::other("a session thread panicked"))),
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Most mounts are gone already at this point.
        self.unmounter.unmount(true).ok();
    }
}

impl Unmounter {
    /// Lets no request wait longer than a second for work from now on. Runs until the process ends.
    pub fn end_waiting(&self) -> ! {
        self.fs.end_waiting()
    }

    /// Unmounts. If `lazy`, programs may continue to use the mount. Fails with [`MountError::NotOurs`] if the mount is
    /// gone or covered, and with [`MountError::NotMade`] if the caller made it.
    pub fn unmount(&self, lazy: bool) -> Result<(), MountError> {
        let place = &self.place;
        let Some(entry) = &self.entry else { return Err(MountError::NotMade(place.clone())) };
        let existing = if self.gone.load(Ordering::Acquire) { None } else { topmost(place)? };
        if existing.as_ref() == Some(entry) { detach(place, lazy) } else { Err(MountError::NotOurs(place.clone())) }
    }
}

/// Unmounts the kpackfs at `path`, even if it is stale, and waits until its daemon has ended: at most 10 seconds, after a lazy
/// unmount 1. Returns a daemon that goes on. Refuses to unmount anything else.
pub fn umount(path: &Path, lazy: bool) -> Result<Option<RunningDaemon>, MountError> {
    let entry = mounted_at(path)?;
    let daemons = Daemons::of(&entry);
    detach(&entry.mount_point, lazy)?;
    Ok(daemons.wait(&entry.mount_point, lazy))
}

/// The kpackfs mounted at `path`, if its daemon is running.
pub fn find_mount(path: &Path) -> Result<MountEntry, MountError> {
    let entry = mounted_at(path)?;
    if is_dead(&entry.mount_point) {
        return Err(MountError::Stale(entry.mount_point));
    }
    match rustix::fs::stat(&entry.mount_point) {
        Err(Errno::ACCESS) => Err(of_another(&entry.mount_point).unwrap_or(MountError::Stale(entry.mount_point))),
        _ => Ok(entry),
    }
}

/// The error about a mount of another user, if it is one.
fn of_another(place: &Path) -> Option<MountError> {
    let owner = topmost(place).ok()??.owner?;
    let is_another = owner != rustix::process::getuid().as_raw();
    is_another.then(|| MountError::OfAnother { path: place.to_owned(), owner })
}

/// The kpackfs mounted at `path`, with a running daemon or stale.
fn mounted_at(path: &Path) -> Result<MountEntry, MountError> {
    let place = absolute_mount_point(path).map_err(|source| MountError::of_path(path, source))?;
    match topmost(&place)? {
        None => Err(not_mounted(place)),
        Some(entry) if entry.kind == FILESYSTEM_TYPE => Ok(entry),
        Some(MountEntry { kind, source, owner, .. }) => {
            Err(MountError::Foreign { path: place, kind, source_name: source.to_string_lossy().into_owned(), owner })
        }
    }
}

/// The error about a path on which nothing is mounted.
fn not_mounted(path: PathBuf) -> MountError {
    let outer = path.ancestors().find_map(|outer| topmost(outer).ok()?);
    match outer {
        Some(MountEntry { kind, mount_point, .. }) if kind == FILESYSTEM_TYPE => {
            MountError::InMount { path, mount_point }
        }
        _ => MountError::NotMounted(path),
    }
}

fn detach(place: &Path, lazy: bool) -> Result<(), MountError> {
    let mut flags = UnmountFlags::NOFOLLOW;
    flags.set(UnmountFlags::DETACH, lazy);
    match rustix::mount::unmount(place, flags) {
        Ok(()) => Ok(()),
        Err(Errno::PERM) => helper::unmount(place, lazy).map_err(|error| match error {
            MountError::Busy(_) => busy(place),
            error => of_another(place).unwrap_or(error),
        }),
        Err(Errno::BUSY) => Err(busy(place)),
        Err(error) => Err(MountError::Unmount { path: place.to_owned(), source: error.into() }),
    }
}

/// Why the mount at `place` is in use, as far as the list of mounts shows it.
fn busy(place: &Path) -> MountError {
    let inner = list_all_mounts().unwrap_or_default().into_iter().map(|mount| mount.mount_point);
    match inner.filter(|inner| inner != place && inner.starts_with(place)).max() {
        Some(inner) => MountError::HasMount { path: place.to_owned(), inner },
        None => MountError::Busy(place.to_owned()),
    }
}

/// The kpackfs mounts that this process can see, including stale ones.
pub fn list_mounts() -> Result<Vec<MountEntry>, MountError> {
    let mut mounts = all_mounts()?;
    mounts.retain(|mount| mount.kind == FILESYSTEM_TYPE);
    Ok(mounts)
}

/// The uppermost mount at `path`.
fn topmost(path: &Path) -> Result<Option<MountEntry>, MountError> {
    Ok(topmost_mount(&all_mounts()?, path).cloned())
}

fn all_mounts() -> Result<Vec<MountEntry>, MountError> {
    list_all_mounts().map_err(MountError::system(MOUNTINFO))
}
