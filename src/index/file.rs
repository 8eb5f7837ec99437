//! The file format of an index.
//!
//! A file is the magic, followed by blocks. All integers are little-endian:
//!
//! | offset | type | field |
//! |---|---|---|
//! | 0 | u32 | length of the frame in bytes |
//! | 4 | u32 | length of its content in bytes |
//! | 8 | 16 bytes | XXH3-128 of the sum of the first block (zeros in that one), the offset of this block, the frame, and its content's length |
//! | 24 | … | zstd frame |
//!
//! So a block is not taken for one of another index, or of another place. The content of the first block is the
//! [`Header`] in MessagePack, that of the others records: u8 kind, identity, u32 day, u32 length, content. A record of
//! [`LARGE`] bytes has a block of its own.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use super::records::{Header, Record, RecordsError, TEMPORARY, at, decode};
use crate::disk::{self, Durability, NewFile};
use crate::memory::{Parser, most_kept};
use crate::rope::{Identity, Xxh3, to_usize};

const MAGIC: &[u8; 8] = b"KPFSIDX\n";

/// The largest index that is read, in bytes, compressed or not.
const MAX_SIZE: u64 = 1 << 30;

/// Bytes of a block before its frame.
const HEAD: u64 = 24;

/// Records of at least this many bytes are read one by one.
pub(super) const LARGE: usize = 64 << 10;

/// Smaller records are collected to blocks of at least this many bytes.
const GROUP: usize = 256 << 10;

/// Higher levels gain little: most of the content of records is compressed already.
const LEVEL: i32 = 3;

/// An index that is open for reading.
#[derive(Debug)]
pub(super) struct IndexFile {
    file: File,
    size: u64,
    pub(super) header: Header,
    /// The sum of the first block.
    sum: [u8; 16],
    /// The offset of the second one.
    records: u64,
}

impl IndexFile {
    /// Opens the index at `path`.
    pub(super) fn open(path: &Path) -> Result<Self, RecordsError> {
        let (file, metadata) = disk::open(path).map_err(at(path))?;
        let unusable = |reason| RecordsError::Unusable { path: path.to_owned(), reason };
        if metadata.len() > MAX_SIZE {
            return Err(unusable("not a file of a sensible size"));
        }
        if !begins_with_magic(&file) {
            return Err(unusable("no index of kpackfs"));
        }
        let damaged = |_| unusable("damaged, or made by another version");
        let (content, sum, records) = read_block(&file, &[0; 16], MAGIC.len() as u64).map_err(damaged)?;
        let header = decode(&content).ok_or_else(|| unusable("damaged"))?;
        Ok(Self { file, size: metadata.len(), header, sum, records })
    }

    /// Identifies this version of the file as long as it is open.
    pub(super) fn version(&self) -> io::Result<(u64, u64)> {
        self.file.metadata().map(|metadata| (metadata.dev(), metadata.ino()))
    }

    /// Passes all records to `visit`, each with the offset of its block. Stops at damage with an error.
    pub(super) fn read(&self, mut visit: impl FnMut(Record, u64)) -> io::Result<()> {
        let mut at = self.records;
        while at < self.size {
            let (content, _, next) = read_block(&self.file, &self.sum, at)?;
            let mut rest = content.as_slice();
            while !rest.is_empty() {
                visit(take_record(&mut rest).ok_or(io::ErrorKind::InvalidData)?, at);
            }
            at = next;
        }
        Ok(())
    }

    /// The large record in the block at this offset.
    pub(super) fn read_large(&self, at: u64) -> io::Result<Record> {
        let (content, ..) = read_block(&self.file, &self.sum, at)?;
        Ok(take_record(&mut content.as_slice()).ok_or(io::ErrorKind::InvalidData)?)
    }
}

/// Writes an index atomically. `records` passes the records one by one to [`IndexWriter::put`].
pub(super) fn write(
    path: &Path,
    header: &Header,
    records: impl FnOnce(&mut IndexWriter<'_>) -> io::Result<()>,
) -> Result<IndexFile, RecordsError> {
    let write = || {
        disk::create_cache(disk::parent(path))?;
        let prefix = format!("{}.", path.file_stem().unwrap_or_default().to_string_lossy());
        let new = NewFile::create(path, &prefix, &format!(".{TEMPORARY}"), 0o600)?;
        // It marks the file as one of ours.
        new.as_file().write_all_at(MAGIC, 0)?;
        let mut writer = IndexWriter { file: new.as_file(), at: MAGIC.len() as u64, sum: [0; 16], group: Vec::new() };
        let content = rmp_serde::to_vec(header).map_err(io::Error::other)?;
        writer.sum = writer.write_block(&content)?;
        let (sum, begin) = (writer.sum, writer.at);
        records(&mut writer)?;
        writer.end_group()?;
        let size = writer.at;
        let file = new.publish(true, Durability::Synced)?;
        Ok(IndexFile { file, size, header: header.clone(), sum, records: begin })
    };
    write().map_err(at(path))
}

/// Writes the records of an index.
pub(super) struct IndexWriter<'a> {
    file: &'a File,
    at: u64,
    sum: [u8; 16],
    group: Vec<u8>,
}

impl IndexWriter<'_> {
    /// Writes a record. Returns the offset of its block if it is large.
    pub(super) fn put(&mut self, record: &Record) -> io::Result<Option<u64>> {
        let length = u32::try_from(record.bytes.len()).map_err(io::Error::other)?;
        let is_large = record.bytes.len() >= LARGE;
        if is_large {
            self.end_group()?;
        }
        self.group.push(record.kind);
        self.group.extend(record.identity.0);
        self.group.extend(record.day.to_le_bytes());
        self.group.extend(length.to_le_bytes());
        self.group.extend(&*record.bytes);
        let at = self.at;
        if self.group.len() >= GROUP || is_large {
            self.end_group()?;
        }
        Ok(is_large.then_some(at))
    }

    fn end_group(&mut self) -> io::Result<()> {
        if !self.group.is_empty() {
            let group = std::mem::take(&mut self.group);
            self.write_block(&group)?;
        }
        Ok(())
    }

    fn write_block(&mut self, content: &[u8]) -> io::Result<[u8; 16]> {
        let frame = zstd::bulk::compress(content, LEVEL)?;
        let [length, size] = [frame.len(), content.len()].map(|length| u32::try_from(length).unwrap_or(u32::MAX));
        let sum = sum_of(&self.sum, self.at, size, &frame);
        let block = [&length.to_le_bytes()[..], &size.to_le_bytes(), &sum, &frame].concat();
        self.file.write_all_at(&block, self.at)?;
        self.at += block.len() as u64;
        Ok(sum)
    }
}

/// The sum of a block. `first` is that of the first block.
fn sum_of(first: &[u8; 16], at: u64, size: u32, frame: &[u8]) -> [u8; 16] {
    let mut sum = Xxh3::default();
    for bytes in [first, &at.to_le_bytes()[..], &size.to_le_bytes(), frame] {
        sum.update(bytes);
    }
    sum.finish()
}

/// The content and the sum of the block at an offset in a file, and the offset of the next block.
fn read_block(file: &File, first: &[u8; 16], at: u64) -> io::Result<(Vec<u8>, [u8; 16], u64)> {
    let [mut length, mut size] = [[0; 4]; 2];
    let mut expected = [0; 16];
    file.read_exact_at(&mut length, at)?;
    file.read_exact_at(&mut size, at.saturating_add(4))?;
    file.read_exact_at(&mut expected, at.saturating_add(8))?;
    let [length, size] = [length, size].map(u32::from_le_bytes);
    let end = at.saturating_add(HEAD).saturating_add(length.into());
    // A zstd block of 128 KiB takes at least four bytes (RFC 8878, 3.1.1.2).
    let most = most_kept(Parser::Index);
    let is_possible = u64::from(size) <= most.min(u64::from(length / 4) * (128 << 10)) && u64::from(length) <= most;
    if !is_possible || end > file.metadata()?.len() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut frame = vec![0; to_usize(length.into())];
    file.read_exact_at(&mut frame, at.saturating_add(HEAD))?;
    let sum = sum_of(first, at, size, &frame);
    if sum != expected {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let content = zstd::bulk::decompress(&frame, to_usize(size.into()))?;
    Ok((content, sum, end))
}

/// The first record of some bytes, which are those behind it afterwards.
fn take_record(bytes: &mut &[u8]) -> Option<Record> {
    let (&[kind], rest) = bytes.split_first_chunk()?;
    let (identity, rest) = rest.split_first_chunk()?;
    let (day, rest) = rest.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    let (content, rest) = rest.split_at_checked(to_usize(u32::from_le_bytes(*length).into()))?;
    *bytes = rest;
    Some(Record { kind, identity: Identity(*identity), day: u32::from_le_bytes(*day), bytes: content.into() })
}

/// Whether a file begins with the magic of an index. `false` if it cannot be opened.
pub(super) fn is_index(path: &Path) -> bool {
    disk::open(path).is_ok_and(|(file, _)| begins_with_magic(&file))
}

fn begins_with_magic(file: &File) -> bool {
    let mut magic = [0; MAGIC.len()];
    file.read_exact_at(&mut magic, 0).is_ok() && magic == *MAGIC
}
