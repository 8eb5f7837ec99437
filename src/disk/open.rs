//! Opening and reading regular files.
//!
//! All files of inputs, installations and caches are opened here. `clippy.toml` forbids the functions of std that would
//! wait for the writer of a FIFO.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rocm_kpack::{open_regular, open_regular_with};

use super::lock::Deadline;
use super::new_file::parent;
use crate::memory::{Parser, WholeFile};

/// Bytes that are read of a file that the kernel generates. /proc/PID/maps has at most 65,530 lines of some 100 bytes.
const GENERATED: u64 = 8 << 20;

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

/// The regular file at a path, without symlinks. `None` if there is none, or if symlinks lead out of the directory of the
/// path: what is there is not of the user's choice.
pub(crate) fn beside(path: &Path) -> Option<PathBuf> {
    let (directory, real) = (parent(path).canonicalize().ok()?, path.canonicalize().ok()?);
    (real.starts_with(directory) && real.is_file()).then_some(real)
}

/// All bytes of a regular file, as far as the parser may read them.
pub(crate) fn read(path: &Path, parser: Parser) -> io::Result<WholeFile> {
    let (file, metadata) = open(path)?;
    // Files of procfs and sysfs have the size 0, and others may grow meanwhile.
    let is_generated = metadata.len() == 0;
    let length = if is_generated { GENERATED.min(parser.ceiling()) } else { metadata.len() };
    WholeFile::new(parser, length, |bytes| {
        bytes.clear();
        let read = file.take(length).read_to_end(bytes)? as u64;
        if is_generated && read == length { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(()) }
    })
}

/// The text of a regular file, as far as the parser may read it.
pub(crate) fn read_to_string(path: &Path, parser: Parser) -> io::Result<String> {
    let text = read(path, parser)?.into_bytes();
    String::from_utf8(text).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
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
    fn larger_files_are_refused() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        let file = File::create(&path).unwrap();
        file.set_len(5).unwrap();
        assert_eq!(read(&path, Parser::Statement).unwrap()[..], [0; 5]);
        // A sparse file, of which nothing is allocated in advance.
        file.set_len(1 << 40).unwrap();
        assert_eq!(read_to_string(&path, Parser::Text).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        // Its size is 0.
        assert!(!read_to_string(Path::new("/proc/self/stat"), Parser::Text).unwrap().is_empty());
        file.set_len(0).unwrap();
        for parser in Parser::all() {
            assert!(read(&path, parser).unwrap().is_empty(), "{parser:?}");
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
            let reading = scope.spawn(|| read_to_string(&path, Parser::Text));
            lease(&holder, libc::F_UNLCK);
            assert_eq!(reading.join().unwrap().unwrap(), "text");
        });
    }
}
