//! The FUSE protocol (`include/uapi/linux/fuse.h`, version 7.42): requests as the kernel writes them into the buffers of an
//! entry of a ring, and replies. Those that were read from `/dev/fuse` take the same form. All numbers are in the machine's
//! byte order.

use std::time::{SystemTime, UNIX_EPOCH};

use fuser::FopenFlags;
use rustix::io::Errno;

use super::filesystem::{BLOCK, LONGEST_NAME, Usage};
use super::nodes::{FileKind, NodeAttributes};
use super::waiting::RequestId;
use crate::tree::NodeId;

/// Bytes of `struct fuse_uring_req_header`: 128 for the common header of a request or a reply, 128 for the header of the
/// operation, and `struct fuse_uring_ent_in_out`.
pub const HEADER: usize = 288;
const OPERATION: usize = 128;
const ENTRY: usize = 256;

/// Bytes of `struct fuse_in_header`, `struct fuse_getxattr_in` and `struct fuse_batch_forget_in`.
const IN_HEADER: usize = 40;
const GETXATTR: usize = 8;
const FORGET: usize = 8;

/// Offsets in `struct fuse_uring_ent_in_out`.
const COMMIT_ID: usize = ENTRY + 8;
const PAYLOAD_SIZE: usize = ENTRY + 16;

/// Bytes of `struct fuse_out_header`: length, error, number of the request.
const OUT_HEADER: u32 = 16;

/// `FUSE_WRITE_CACHE`: the bytes are in the page cache already.
const WRITE_CACHE: u32 = 1;

/// Seconds. Nothing in a tree changes while it is mounted, so the kernel may cache answers for ever.
const FOREVER: u64 = 10 * 365 * 24 * 3600;

/// The preferred size of reads (`st_blksize`): that of the kernel's default readahead.
const BLOCK_SIZE: u32 = 128 * 1024;

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    pub(super) id: RequestId,
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

impl<'a> Request<'a> {
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
        let operation = match operation(header) {
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
        let id = RequestId { number: u64_at(header, 8), thread: u32_at(header, 32) };
        Some(Self { id, node: node(header), operation })
    }
}

/// A request that was read from `/dev/fuse`: the header of its operation follows its own, and then the payload.
pub(super) fn in_form_of_rings(request: &[u8]) -> ([u8; HEADER], &[u8]) {
    let mut header = [0; HEADER];
    let (own, rest) = request.split_at(request.len().min(IN_HEADER));
    fill(&mut header, 0, own);
    let length = match operation(&header) {
        // LOOKUP
        1 => 0,
        // BATCH_FORGET
        42 => FORGET,
        22 => GETXATTR,
        _ => OPERATION,
    };
    let (argument, payload) = rest.split_at(rest.len().min(length));
    fill(&mut header, OPERATION, argument);
    fill(&mut header, PAYLOAD_SIZE, &u32::try_from(payload.len()).unwrap_or(u32::MAX).to_ne_bytes());
    (header, payload)
}

fn fill(header: &mut [u8; HEADER], at: usize, bytes: &[u8]) {
    if let Some(field) = header.get_mut(at..at + bytes.len()) {
        field.copy_from_slice(bytes);
    }
}

/// `enum fuse_opcode`
pub(super) fn operation(header: &[u8; HEADER]) -> u32 {
    u32_at(header, 4)
}

/// The inode number.
pub(super) fn node(header: &[u8; HEADER]) -> NodeId {
    u64_at(header, 16)
}

/// The number of the request that an INTERRUPT is about.
pub(super) fn interrupted(header: &[u8; HEADER]) -> u64 {
    u64_at(header, OPERATION)
}

/// The inodes of a `BATCH_FORGET`: each `struct fuse_forget_one` begins with its number.
pub(super) fn forgotten(payload: &[u8]) -> impl Iterator<Item = NodeId> {
    payload.as_chunks::<16>().0.iter().filter_map(|one| one.first_chunk()).map(|node| u64::from_ne_bytes(*node))
}

/// The header of a reply.
pub(super) fn out_header(header: &[u8; HEADER]) -> &[u8] {
    header.get(..OUT_HEADER as usize).unwrap_or_default()
}

/// The number by which the kernel finds the request of a reply.
pub(super) fn commit_id(header: &[u8; HEADER]) -> u64 {
    u64_at(header, COMMIT_ID)
}

/// Replaces the request in a header by the reply, whose payload has this length.
pub(super) fn set_reply(header: &mut [u8; HEADER], result: Result<u32, Errno>) {
    let (length, error) = result.map_or_else(|error| (0, -error.raw_os_error()), |length| (length, 0));
    // The number of the request follows, where the kernel has written it.
    fill(header, 0, [(OUT_HEADER + length).to_ne_bytes(), error.to_ne_bytes()].as_flattened());
    fill(header, PAYLOAD_SIZE, &length.to_ne_bytes());
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
        match found {
            Some(found) => self.entry_for(found, name_ttl(found), ttl(found)),
            // Unlike ENOENT, the inode number 0 lets the kernel cache the absence of a name.
            None => self.numbers([0, 0, FOREVER, FOREVER, 0, 0, 0, 0, 0, 0, 0]).small([
                0,
                0,
                0,
                libc::S_IFREG,
                0,
                0,
                0,
                0,
                0,
                0,
            ]),
        }
    }

    fn entry_for(&mut self, found: &NodeAttributes, name_ttl: u64, ttl: u64) -> &mut Self {
        self.numbers([found.number, 0, name_ttl, ttl]).small([0, 0]).node(found)
    }

    /// `struct fuse_attr_out`
    pub(super) fn attributes(&mut self, found: &NodeAttributes) -> &mut Self {
        self.numbers([ttl(found), 0]).node(found)
    }

    /// `struct fuse_attr`
    fn node(&mut self, found: &NodeAttributes) -> &mut Self {
        let (seconds, nanoseconds) = since_epoch(found.time);
        let size = found.size.unwrap_or(0);
        // A short symlink lies in the inode itself.
        let blocks = if found.kind == FileKind::Symlink { 0 } else { size.div_ceil(512) };
        let mode = kind_bits(found.kind) | u32::from(found.mode);
        self.numbers([found.number, size, blocks])
            .numbers([seconds.cast_unsigned(); 3])
            .small([nanoseconds; 3])
            .small([mode, found.links, found.uid, found.gid, 0, BLOCK_SIZE, 0])
    }

    /// `struct fuse_open_out`
    pub(super) fn open(&mut self, handle: u64, flags: FopenFlags, backing: u32) -> &mut Self {
        self.numbers([handle]).small([flags.bits(), backing])
    }

    /// `struct fuse_getxattr_out`
    pub(super) fn attribute_size(&mut self, size: usize) -> &mut Self {
        self.small([u32::try_from(size).unwrap_or(u32::MAX), 0])
    }

    /// `struct fuse_kstatfs`: all used, nothing free.
    pub(super) fn usage(&mut self, usage: Usage) -> &mut Self {
        self.numbers([usage.blocks, 0, 0, usage.nodes, 0]).small([BLOCK, LONGEST_NAME, BLOCK, 0]).small([0; 6])
    }

    /// `struct fuse_direntplus`
    pub(super) fn name_and_attributes(&mut self, next: u64, name: &[u8], found: &NodeAttributes) -> &mut Self {
        let ttl = ttl(found).min(name_ttl(found));
        self.entry_for(found, ttl, ttl).name(found.number, next, found.kind, name)
    }

    /// `struct fuse_dirent`, padded to 8 bytes.
    pub(super) fn name(&mut self, number: NodeId, next: u64, kind: FileKind, name: &[u8]) -> &mut Self {
        let length = u32::try_from(name.len()).unwrap_or(0);
        let padding = [0; 8];
        let padding = padding.get(..name.len().next_multiple_of(8) - name.len()).unwrap_or_default();
        self.numbers([number, next]).small([length, kind_bits(kind) >> 12]).bytes(name).bytes(padding)
    }
}

/// How many seconds the kernel may cache attributes.
fn ttl(found: &NodeAttributes) -> u64 {
    if found.size.is_some() { FOREVER } else { 0 }
}

/// How many seconds the kernel may cache a name.
fn name_ttl(found: &NodeAttributes) -> u64 {
    if found.is_live { 0 } else { FOREVER }
}

/// The bits of `st_mode`.
fn kind_bits(kind: FileKind) -> u32 {
    match kind {
        FileKind::Directory => libc::S_IFDIR,
        FileKind::Symlink => libc::S_IFLNK,
        FileKind::File => libc::S_IFREG,
    }
}

/// Seconds and nanoseconds since the epoch. Seconds before it are negative, nanoseconds never.
fn since_epoch(time: SystemTime) -> (i64, u32) {
    let seconds = |duration: std::time::Duration| i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => (seconds(after), after.subsec_nanos()),
        Err(before) => match (seconds(before.duration()), before.duration().subsec_nanos()) {
            (seconds, 0) => (-seconds, 0),
            (seconds, nanoseconds) => (-seconds - 1, 1_000_000_000 - nanoseconds),
        },
    }
}
