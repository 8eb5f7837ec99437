//! System calls that the standard library does not offer, each in a safe function.

use std::ffi::CStr;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::ptr;

use rustix::process::{Resource, Rlimit, getgid, getrlimit, getuid, setrlimit};

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// mount(2).
pub(crate) fn mount(source: &CStr, target: &CStr, kind: &CStr, flags: libc::c_ulong, options: &CStr) -> io::Result<()> {
    #[expect(unsafe_code, reason = "a system call")]
    // SAFETY: all pointers are to NUL-terminated strings that live until the call returns.
    let result = unsafe {
        libc::mount(source.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, options.as_ptr().cast::<libc::c_void>())
    };
    check(result).map(drop)
}

/// umount2(2).
pub(crate) fn umount(target: &CStr, flags: libc::c_int) -> io::Result<()> {
    #[expect(unsafe_code, reason = "a system call")]
    // SAFETY: the pointer is to a NUL-terminated string that lives until the call returns.
    let result = unsafe { libc::umount2(target.as_ptr(), flags) };
    check(result).map(drop)
}

/// Whether a daemon serves the filesystem at `path`. Uses statfs(2), because the kernel answers stat(2) from its cache
/// even if the daemon is gone.
pub(crate) fn probe(path: &CStr) -> io::Result<()> {
    #[expect(unsafe_code, reason = "a system call with a C structure")]
    // SAFETY: `statfs` is plain data for which zeros are valid; the path is NUL-terminated; both outlive the call.
    let result = unsafe {
        let mut answer: libc::statfs = mem::zeroed();
        libc::statfs(path.as_ptr(), &raw mut answer)
    };
    check(result).map(drop)
}

/// Takes over an open file that this process inherited, by its number.
pub(crate) fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    #[expect(unsafe_code, reason = "a system call, and a number that becomes a file")]
    // SAFETY: the first call fails unless the descriptor is open, and sets it to close in programs that this process
    // starts. Callers pass numbers that the user named, so nothing else in this process owns them.
    unsafe {
        check(libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC))?;
        Ok(OwnedFd::from_raw_fd(number))
    }
}

/// Enters a mount namespace (setns(2)). The process may have only one thread.
pub(crate) fn enter_namespace(namespace: &impl AsRawFd) -> io::Result<()> {
    #[expect(unsafe_code, reason = "a system call")]
    // SAFETY: the call takes numbers.
    let result = unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNS) };
    check(result).map(drop)
}

/// Raises the limit on open files to the hard limit (`RLIMIT_NOFILE`).
pub(crate) fn raise_open_files() -> io::Result<()> {
    let maximum = getrlimit(Resource::Nofile).maximum;
    Ok(setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?)
}

/// Real user and group of this process.
pub(crate) fn user_and_group() -> (u32, u32) {
    (getuid().as_raw(), getgid().as_raw())
}

/// Room for one control message with one file descriptor, aligned as `cmsghdr` has to be.
#[repr(C)]
union Control {
    header: libc::cmsghdr,
    room: [u8; 64],
}

/// Size of a file descriptor in a message.
const FD_SIZE: libc::c_uint = libc::c_int::BITS / 8;

/// Receives one file descriptor as a message (`SCM_RIGHTS`, see unix(7)). `None` if the other end was closed without
/// sending one.
pub(crate) fn receive_fd(socket: &UnixStream) -> io::Result<Option<OwnedFd>> {
    let mut byte = 0_u8;
    let mut control = Control { room: [0; 64] };
    let mut piece = libc::iovec { iov_base: ptr::from_mut(&mut byte).cast(), iov_len: 1 };
    #[expect(unsafe_code, reason = "a system call with a C structure")]
    // SAFETY: `msghdr` is plain data for which zeros are valid. Every pointer in it is to a local that outlives the
    // call, with its true length. The macros walk what the kernel wrote into `control`, within `msg_controllen`.
    // Nothing else owns a descriptor that was received.
    unsafe {
        let mut message: libc::msghdr = mem::zeroed();
        message.msg_iov = &raw mut piece;
        message.msg_iovlen = 1;
        message.msg_control = (&raw mut control).cast();
        message.msg_controllen = mem::size_of::<Control>();
        loop {
            let received = libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC);
            if received >= 0 {
                break;
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        if header.is_null()
            || (*header).cmsg_level != libc::SOL_SOCKET
            || (*header).cmsg_type != libc::SCM_RIGHTS
            || (*header).cmsg_len < libc::CMSG_LEN(FD_SIZE) as usize
        {
            return Ok(None);
        }
        let fd = libc::CMSG_DATA(header).cast::<RawFd>().read_unaligned();
        Ok((fd >= 0).then(|| OwnedFd::from_raw_fd(fd)))
    }
}

/// fork(2). Returns `None` in the child. Fails if this process has more than one thread, because the child of such a
/// process may hardly do anything.
pub(crate) fn fork() -> io::Result<Option<libc::pid_t>> {
    if std::fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::other("there are several threads already"));
    }
    #[expect(unsafe_code, reason = "a system call")]
    // SAFETY: this process has one thread, so that the child is a complete copy of it.
    let result = unsafe { libc::fork() };
    check(result).map(|pid| (pid != 0).then_some(pid))
}

/// Waits for the end of a child.
pub(crate) fn wait(child: libc::pid_t) -> io::Result<ExitStatus> {
    let mut status = 0;
    #[expect(unsafe_code, reason = "a system call")]
    // SAFETY: the pointer is to a local that outlives the call.
    let result = unsafe { libc::waitpid(child, &raw mut status, 0) };
    check(result).map(|_| ExitStatus::from_raw(status))
}

/// Leaves the terminal's session, so that neither its end nor its signal keys reach this process.
pub(crate) fn new_session() -> io::Result<()> {
    #[expect(unsafe_code, reason = "a system call")]
    // SAFETY: the call takes nothing.
    let result = unsafe { libc::setsid() };
    check(result).map(drop)
}

/// Makes `file` the standard input, output and error.
pub(crate) fn become_stdio(file: &impl AsRawFd) -> io::Result<()> {
    for standard in 0..=2 {
        #[expect(unsafe_code, reason = "a system call")]
        // SAFETY: no Rust object owns the descriptors 0 to 2. Replacing them is the purpose of this function.
        let result = unsafe { libc::dup2(file.as_raw_fd(), standard) };
        check(result)?;
    }
    Ok(())
}
