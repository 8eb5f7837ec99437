//! System calls that link files, or copy or share ranges inside the kernel, and which of them were refused.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use parking_lot::Mutex;
use rustix::fs::{AtFlags, CWD, copy_file_range, link, linkat};
use rustix::io::Errno;
use rustix::ioctl::{self, Setter, opcode};

use crate::rope::to_usize;

/// Whether output shares blocks with the input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::EnumString, strum::VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum Reflink {
    /// Where the filesystem supports it.
    #[default]
    Auto,
    /// Where blocks are equally aligned. Otherwise writing fails.
    Always,
    /// Never.
    Never,
}

/// How the kernel can copy a range of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Way {
    Share,
    Copy,
}

/// The system calls, which tests replace.
pub(super) trait SystemCalls: Sync {
    /// Shares blocks.
    fn share(&self, from: &File, offset: u64, to: &File, at: u64, length: u64) -> Result<(), Errno>;

    /// Copies bytes, and returns their number.
    fn copy(&self, from: &File, offset: u64, to: &File, at: u64, length: u64) -> Result<u64, Errno>;

    /// Gives a file another name.
    fn link(&self, file: &Path, name: &Path) -> Result<(), Errno> {
        link(file, name)
    }
}

/// Gives an open file a further name. A link to the name under which it was opened would be one to a symlink if that is one
/// (open(2), on `O_TMPFILE`). Without /proc it fails.
pub(super) fn link_open(file: &File, name: &Path) -> Result<(), Errno> {
    linkat(CWD, format!("/proc/self/fd/{}", file.as_raw_fd()), CWD, name, AtFlags::SYMLINK_FOLLOW)
}

/// Linux.
#[derive(Debug)]
pub(super) struct Linux;

/// The argument of `FICLONERANGE` (`linux/fs.h`).
#[repr(C)]
struct FileCloneRange {
    src_fd: i64,
    src_offset: u64,
    src_length: u64,
    dest_offset: u64,
}

/// `FICLONERANGE` (`linux/fs.h`): `_IOW(0x94, 13, struct file_clone_range)`.
const FICLONERANGE: ioctl::Opcode = opcode::write::<FileCloneRange>(0x94, 13);

impl SystemCalls for Linux {
    fn share(&self, from: &File, offset: u64, to: &File, at: u64, length: u64) -> Result<(), Errno> {
        let argument =
            FileCloneRange { src_fd: from.as_raw_fd().into(), src_offset: offset, src_length: length, dest_offset: at };
        #[expect(unsafe_code, reason = "a system call with a C structure")]
        // SAFETY: FICLONERANGE reads a structure of this form, which lives until the call returns, and nothing else.
        unsafe {
            ioctl::ioctl(to, Setter::<FICLONERANGE, FileCloneRange>::new(argument))
        }
    }

    fn copy(&self, from: &File, mut offset: u64, to: &File, mut at: u64, length: u64) -> Result<u64, Errno> {
        let length = to_usize(length);
        copy_file_range(from, Some(&mut offset), to, Some(&mut at), length).map(|copied| copied as u64)
    }
}

/// What is tried, and what was refused for which pair of filesystems.
#[derive(Debug)]
pub(super) struct Sharing<K> {
    pub(super) kernel: K,
    pub(super) reflink: Reflink,
    refused: Mutex<HashSet<(Way, DevicePair)>>,
}

/// The devices of two files.
pub(super) type DevicePair = (u64, u64);

impl<K> Sharing<K> {
    pub(super) fn new(kernel: K, reflink: Reflink) -> Self {
        Self { kernel, reflink, refused: Mutex::default() }
    }

    /// Whether a way should be tried. On filesystems that share blocks, copying in the kernel shares them, too.
    pub(super) fn may(&self, way: Way, pair: DevicePair) -> bool {
        let refused = || self.refused.lock().contains(&(way, pair));
        self.reflink != Reflink::Never && !refused()
    }

    /// Records an error after which another way is tried. Fails if it is an error of the disk.
    pub(super) fn falls_back(&self, way: Way, pair: DevicePair, error: Errno) -> io::Result<()> {
        match error {
            // Concerns these two filesystems, or the kernel.
            Errno::OPNOTSUPP | Errno::NOTTY | Errno::XDEV | Errno::NOSYS => {
                self.refused.lock().insert((way, pair));
                Ok(())
            }
            // Concerns these two files: their blocks, or how they are stored.
            Errno::INVAL | Errno::TXTBSY | Errno::PERM | Errno::BADF | Errno::OVERFLOW | Errno::MLINK => Ok(()),
            error => Err(error.into()),
        }
    }
}
