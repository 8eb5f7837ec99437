//! Opening and reading regular files.
//!
//! All files of inputs, installations and caches are opened here. `clippy.toml` forbids the functions of std that would
//! wait for the writer of a FIFO.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::path::Path;

use rocm_kpack::{open_regular, open_regular_with};

use super::lock::Deadline;

/// Opens a regular file for reading. Fails with [`NotRegular`](super::NotRegular) for everything else.
///
/// Waits for another process that has a lease on the file, but not longer than for a lock.
pub(crate) fn open(path: &Path) -> io::Result<(File, Metadata)> {
    Deadline::of_locks().retry(|| open_regular(path))
}

/// Opens a file that was regular when it was listed. It costs a system call less than [`open`].
pub(crate) fn open_listed(path: &Path) -> io::Result<File> {
    open_with(path, File::options().read(true), 0)
}

/// Like [`open_listed`], with other options and further flags for open(2).
pub(crate) fn open_with(path: &Path, options: &mut OpenOptions, flags: i32) -> io::Result<File> {
    Deadline::of_locks().retry(|| open_regular_with(path, options, flags)).map(|(file, _)| file)
}

/// All bytes of a regular file.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.0.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The text of a regular file.
pub(crate) fn read_to_string(path: &Path) -> io::Result<String> {
    io::read_to_string(open(path)?.0)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::AsRawFd;
    use std::thread;

    use super::*;

    /// As Samba and NFS servers do for files that clients write to. The kernel asks for it back by a signal.
    #[expect(unsafe_code, reason = "rustix has no leases")]
    fn lease(file: &File, kind: i32) {
        /// `F_SETSIG` of linux/fcntl.h, which libc lacks.
        const SET_SIGNAL: i32 = 10;
        // SAFETY: fcntl(2) takes numbers only. SIGURG is ignored by default.
        unsafe {
            assert_eq!(libc::fcntl(file.as_raw_fd(), SET_SIGNAL, libc::SIGURG), 0);
            assert_eq!(libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, kind), 0);
        }
    }

    #[test]
    fn a_lease_is_waited_for() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        fs::write(&path, "text").unwrap();
        let holder = File::options().read(true).write(true).open(&path).unwrap();
        lease(&holder, libc::F_WRLCK);
        let refused = rocm_kpack::open_regular(&path).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
        thread::scope(|scope| {
            let reading = scope.spawn(|| read_to_string(&path));
            lease(&holder, libc::F_UNLCK);
            assert_eq!(reading.join().unwrap().unwrap(), "text");
        });
    }
}
