//! An archive in a file: mapped where that is safe, otherwise read.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use memmap2::Mmap;

use crate::error::{Error, malformed};
use crate::regular::open_regular;
use crate::source::Source;

/// A file that is open for reading.
///
/// Archives are taken for immutable releases. Each load first compares size and modification time with those at
/// opening. If they changed, it fails with an I/O error, and so do all later loads. If a mapped file shrinks during a
/// load, or a page of it cannot be read, the process ends with SIGBUS. Therefore only files on local filesystems are
/// mapped. There, SIGBUS needs a program that truncates an installed file during a load, or a broken disk. All other
/// files (FUSE, NFS, …) are read with pread, which returns an error in both cases.
#[derive(Debug)]
pub struct ArchiveFile {
    file: File,
    stamp: FileStamp,
    map: Option<Mmap>,
}

/// Tells whether a file was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileStamp {
    size: u64,
    seconds: i64,
    nanoseconds: i64,
}

/// Local filesystems, by their numbers in `statfs` (linux/magic.h; ZFS has its own).
const LOCAL: [u64; 10] = [
    0xEF53,      // ext2, ext3, ext4
    0x5846_5342, // XFS
    0x9123_683E, // Btrfs
    0xF2F5_2010, // F2FS
    0x2FC1_2FC1, // ZFS
    0x0102_1994, // tmpfs
    0x8584_58F6, // ramfs
    0x794C_7630, // overlayfs
    0x7371_7368, // SquashFS
    0xE0F5_E1E2, // EROFS
];

impl ArchiveFile {
    /// Opens a regular file. Its first bytes are not read yet.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let (file, metadata) = open_regular(path).map_err(|error| {
            match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Error::FileNotFound,
                // As rocm-kpack's library answers, which opens a directory and reads no header there.
                _ if path.is_dir() => malformed(error.to_string()),
                _ => Error::Read(error),
            }
        })?;
        let stamp = FileStamp::of(&metadata);
        // Mapping may fail for lack of address space, or because a filesystem does not support it. Reading works as
        // well.
        let map = if stamp.size > 0 && is_local(&file) { map(&file).ok() } else { None };
        Ok(Self { file, stamp, map })
    }

    /// Whether it is mapped.
    pub fn is_mapped(&self) -> bool {
        self.map.is_some()
    }
}

#[expect(unsafe_code, reason = "mapping a file")]
fn map(file: &File) -> io::Result<Mmap> {
    // SAFETY: the file may be changed by others, which `ArchiveFile` checks for as far as possible.
    unsafe { Mmap::map(file) }
}

#[expect(unsafe_code, reason = "std has no fstatfs")]
fn is_local(file: &File) -> bool {
    let mut answer = std::mem::MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the descriptor is open, and `answer` is as large as the kernel's answer, which is read only if there is one.
    let kind = unsafe {
        if libc::fstatfs(file.as_raw_fd(), answer.as_mut_ptr()) != 0 {
            return false;
        }
        answer.assume_init().f_type
    };
    u64::try_from(kind).is_ok_and(|kind| LOCAL.contains(&kind))
}

impl FileStamp {
    fn of(metadata: &std::fs::Metadata) -> Self {
        Self { size: metadata.size(), seconds: metadata.mtime(), nanoseconds: metadata.mtime_nsec() }
    }
}

impl Source for ArchiveFile {
    fn size(&self) -> u64 {
        self.stamp.size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        // Copying out of the mapping would be no faster, and could access a page that no longer exists.
        self.file.read_exact_at(buffer, offset)
    }

    fn file(&self) -> Option<&File> {
        Some(&self.file)
    }

    fn borrow(&self, offset: u64, length: usize) -> Option<&[u8]> {
        self.map.as_deref()?.get(usize::try_from(offset).ok()?..)?.get(..length)
    }

    fn check(&self) -> io::Result<()> {
        if FileStamp::of(&self.file.metadata()?) == self.stamp {
            Ok(())
        } else {
            Err(io::Error::other("it was changed since it was opened"))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_changed_file_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "some bytes").unwrap();
        let file = ArchiveFile::open(&path).unwrap();
        let mut bytes = [0; 5];
        file.read_at(5, &mut bytes).unwrap();
        assert_eq!(&bytes, b"bytes");
        assert!(file.read_at(6, &mut bytes).is_err());
        file.check().unwrap();
        fs::File::options().write(true).open(&path).unwrap().set_len(4).unwrap();
        assert!(file.check().is_err());
        // If the file is replaced, as package managers do, the old one keeps its bytes.
        fs::write(&path, "other bytes").unwrap();
        let file = ArchiveFile::open(&path).unwrap();
        fs::remove_file(&path).unwrap();
        file.check().unwrap();
        file.read_at(6, &mut bytes).unwrap();
        assert_eq!(&bytes, b"bytes");
    }

    #[test]
    fn what_is_no_file_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        assert!(matches!(ArchiveFile::open(directory.path()), Err(Error::Malformed(_))));
        for missing in ["nothing", "a/b"] {
            assert!(matches!(ArchiveFile::open(&directory.path().join(missing)), Err(Error::FileNotFound)));
        }
    }

    #[test]
    fn only_local_files_are_mapped() {
        let file = ArchiveFile::open(Path::new("/proc/version")).unwrap();
        assert!(!file.is_mapped());
    }
}
