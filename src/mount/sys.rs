//! System calls that take more than one step, each in a safe function.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use rustix::cmsg_space;
use rustix::io::retry_on_intr;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{Pid, Resource, Rlimit, WaitOptions, getrlimit, setrlimit, waitpid};

use super::error::{FORK, MountError};
use crate::disk;
use crate::memory::Parser;

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Takes over an open file that this process inherited, by its number.
pub(super) fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    #[expect(unsafe_code, reason = "a number becomes a file")]
    // SAFETY: the first call fails unless the descriptor is open, and sets it to close in programs that this process
    // starts. Callers pass numbers that the user named, so nothing else in this process owns them.
    unsafe {
        check(libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC))?;
        Ok(OwnedFd::from_raw_fd(number))
    }
}

/// Closes the files from number 3 that this process inherited: all that it opens itself close in programs which it starts.
pub(super) fn close_inherited() -> io::Result<()> {
    let numbers = std::fs::read_dir(FILES)?.flatten().filter_map(|file| file.file_name().to_str()?.parse().ok());
    for number in numbers.filter(|&number: &RawFd| number > libc::STDERR_FILENO).collect::<Vec<_>>() {
        #[expect(unsafe_code, reason = "a number is asked for its flags, and closed")]
        // SAFETY: std and rustix open each file with FD_CLOEXEC, so nothing in this process owns one without it.
        unsafe {
            if libc::fcntl(number, libc::F_GETFD) == 0 {
                libc::close(number);
            }
        }
    }
    Ok(())
}

/// Raises the limit on open files to the hard limit (`RLIMIT_NOFILE`).
pub(crate) fn raise_open_files() -> io::Result<()> {
    let maximum = getrlimit(Resource::Nofile).maximum;
    Ok(setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?)
}

/// Receives one file descriptor as a message (`SCM_RIGHTS`, see unix(7)). `None` if the other end was closed without
/// sending one.
pub(super) fn receive_fd(socket: &UnixStream) -> io::Result<Option<OwnedFd>> {
    let mut byte = [0];
    let mut room = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut room);
    retry_on_intr(|| recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC))?;
    Ok(control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    }))
}

/// The directory that has an entry for each open file of this process.
const FILES: &str = "/proc/self/fd";

/// The directory that has an entry for each thread of this process.
const THREADS: &str = "/proc/self/task";

/// The list of Unix sockets, and the flags there of one that listens.
const SOCKETS: &str = "/proc/net/unix";
const LISTENS: &str = "00010000";

/// The process at the other end of a connected Unix socket, and its user (`SO_PEERCRED`, see unix(7)). `None` if this process
/// cannot see it.
pub(super) fn peer(socket: BorrowedFd<'_>) -> io::Result<(Option<Pid>, u32)> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = libc::socklen_t::try_from(size_of_val(&peer)).map_err(io::Error::other)?;
    #[expect(unsafe_code, reason = "rustix takes the ID of a process outside of this PID namespace, 0, for a process")]
    // SAFETY: the kernel writes at most `length` bytes to a local of that size.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut length,
        )
    };
    check(result)?;
    Ok((Pid::from_raw(peer.pid), peer.uid))
}

/// The processes that have an abstract Unix socket with this name open at which one listens, and their users (proc(5)). Only those that this
/// process can see. A socket that is bound to a relative path with `@` looks the same.
pub(super) fn listeners(name: &str) -> io::Result<Vec<(Pid, u32)>> {
    let sockets = disk::read_to_string(Path::new(SOCKETS), Parser::Text)?;
    let socket = |line: &str| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let [_, _, _, LISTENS, _, _, number, path] = *fields else { return None };
        (path.strip_prefix('@') == Some(name)).then(|| format!("socket:[{number}]"))
    };
    let sockets: Vec<_> = sockets.lines().filter_map(socket).collect();
    let has_one = |process: &PathBuf| {
        let files = std::fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        let mut open = files.filter_map(|file| file.path().read_link().ok());
        open.any(|open| sockets.iter().any(|socket| open.as_os_str() == socket.as_str()))
    };
    let processes = std::fs::read_dir("/proc")?.flatten().map(|entry| entry.path()).filter(has_one);
    let found = processes.filter_map(|process| {
        let number = process.file_name()?.to_str()?.parse().ok()?;
        Some((Pid::from_raw(number)?, user(&process)?))
    });
    Ok(found.collect())
}

/// The real user of a process. The owner of its directory is root if the process is not dumpable (proc(5)).
fn user(process: &Path) -> Option<u32> {
    let status = disk::read_to_string(&process.join("status"), Parser::Text).ok()?;
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    users.split_whitespace().next()?.parse().ok()
}

/// fork(2). Returns `None` in the child. Fails if this process has more than one thread, because the child of such a
/// process may hardly do anything.
pub(super) fn fork() -> Result<Option<Pid>, MountError> {
    if std::fs::read_dir(THREADS).map_err(MountError::system(THREADS))?.count() != 1 {
        return Err(MountError::system(FORK)(io::Error::other("there are several threads already")));
    }
    #[expect(unsafe_code, reason = "rustix has no safe fork")]
    // SAFETY: this process has one thread, so that the child is a complete copy of it.
    let result = unsafe { libc::fork() };
    check(result).map(Pid::from_raw).map_err(MountError::system(FORK))
}

/// Waits for the end of a child.
pub(super) fn wait(child: Pid) -> io::Result<ExitStatus> {
    let ended = waitpid(Some(child), WaitOptions::empty())?;
    // Without `NOHANG` there is an answer.
    Ok(ExitStatus::from_raw(ended.map_or(0, |(_, status)| status.as_raw())))
}
