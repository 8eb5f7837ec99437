//! The file format of an index.
//!
//! A file is the magic, followed by blocks. All integers are little-endian:
//!
//! | offset | type | field |
//! |---|---|---|
//! | 0 | u32 | length of the frame in bytes |
//! | 4 | u32 | length of its content in bytes |
//! | 8 | 16 bytes | XXH3-128 of the sum of the first block (zeros in that one), the offset of this block, all other fields, and the frame |
//! | 24 | 21 bytes | head of the record that is the content: u8 kind, identity, u32 day; zeros if the content is something else |
//! | 45 | … | zstd frame |
//!
//! So a block is not taken for one of another index, or of another place. The content of the first block is the
//! [`Header`] in MessagePack. A record of [`LARGE`] bytes is the content of a block, so that a session reads it only if
//! it needs it. The content of other blocks are records: head, u32 length, bytes.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

use super::records::{Header, RecordHead, RecordsError, TEMPORARY, at, decode};
use crate::disk::{self, Durability, NewFile};
use crate::memory::{Parser, most_kept};
use crate::rope::{Xxh3, head_mut, to_usize};

const MAGIC: &[u8; 8] = b"KPFSIDX\n";

/// The largest index that is read, in bytes, compressed or not.
const MAX_SIZE: u64 = 1 << 30;

/// Bytes of a block before its frame.
const HEAD: usize = 45;

/// Bytes that are copied at a time.
const PIECE: usize = 64 << 10;

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
        let begin = MAGIC.len() as u64;
        let block = Block::at(&file, begin).map_err(damaged)?;
        let content = block.read(&file, &[0; 16], begin).map_err(damaged)?;
        let header = decode(&content).ok_or_else(|| unusable("damaged"))?;
        Ok(Self { file, size: metadata.len(), header, sum: block.sum, records: block.end(begin) })
    }

    /// Identifies this version of the file as long as it is open.
    pub(super) fn version(&self) -> io::Result<(u64, u64)> {
        self.file.metadata().map(|metadata| (metadata.dev(), metadata.ino()))
    }

    /// Passes all records to `visit`: large ones with the offset of their block, others with their bytes. Stops at damage
    /// with an error.
    pub(super) fn read(&self, mut visit: impl FnMut(RecordHead, RecordBytes)) -> io::Result<()> {
        let mut at = self.records;
        while at < self.size {
            let block = Block::at(&self.file, at)?;
            if block.record.is_some() {
                visit(block.record, RecordBytes::InBlock(at));
            } else {
                let content = block.read(&self.file, &self.sum, at)?;
                let mut rest = content.as_slice();
                while !rest.is_empty() {
                    let (record, bytes) = take_record(&mut rest).ok_or(io::ErrorKind::InvalidData)?;
                    visit(record, RecordBytes::Here(bytes.into()));
                }
            }
            at = block.end(at);
        }
        Ok(())
    }

    /// The large record in the block at this offset.
    pub(super) fn read_large(&self, at: u64) -> io::Result<(RecordHead, Vec<u8>)> {
        let block = Block::at(&self.file, at)?;
        Ok((block.record, block.read(&self.file, &self.sum, at)?))
    }
}

/// The bytes of a record.
pub(super) enum RecordBytes {
    Here(Arc<[u8]>),
    /// In the block at this offset.
    InBlock(u64),
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
        writer.sum = writer.write_block(RecordHead::default(), &content)?;
        let (sum, begin) = (writer.sum, writer.at);
        records(&mut writer)?;
        writer.end_group()?;
        let size = writer.at;
        // Behind it may be what was copied of a damaged block.
        new.as_file().set_len(size)?;
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
    pub(super) fn put(&mut self, record: RecordHead, bytes: &[u8]) -> io::Result<Option<u64>> {
        if bytes.len() >= LARGE {
            self.end_group()?;
            let at = self.at;
            self.write_block(record, bytes)?;
            return Ok(Some(at));
        }
        let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
        self.group.extend(record.to_bytes());
        self.group.extend(length.to_le_bytes());
        self.group.extend(bytes);
        if self.group.len() >= GROUP {
            self.end_group()?;
        }
        Ok(None)
    }

    /// Copies a large record from the block at an offset of another index, without decompressing it. Returns the offset of
    /// the new block.
    pub(super) fn copy(&mut self, record: RecordHead, from: &IndexFile, at: u64) -> io::Result<u64> {
        self.end_group()?;
        let (old, to) = (Block::at(&from.file, at)?, self.at);
        let mut new = Block { record, ..old };
        let (mut old_sum, mut new_sum) = (old.begin_sum(&from.sum, at), new.begin_sum(&self.sum, to));
        let (mut done, mut buffer) = (HEAD as u64, vec![0; PIECE]);
        while done < old.end(0) {
            let rest = buffer.len().min(to_usize(old.end(0) - done));
            let piece = head_mut(&mut buffer, rest);
            from.file.read_exact_at(piece, at.saturating_add(done))?;
            self.file.write_all_at(piece, to.saturating_add(done))?;
            old_sum.update(piece);
            new_sum.update(piece);
            done += piece.len() as u64;
        }
        if old_sum.finish() != old.sum || !old.record.is_of(&record) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        new.sum = new_sum.finish();
        self.file.write_all_at(&new.to_bytes(), to)?;
        self.at = new.end(to);
        Ok(to)
    }

    fn end_group(&mut self) -> io::Result<()> {
        if !self.group.is_empty() {
            let group = std::mem::take(&mut self.group);
            self.write_block(RecordHead::default(), &group)?;
        }
        Ok(())
    }

    fn write_block(&mut self, record: RecordHead, content: &[u8]) -> io::Result<[u8; 16]> {
        let frame = zstd::bulk::compress(content, LEVEL)?;
        let [length, size] = [frame.len(), content.len()].map(|length| u32::try_from(length).unwrap_or(u32::MAX));
        let mut block = Block { length, size, sum: [0; 16], record };
        block.sum = block.sum_with(&self.sum, self.at, &frame);
        self.file.write_all_at(&[&block.to_bytes()[..], &frame].concat(), self.at)?;
        self.at = block.end(self.at);
        Ok(block.sum)
    }
}

/// A block without its frame.
#[derive(Clone, Copy)]
struct Block {
    length: u32,
    size: u32,
    sum: [u8; 16],
    record: RecordHead,
}

impl Block {
    /// The block at an offset. It is inside the file, and is not checked otherwise.
    fn at(file: &File, at: u64) -> io::Result<Self> {
        let mut bytes = [0; HEAD];
        file.read_exact_at(&mut bytes, at)?;
        let block = Self::of(&bytes).ok_or(io::ErrorKind::InvalidData)?;
        if block.end(at) > file.metadata()?.len() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(block)
    }

    fn of(bytes: &[u8]) -> Option<Self> {
        let (length, rest) = bytes.split_first_chunk()?;
        let (size, rest) = rest.split_first_chunk()?;
        let (sum, mut rest) = rest.split_first_chunk()?;
        let record = RecordHead::take(&mut rest)?;
        Some(Self { length: u32::from_le_bytes(*length), size: u32::from_le_bytes(*size), sum: *sum, record })
    }

    fn to_bytes(self) -> Vec<u8> {
        [&self.length.to_le_bytes()[..], &self.size.to_le_bytes(), &self.sum, &self.record.to_bytes()].concat()
    }

    /// Where the next one is.
    fn end(&self, at: u64) -> u64 {
        at.saturating_add(HEAD as u64).saturating_add(self.length.into())
    }

    /// Its sum without the frame. `first` is the sum of the first block.
    fn begin_sum(&self, first: &[u8; 16], at: u64) -> Xxh3 {
        let mut sum = Xxh3::default();
        let fields = [&at.to_le_bytes()[..], &self.length.to_le_bytes(), &self.size.to_le_bytes()];
        for bytes in [&first[..], &fields.concat(), &self.record.to_bytes()] {
            sum.update(bytes);
        }
        sum
    }

    fn sum_with(&self, first: &[u8; 16], at: u64, frame: &[u8]) -> [u8; 16] {
        let mut sum = self.begin_sum(first, at);
        sum.update(frame);
        sum.finish()
    }

    /// Its content.
    fn read(&self, file: &File, first: &[u8; 16], at: u64) -> io::Result<Vec<u8>> {
        // A zstd block of 128 KiB takes at least four bytes (RFC 8878, 3.1.1.2).
        let most = most_kept(Parser::Index);
        let claims = most.min(u64::from(self.length / 4) * (128 << 10));
        if u64::from(self.size) > claims || u64::from(self.length) > most {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut frame = vec![0; to_usize(self.length.into())];
        file.read_exact_at(&mut frame, at.saturating_add(HEAD as u64))?;
        if self.sum_with(first, at, &frame) != self.sum {
            return Err(io::ErrorKind::InvalidData.into());
        }
        zstd::bulk::decompress(&frame, to_usize(self.size.into()))
    }
}

/// The first record of some bytes, which are those behind it afterwards.
fn take_record<'a>(bytes: &mut &'a [u8]) -> Option<(RecordHead, &'a [u8])> {
    let mut rest = *bytes;
    let record = RecordHead::take(&mut rest)?;
    let (length, rest) = rest.split_first_chunk()?;
    let (content, rest) = rest.split_at_checked(to_usize(u32::from_le_bytes(*length).into()))?;
    *bytes = rest;
    Some((record, content))
}

/// Whether a file begins with the magic of an index. `false` if it cannot be opened.
pub(super) fn is_index(path: &Path) -> bool {
    disk::open(path).is_ok_and(|(file, _)| begins_with_magic(&file))
}

fn begins_with_magic(file: &File) -> bool {
    let mut magic = [0; MAGIC.len()];
    file.read_exact_at(&mut magic, 0).is_ok() && magic == *MAGIC
}
