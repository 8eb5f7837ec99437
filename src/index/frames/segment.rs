//! A segment: the file to which one session appends compressed code objects.
//!
//! It is a sequence of records. All integers are little-endian:
//!
//! | offset | type | field |
//! |---|---|---|
//! | 0 | 4 bytes | magic `KPFR` |
//! | 4 | u32 | CRC-32 of the 40 bytes that follow |
//! | 8 | 16 bytes | identity of the frame; zeros if the record was abandoned |
//! | 24 | u64 | length of the frame in bytes |
//! | 32 | u64 | distance of the frame from the beginning of the record |
//! | 40 | u64 | distance of the next record from the beginning of this one |
//! | 48 | u32 … | CRC-32 of each block of 16 KiB of the frame |
//!
//! A record is created as an abandoned one. It gets its final header when the frame is complete, so a scan skips
//! records that a session did not complete.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::preadv;

use crate::rope::Identity;

pub(super) const MAGIC: &[u8; 4] = b"KPFR";
const HEADER: usize = 48;

/// Bytes covered by one checksum. A read checks all blocks that it touches, so larger blocks mean reading more than
/// requested. Requests of 128 KiB read an eighth more.
const BLOCK: usize = 16 << 10;

/// An open segment.
#[derive(Debug)]
pub(super) struct FrameSegment {
    pub(super) file: File,
    /// The offset of the next record. No session appends to another session's segment.
    end: AtomicU64,
}

/// The location of a frame.
#[derive(Clone, Debug)]
pub struct Location {
    segment: Arc<FrameSegment>,
    /// Offset of the record in the file.
    at: u64,
    /// Offset of the frame in the record.
    start: u64,
    length: u64,
}

/// Writes one record.
pub(super) struct Appender {
    segment: Arc<FrameSegment>,
    identity: Identity,
    at: u64,
    start: u64,
    span: u64,
    length: u64,
    checksums: Vec<u8>,
    block: crc32fast::Hasher,
}

impl FrameSegment {
    pub(super) fn new(file: File) -> Arc<Self> {
        Arc::new(Self { file, end: AtomicU64::new(0) })
    }

    /// Begins a record for a frame of at most `most` bytes.
    pub(super) fn append(self: &Arc<Self>, identity: &Identity, most: u64) -> Appender {
        let start = start_of(most);
        let span = start.saturating_add(most);
        let appender = Appender {
            segment: Arc::clone(self),
            identity: *identity,
            at: self.end.fetch_add(span, Ordering::Relaxed),
            start,
            span,
            length: 0,
            checksums: Vec::new(),
            block: crc32fast::Hasher::new(),
        };
        // If this write fails, so will the next one, which reports the error.
        appender.write_header(Identity([0; 16]), 0).ok();
        appender
    }

    /// Whether the segment has no record.
    pub(super) fn is_empty(&self) -> bool {
        self.end.load(Ordering::Relaxed) == 0
    }

    /// All complete records before the first one that is damaged or torn.
    pub(super) fn scan(self: &Arc<Self>) -> io::Result<Vec<(Identity, Location)>> {
        let size = self.file.metadata()?.len();
        let mut found = Vec::new();
        let mut at = 0_u64;
        let mut header = [0; HEADER];
        while at.saturating_add(HEADER as u64) <= size {
            self.file.read_exact_at(&mut header, at)?;
            let Some((identity, length, start, span)) = parse(&header) else { break };
            let Some(next) = at.checked_add(span) else { break };
            if length > 0 {
                if at.saturating_add(start).saturating_add(length) > size {
                    break;
                }
                found.push((identity, Location { segment: Arc::clone(self), at, start, length }));
            }
            at = next;
        }
        Ok(found)
    }
}

/// Whether a file begins as a segment does.
pub(super) fn is_segment(file: &File) -> bool {
    let mut magic = [0; MAGIC.len()];
    // The first record of a segment that is being written may not have its header yet.
    file.read_exact_at(&mut magic, 0).is_ok_and(|()| magic == *MAGIC || magic == [0; MAGIC.len()])
}

/// Offset of the frame in a record for `length` bytes.
fn start_of(length: u64) -> u64 {
    (HEADER as u64).saturating_add(length.div_ceil(BLOCK as u64).saturating_mul(4))
}

/// Identity, length, start and span of the record with this header; all in bytes. An abandoned record has the length 0.
fn parse(header: &[u8; HEADER]) -> Option<(Identity, u64, u64, u64)> {
    let (checksum, fields) = header.strip_prefix(MAGIC.as_slice())?.split_first_chunk::<4>()?;
    let (identity, numbers) = fields.split_first_chunk::<16>()?;
    let number = |at: usize| numbers.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
    let (length, start, span) = (number(0)?, number(8)?, number(16)?);
    let is_right = u32::from_le_bytes(*checksum) == crc32fast::hash(fields)
        && start >= start_of(length)
        && span >= start.checked_add(length)?;
    is_right.then_some((Identity(*identity), length, start, span))
}

impl Appender {
    pub(super) fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let end = self.length.saturating_add(bytes.len() as u64);
        if end > self.span - self.start {
            return Err(io::Error::other("a compressed code object is longer than it can be"));
        }
        self.segment.file.write_all_at(bytes, self.at + self.start + self.length)?;
        while !bytes.is_empty() {
            let left = BLOCK - usize::try_from(self.length % BLOCK as u64).unwrap_or(0);
            let (here, after) = bytes.split_at(left.min(bytes.len()));
            self.block.update(here);
            self.length += here.len() as u64;
            if self.length.is_multiple_of(BLOCK as u64) {
                self.end_block();
            }
            bytes = after;
        }
        Ok(())
    }

    fn end_block(&mut self) {
        let block = std::mem::take(&mut self.block);
        self.checksums.extend(block.finalize().to_le_bytes());
    }

    /// Completes the record.
    pub(super) fn finish(mut self) -> io::Result<Location> {
        if !self.length.is_multiple_of(BLOCK as u64) {
            self.end_block();
        }
        self.write_header(self.identity, self.length)?;
        Ok(Location { segment: Arc::clone(&self.segment), at: self.at, start: self.start, length: self.length })
    }

    fn write_header(&self, identity: Identity, length: u64) -> io::Result<()> {
        let mut fields = identity.0.to_vec();
        for number in [length, self.start, self.span] {
            fields.extend(number.to_le_bytes());
        }
        let checksum = crc32fast::hash(&fields).to_le_bytes();
        let header = [MAGIC, checksum.as_slice(), &fields, &self.checksums].concat();
        self.segment.file.write_all_at(&header, self.at)
    }
}

impl Location {
    /// Length of the frame in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Whether both are the same record.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.segment, &other.segment) && self.at == other.at
    }

    /// The file that holds the frame, and the offset in it.
    pub fn file(&self) -> (&File, u64) {
        (&self.segment.file, self.at + self.start)
    }

    /// Fills `buffer` with bytes of the frame after verifying their checksums.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let end = offset.checked_add(buffer.len() as u64).filter(|&end| end <= self.length);
        let end = end.ok_or(io::ErrorKind::UnexpectedEof)?;
        if buffer.is_empty() {
            return Ok(());
        }
        let block = BLOCK as u64;
        let (first, after) = (offset / block, end.div_ceil(block));
        let begin = first * block;
        let stop = (after * block).min(self.length);
        // The parts of the first and of the last block that were not requested.
        let (mut head, mut tail) = ([0; BLOCK], [0; BLOCK]);
        let head = head.get_mut(..usize::try_from(offset - begin).unwrap_or(0)).unwrap_or_default();
        let tail = tail.get_mut(..usize::try_from(stop - end).unwrap_or(0)).unwrap_or_default();
        let mut checksums = vec![0; usize::try_from((after - first) * 4).unwrap_or(0)];
        let (file, start) = self.file();
        file.read_exact_at(&mut checksums, self.at + HEADER as u64 + first * 4)?;
        let mut pieces = [IoSliceMut::new(head), IoSliceMut::new(buffer), IoSliceMut::new(tail)];
        if preadv(file, &mut pieces, start + begin).ok().map(|count| count as u64) != Some(stop - begin) {
            // The read was interrupted, or was longer than one call can read, or hit the end of a short file.
            file.read_exact_at(head, start + begin)?;
            file.read_exact_at(buffer, start + offset)?;
            file.read_exact_at(tail, start + end)?;
        }
        let mut rest = [&*head, &*buffer, &*tail];
        for checksum in checksums.chunks_exact(4) {
            let mut hasher = crc32fast::Hasher::new();
            let mut left = BLOCK;
            for piece in &mut rest {
                let (here, after) = piece.split_at(left.min(piece.len()));
                hasher.update(here);
                left -= here.len();
                *piece = after;
            }
            if hasher.finalize().to_le_bytes() != checksum {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the checksum is wrong"));
            }
        }
        Ok(())
    }
}
