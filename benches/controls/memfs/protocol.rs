//! The part of the FUSE protocol that travels through queues (`include/uapi/linux/fuse.h`, version 7.45): requests as the
//! kernel writes them into the buffers of an entry, and replies. All numbers are in the machine's byte order.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use super::files::{Body, Files, Node};
use super::{BLOCK_SIZE, TTL};

/// `struct fuse_uring_req_header`: 128 bytes for the common header of a request or a reply, 128 bytes for the header of the
/// operation, and `struct fuse_uring_ent_in_out`.
pub(super) const HEADER: usize = 288;
const OPERATION: usize = 128;
const ENTRY: usize = 256;

/// Offsets in `struct fuse_uring_ent_in_out`.
const COMMIT_ID: usize = ENTRY + 8;
const PAYLOAD_SIZE: usize = ENTRY + 16;

/// `struct fuse_out_header`: length, error, number of the request.
const OUT_HEADER: u32 = 16;

const S_IFDIR: u32 = 0o040_000;
const S_IFREG: u32 = 0o100_000;
const DT_DIR: u32 = 4;
const DT_REG: u32 = 8;
const ENOENT: i32 = 2;
const EIO: i32 = 5;
const ENOSYS: i32 = 38;

/// Operations (`enum fuse_opcode`).
const LOOKUP: u32 = 1;
const GETATTR: u32 = 3;
const READ: u32 = 15;
const STATFS: u32 = 17;
const READDIR: u32 = 28;
const READDIRPLUS: u32 = 44;

/// What becomes of a request.
pub(super) enum Answer {
    /// The reply is in the buffers.
    Made,
    /// The reply is to be made after this time, by calling [`answer`] again with `is_awaited`.
    Later(Duration),
}

/// The number by which a reply finds its request.
pub(super) fn commit_id(header: &[u8; HEADER]) -> u64 {
    u64_at(header, COMMIT_ID)
}

/// Replaces the request in the buffers of an entry by the reply. `is_awaited` answers what takes long at once.
pub(super) fn answer(files: &Files, header: &mut [u8; HEADER], payload: &mut [u8], is_awaited: bool) -> Answer {
    let (operation, unique, number) = (u32_at(header, 4), u64_at(header, 8), u64_at(header, 16));
    // READ, READDIR and READDIRPLUS: file handle, offset, size (`struct fuse_read_in`).
    let (offset, size) = (u64_at(header, OPERATION + 8), u32_at(header, OPERATION + 16));
    let made = match (operation, files.node(number)) {
        (_, None) => Err(ENOENT),
        (LOOKUP, Some(_)) => {
            let length = u32_at(header, PAYLOAD_SIZE) as usize;
            let name = payload.get(..length.saturating_sub(1)).unwrap_or_default();
            match files.child(number, OsStr::from_bytes(name)) {
                Some(node) => put(payload, &entry(node)),
                None => Err(ENOENT),
            }
        }
        (GETATTR, Some(node)) => put(payload, &[&TTL.as_secs().to_ne_bytes()[..], &[0; 8], &attributes(node)].concat()),
        (READ, Some(Node { body: Body::Sleeping(time), .. })) if !is_awaited => return Answer::Later(*time),
        (READ, Some(node)) => put(payload, node.read(offset, size)),
        (READDIR | READDIRPLUS, Some(_)) => {
            Ok(list(files, number, offset, size as usize, payload, operation == READDIRPLUS))
        }
        // `struct fuse_kstatfs` and padding: an empty filesystem.
        (STATFS, Some(_)) => put(payload, &[0; 80]),
        _ => Err(ENOSYS),
    };
    let (length, error) = match made {
        Ok(length) => (length, 0),
        Err(error) => (0, -error),
    };
    let length = u32::try_from(length).unwrap_or(0);
    set(header, 0, &(length + OUT_HEADER).to_ne_bytes());
    set(header, 4, &error.to_ne_bytes());
    set(header, 8, &unique.to_ne_bytes());
    set(header, PAYLOAD_SIZE, &length.to_ne_bytes());
    Answer::Made
}

/// Fills `payload` with entries of a directory (`struct fuse_dirent`, `struct fuse_direntplus`), each padded to 8 bytes.
fn list(files: &Files, number: u64, offset: u64, size: usize, payload: &mut [u8], with_attributes: bool) -> usize {
    let mut at = 0;
    for (next, name, node) in files.list(number, offset) {
        let kind = if node.is_directory() { DT_DIR } else { DT_REG };
        let mut item = if with_attributes { entry(node) } else { Vec::new() };
        item.extend(node.number.to_ne_bytes());
        item.extend(next.to_ne_bytes());
        item.extend(u32::try_from(name.len()).unwrap_or(0).to_ne_bytes());
        item.extend(kind.to_ne_bytes());
        item.extend(name.as_bytes());
        item.resize(item.len().next_multiple_of(8), 0);
        let end = at + item.len();
        match payload.get_mut(at..end) {
            Some(room) if end <= size => room.copy_from_slice(&item),
            _ => break,
        }
        at = end;
    }
    at
}

/// `struct fuse_entry_out`.
fn entry(node: &Node) -> Vec<u8> {
    let ttl = TTL.as_secs().to_ne_bytes();
    [&node.number.to_ne_bytes()[..], &[0; 8], &ttl, &ttl, &[0; 8], &attributes(node)].concat()
}

/// `struct fuse_attr`.
fn attributes(node: &Node) -> [u8; 88] {
    let mut bytes = [0; 88];
    let kind = if node.is_directory() { S_IFDIR } else { S_IFREG };
    let numbers = [node.number, node.size(), node.size().div_ceil(512), node.mtime, node.mtime, node.mtime];
    for (at, number) in numbers.into_iter().enumerate() {
        set(&mut bytes, at * 8, &number.to_ne_bytes());
    }
    // Nanoseconds of three times come first, owner and group between the number of links and the block size.
    for (at, number) in [(60, kind | node.mode), (64, 1), (80, BLOCK_SIZE)] {
        set(&mut bytes, at, &number.to_ne_bytes());
    }
    bytes
}

fn put(payload: &mut [u8], bytes: &[u8]) -> Result<usize, i32> {
    payload.get_mut(..bytes.len()).ok_or(EIO)?.copy_from_slice(bytes);
    Ok(bytes.len())
}

fn set(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(field) = bytes.get_mut(at..at + value.len()) {
        field.copy_from_slice(value);
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |field| u32::from_ne_bytes(*field))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |field| u64::from_ne_bytes(*field))
}
