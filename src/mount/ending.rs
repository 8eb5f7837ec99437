//! The end of a daemon. An unmount is complete before the daemon has closed the input, so `umount` waits for it.
//!
//! A daemon listens at an abstract socket (unix(7)) whose name has the number of the mount's device. It says nothing there: the
//! credentials of the socket name the process, and the kernel reports its end. A daemon that is stopped accepts no connections, and after
//! some thousands no further one is made; its process is then the one that has the socket open.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::error::MountError;
use super::sys;
use crate::disk::{self, KPACKFS, MountEntry, StoppedMount};
use crate::memory::Parser;
use crate::threads::{self, ThreadError};

/// How long a daemon waits that cannot accept a connection.
const PAUSE: Duration = Duration::from_secs(1);

/// Names for the daemons of one device. Its number is free as soon as it is unmounted, while its daemon still saves the
/// index, so that a new mount may have the number, too.
const NAMES: u32 = 8;

/// How long the end of a daemon is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// The same after a lazy unmount. A daemon goes on to serve who uses the mount.
const LAZY_PATIENCE: Duration = Duration::from_secs(1);

fn name(device: &str, number: u32) -> String {
    format!("kpackfs.{device}.{number}")
}

/// Has other processes find this one until it ends, unless there are others with all names.
pub(super) fn announce(entry: &MountEntry) -> Result<(), ThreadError> {
    let bind = |number| UnixListener::bind_addr(&SocketAddr::from_abstract_name(name(&entry.device, number))?);
    let Some(listener) = (0..NAMES).find_map(|number| bind(number).ok()) else { return Ok(()) };
    // Connections that nobody accepts stay, and of some thousands on no further one is made.
    let drop_connections = move || {
        loop {
            if listener.accept().is_err() {
                // Out of descriptors, for example.
                thread::sleep(PAUSE);
            }
        }
    };
    threads::spawn("kpackfs-found", drop_connections).map(drop)
}

/// A daemon that may serve a mount.
struct Daemon {
    id: Pid,
    /// Readable when the process has ended (`pidfd_open(2)`).
    end: OwnedFd,
}

/// The daemons of a mount, and of earlier mounts with the same device number.
pub(super) struct Daemons(Vec<Daemon>);

impl Daemons {
    /// Finds them. Those of other users count only if they made the mount.
    pub(super) fn of(entry: &MountEntry) -> Self {
        let find = |number| -> io::Result<Option<Daemon>> {
            let socket = socket_with(
                AddressFamily::UNIX,
                SocketType::STREAM,
                // A queue of connections that is full is waited for otherwise.
                SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
                None,
            )?;
            let name = name(&entry.device, number);
            let processes = match connect(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?) {
                // A daemon whose queue is full is stopped, or was until now; others may have a socket that looks the same.
                Err(Errno::AGAIN) => {
                    let mut processes = sys::listeners(&name)?;
                    processes.sort_by_key(|(process, _)| !is_stopped(*process));
                    processes
                }
                connected => {
                    connected?;
                    let (process, user) = sys::peer(socket.as_fd())?;
                    Vec::from_iter(process.map(|process| (process, user)))
                }
            };
            let is_trusted = |user| user == 0 || entry.owner.is_none_or(|owner| owner == user);
            let trusted = processes.into_iter().find(|(_, user)| is_trusted(*user));
            let Some((id, _)) = trusted else { return Ok(None) };
            Ok(Some(Daemon { id, end: pidfd_open(id, PidfdFlags::empty())? }))
        };
        Self((0..NAMES).filter_map(|number| find(number).ok().flatten()).collect())
    }

    /// One that is stopped, if all are.
    fn stopped(&self) -> Option<Pid> {
        self.0.iter().all(|daemon| is_stopped(daemon.id)).then(|| self.0.first().map(|daemon| daemon.id))?
    }

    /// Waits for their end, at most some seconds. Returns the first one that goes on.
    pub(super) fn wait(self, place: &Path, is_lazy: bool) -> Option<RunningDaemon> {
        let limit = Instant::now() + if is_lazy { LAZY_PATIENCE } else { PATIENCE };
        let running = self.0.into_iter().find(|daemon| !ends(&daemon.end, limit))?;
        Some(RunningDaemon {
            place: place.to_owned(),
            process: running.id,
            is_lazy,
            is_stopped: is_stopped(running.id),
        })
    }
}

/// Fails if a path leads into a mount whose daemon is stopped: whatever is asked of it would wait.
pub fn check_running<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Result<(), MountError> {
    disk::find_stopped(|| {
        let ours = disk::list_all_mounts().unwrap_or_default().into_iter().filter(|mount| mount.kind == KPACKFS);
        let stopped = |mount: MountEntry| {
            let process = Daemons::of(&mount).stopped()?.as_raw_pid();
            Some(StoppedMount { mount_point: mount.mount_point, process })
        };
        ours.filter_map(stopped).collect()
    });
    paths.into_iter().try_for_each(|path| match disk::stopped_mount_of(path) {
        Some(mount) => Err(MountError::Stopped { path: path.to_owned(), mount }),
        None => Ok(()),
    })
}

/// Waits for the end of a process (`pidfd_open(2)`), until `limit`. Whether it has ended.
pub(crate) fn ends(process: &OwnedFd, limit: Instant) -> bool {
    let ended = retry_on_intr(|| {
        let left = limit.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).ok();
        poll(&mut [PollFd::new(process, PollFlags::IN)], timeout.as_ref())
    });
    ended.is_ok_and(|count| count > 0)
}

/// Whether a process is stopped: the state in `/proc/PID/stat` (proc(5)).
fn is_stopped(process: Pid) -> bool {
    let path = format!("/proc/{process}/stat");
    let stat = disk::read_to_string(Path::new(&path), Parser::Text).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with(['T', 't']))
}

/// A daemon that goes on after its mount was unmounted, with a sentence about it.
#[derive(Debug)]
pub struct RunningDaemon {
    place: PathBuf,
    process: Pid,
    is_lazy: bool,
    is_stopped: bool,
}

impl fmt::Display for RunningDaemon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, process, .. } = self;
        write!(f, "{}: unmounted, but its daemon (process {process}) holds the input: ", place.display())?;
        match (self.is_stopped, self.is_lazy) {
            (true, _) => write!(f, "it is stopped; `kill -CONT {process}` lets it end"),
            (false, true) => f.write_str("the mount is in use; it ends when the last user is gone"),
            (false, false) => write!(f, "it has not ended within {} seconds", PATIENCE.as_secs()),
        }
    }
}
