//! The part of the FUSE protocol that travels through rings (`include/uapi/linux/fuse.h`, version 7.42): requests as the
//! kernel writes them into the buffers of an entry, and replies. All numbers are in the machine's byte order.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileType, FopenFlags};
use rustix::io::Errno;

use crate::fs::attributes::{FOREVER, NOTHING, attributes, name_ttl};
use crate::fs::filesystem::{BLOCK, LONGEST_NAME, Usage};
use crate::fs::nodes::NodeAttributes;
use crate::tree::NodeId;

/// Bytes of `struct fuse_uring_req_header`: 128 for the common header of a request or a reply, 128 for the header of the
/// operation, and `struct fuse_uring_ent_in_out`.
pub const HEADER: usize = 288;
const OPERATION: usize = 128;
const ENTRY: usize = 256;

/// Offsets in `struct fuse_uring_ent_in_out`.
const COMMIT_ID: usize = ENTRY + 8;
const PAYLOAD_SIZE: usize = ENTRY + 16;

/// Bytes of `struct fuse_out_header`: length, error, number of the request.
const OUT_HEADER: u32 = 16;

/// `FUSE_WRITE_CACHE`: the bytes are in the page cache already.
const WRITE_CACHE: u32 = 1;

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingRequest<'a> {
    /// The inode number.
    pub node: NodeId,
    /// What is asked.
    pub operation: Operation<'a>,
}

/// What is asked, as far as it matters to an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of the protocol")]
pub enum Operation<'a> {
    Lookup {
        name: &'a [u8],
    },
    Getattr,
    Readlink,
    Open {
        flags: u32,
    },
    Read {
        offset: u64,
        size: u32,
    },
    Release {
        handle: u64,
    },
    Readdir {
        offset: u64,
        size: u32,
    },
    Readdirplus {
        offset: u64,
        size: u32,
    },
    Getxattr {
        name: &'a [u8],
        size: u32,
    },
    Listxattr {
        size: u32,
    },
    Statfs,
    Write {
        is_in_pages: bool,
    },
    /// Any other change of the filesystem.
    Change,
    /// What is not served.
    Other,
}

impl<'a> RingRequest<'a> {
    /// Reads a request. `None` if it is not valid.
    pub fn decode(header: &[u8; HEADER], payload: &'a [u8]) -> Option<Self> {
        let name = || {
            let bytes = payload.get(..u32_at(header, PAYLOAD_SIZE) as usize)?;
            bytes.get(..bytes.iter().position(|&byte| byte == 0)?)
        };
        // READ, READDIR and READDIRPLUS: file handle, offset, size (`struct fuse_read_in`).
        let (first, offset, size) =
            (u64_at(header, OPERATION), u64_at(header, OPERATION + 8), u32_at(header, OPERATION + 16));
        // `enum fuse_opcode`
        let operation = match u32_at(header, 4) {
            1 => Operation::Lookup { name: name()? },
            3 => Operation::Getattr,
            5 => Operation::Readlink,
            14 => Operation::Open { flags: u32_at(header, OPERATION) },
            15 => Operation::Read { offset, size },
            // `write_flags` of `struct fuse_write_in`
            16 => Operation::Write { is_in_pages: u32_at(header, OPERATION + 20) & WRITE_CACHE != 0 },
            17 => Operation::Statfs,
            // Of a file, and of a directory.
            18 | 29 => Operation::Release { handle: first },
            22 => Operation::Getxattr { name: name()?, size: u32_at(header, OPERATION) },
            23 => Operation::Listxattr { size: u32_at(header, OPERATION) },
            28 => Operation::Readdir { offset, size },
            44 => Operation::Readdirplus { offset, size },
            // SETATTR, SYMLINK, MKNOD, MKDIR, UNLINK, RMDIR, RENAME, LINK, SETXATTR, REMOVEXATTR, CREATE, FALLOCATE,
            // RENAME2, COPY_FILE_RANGE
            4 | 6 | 8..=13 | 21 | 24 | 35 | 43 | 45 | 47 => Operation::Change,
            _ => Operation::Other,
        };
        Some(Self { node: u64_at(header, 16), operation })
    }
}

/// The number by which the kernel finds the request of a reply.
pub(super) fn commit_id(header: &[u8; HEADER]) -> u64 {
    u64_at(header, COMMIT_ID)
}

/// Replaces the request in a header by the reply, whose payload has this length.
pub(super) fn set_reply(header: &mut [u8; HEADER], result: Result<u32, Errno>) {
    let (length, error) = result.map_or_else(|error| (0, -error.raw_os_error()), |length| (length, 0));
    let reply = [(OUT_HEADER + length).to_ne_bytes(), error.to_ne_bytes()];
    // The number of the request follows, where the kernel has written it.
    for (field, value) in [(0, reply.as_flattened()), (PAYLOAD_SIZE, &length.to_ne_bytes())] {
        if let Some(field) = header.get_mut(field..field + value.len()) {
            field.copy_from_slice(value);
        }
    }
}

fn u32_at(bytes: &[u8; HEADER], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |field| u32::from_ne_bytes(*field))
}

fn u64_at(bytes: &[u8; HEADER], at: usize) -> u64 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |field| u64::from_ne_bytes(*field))
}

/// Writes a reply into a payload.
#[derive(Debug)]
pub(super) struct PayloadWriter<'a> {
    room: &'a mut [u8],
    length: usize,
    is_full: bool,
}

impl<'a> PayloadWriter<'a> {
    /// Appends to the first `length` bytes of `room`.
    pub(super) fn after(length: usize, room: &'a mut [u8]) -> Self {
        Self { room, length, is_full: false }
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        match self.room.get_mut(self.length..self.length + bytes.len()) {
            Some(room) => {
                room.copy_from_slice(bytes);
                self.length += bytes.len();
            }
            None => self.is_full = true,
        }
        self
    }

    fn numbers<const N: usize>(&mut self, numbers: [u64; N]) -> &mut Self {
        self.bytes(numbers.map(u64::to_ne_bytes).as_flattened())
    }

    fn small<const N: usize>(&mut self, numbers: [u32; N]) -> &mut Self {
        self.bytes(numbers.map(u32::to_ne_bytes).as_flattened())
    }

    /// The length of the reply. `None` if it does not fit.
    pub(super) fn length(&self) -> Option<usize> {
        (!self.is_full).then_some(self.length)
    }

    /// `struct fuse_entry_out`
    pub(super) fn entry(&mut self, found: Option<&NodeAttributes>) -> &mut Self {
        let (ttl, name_ttl, attributes) = match found {
            Some(found) => {
                let (ttl, attributes) = attributes(found);
                (ttl, name_ttl(found), attributes)
            }
            // Unlike ENOENT, the inode number 0 lets the kernel cache the absence of a name.
            None => (FOREVER, FOREVER, NOTHING),
        };
        self.entry_for(name_ttl, ttl, &attributes)
    }

    fn entry_for(&mut self, name_ttl: Duration, ttl: Duration, attributes: &FileAttr) -> &mut Self {
        self.numbers([attributes.ino.0, 0, name_ttl.as_secs(), ttl.as_secs()])
            .small([name_ttl.subsec_nanos(), ttl.subsec_nanos()])
            .file_attributes(attributes)
    }

    /// `struct fuse_attr_out`
    pub(super) fn attributes(&mut self, found: &NodeAttributes) -> &mut Self {
        let (ttl, attributes) = attributes(found);
        self.numbers([ttl.as_secs()]).small([ttl.subsec_nanos(), 0]).file_attributes(&attributes)
    }

    /// `struct fuse_attr`
    fn file_attributes(&mut self, found: &FileAttr) -> &mut Self {
        let [access, change, status] = [found.atime, found.mtime, found.ctime].map(since_epoch);
        let mode = kind_bits(found.kind) | u32::from(found.perm);
        self.numbers([found.ino.0, found.size, found.blocks])
            .numbers([access, change, status].map(|(seconds, _)| seconds.cast_unsigned()))
            .small([access, change, status].map(|(_, nanoseconds)| nanoseconds))
            .small([mode, found.nlink, found.uid, found.gid, found.rdev, found.blksize, found.flags])
    }

    /// `struct fuse_open_out`
    pub(super) fn open(&mut self, handle: u64, flags: FopenFlags, backing: u32) -> &mut Self {
        self.numbers([handle]).small([flags.bits(), backing])
    }

    /// `struct fuse_getxattr_out`
    pub(super) fn attribute_size(&mut self, size: u32) -> &mut Self {
        self.small([size, 0])
    }

    /// `struct fuse_kstatfs`: all used, nothing free.
    pub(super) fn usage(&mut self, usage: Usage) -> &mut Self {
        self.numbers([usage.blocks, 0, 0, usage.nodes, 0]).small([BLOCK, LONGEST_NAME, BLOCK, 0]).small([0; 6])
    }

    /// `struct fuse_direntplus`
    pub(super) fn name_and_attributes(&mut self, next: u64, name: &[u8], found: &NodeAttributes) -> &mut Self {
        let (ttl, attributes) = attributes(found);
        // As over /dev/fuse, where an entry has only one time for name and attributes.
        let ttl = ttl.min(name_ttl(found));
        self.entry_for(ttl, ttl, &attributes).name(found.number, next, attributes.kind, name)
    }

    /// `struct fuse_dirent`, padded to 8 bytes.
    pub(super) fn name(&mut self, number: NodeId, next: u64, kind: FileType, name: &[u8]) -> &mut Self {
        let length = u32::try_from(name.len()).unwrap_or(0);
        let padding = [0; 8];
        let padding = padding.get(..name.len().next_multiple_of(8) - name.len()).unwrap_or_default();
        self.numbers([number, next]).small([length, kind_bits(kind) >> 12]).bytes(name).bytes(padding)
    }
}

/// The bits of `st_mode`.
fn kind_bits(kind: FileType) -> u32 {
    match kind {
        FileType::Directory => libc::S_IFDIR,
        FileType::Symlink => libc::S_IFLNK,
        _ => libc::S_IFREG,
    }
}

/// Seconds and nanoseconds since the epoch. Seconds before it are negative, nanoseconds never.
fn since_epoch(time: SystemTime) -> (i64, u32) {
    let seconds = |duration: Duration| i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => (seconds(after), after.subsec_nanos()),
        Err(before) => match (seconds(before.duration()), before.duration().subsec_nanos()) {
            (seconds, 0) => (-seconds, 0),
            (seconds, nanoseconds) => (-seconds - 1, 1_000_000_000 - nanoseconds),
        },
    }
}
