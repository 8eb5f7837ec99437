//! A segment: the file to which one session appends compressed code objects.
//!
//! It is a sequence of records. All integers are little-endian:
//!
//! | offset | type | field |
//! |---|---|---|
//! | 0 | 4 bytes | magic `KPFR` |
//! | 4 | u32 | the format, 2 |
//! | 8 | 16 bytes | XXH3-128 of the record's offset in the file and the 40 bytes that follow |
//! | 24 | 16 bytes | identity of the frame; zeros if the record was abandoned |
//! | 40 | u64 | length of the frame in bytes |
//! | 48 | u64 | distance of the frame from the beginning of the record |
//! | 56 | u64 | distance of the next record from the beginning of this one |
//! | 64 | 16 bytes … | for each block of 16 KiB of the frame, XXH3-128 of the frame's identity, the block's offset in it, and the block |
//!
//! So a block is not taken for one of another frame, or of another place. Segments of format 1 count as empty.
//!
//! A record is created as an abandoned one. It gets its final header when the frame is complete, so a scan skips
//! records that a session did not complete.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::preadv;

use crate::disk::{ScratchLease, write_at};
use crate::memory::{Parser, most_kept};
use crate::rope::{Identity, Xxh3};

pub(super) const MAGIC: &[u8; 4] = b"KPFR";
const FORMAT: u32 = 2;
const HEADER: usize = 64;

/// Bytes of the sum of a block.
const SUM: usize = 16;

/// Bytes covered by one checksum. A read checks all blocks that it touches, so larger blocks mean reading more than
/// requested. Requests of 128 KiB read an eighth more.
const BLOCK: usize = 16 << 10;

/// Bytes in memory for the location of a frame. Frames of a segment that has too many are made again.
const KEPT: u64 = 128;

/// An open segment.
#[derive(Debug)]
pub(super) struct FrameSegment {
    pub(super) file: File,
    /// The part of the quota that an unnamed file has.
    pub(super) lease: Option<ScratchLease>,
    /// The offset of the next record. No session appends to another session's segment.
    end: AtomicU64,
}

/// The location of a frame.
#[derive(Clone, Debug)]
pub struct Location {
    segment: Arc<FrameSegment>,
    identity: Identity,
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
    sums: Vec<u8>,
    /// The sum of the block that is being written.
    block: Xxh3,
}

impl FrameSegment {
    pub(super) fn new(file: File, lease: Option<ScratchLease>) -> Arc<Self> {
        Arc::new(Self { file, lease, end: AtomicU64::new(0) })
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
            sums: Vec::new(),
            block: begin_sum(identity, 0),
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
        let (mut found, mut room) = (Vec::new(), most_kept(Parser::FrameSegment));
        let mut at = 0_u64;
        let mut header = [0; HEADER];
        while at.saturating_add(HEADER as u64) <= size {
            self.file.read_exact_at(&mut header, at)?;
            let Some((identity, length, start, span)) = parse(&header, at) else { break };
            let Some(next) = at.checked_add(span) else { break };
            if length > 0 {
                if room < KEPT {
                    break;
                }
                room -= KEPT;
                if at.saturating_add(start).saturating_add(length) > size {
                    break;
                }
                found.push((identity, Location { segment: Arc::clone(self), identity, at, start, length }));
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
    (HEADER as u64).saturating_add(length.div_ceil(BLOCK as u64).saturating_mul(SUM as u64))
}

/// Identity, length, start and span of the record with this header; all in bytes. An abandoned record has the length 0.
fn parse(header: &[u8; HEADER], at: u64) -> Option<(Identity, u64, u64, u64)> {
    let header = header.strip_prefix(MAGIC.as_slice())?.strip_prefix(&FORMAT.to_le_bytes())?;
    let (sum, fields) = header.split_first_chunk::<SUM>()?;
    let (identity, numbers) = fields.split_first_chunk::<16>()?;
    let number = |at: usize| numbers.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
    let (length, start, span) = (number(0)?, number(8)?, number(16)?);
    let is_right =
        *sum == sum_of_header(at, fields) && start >= start_of(length) && span >= start.checked_add(length)?;
    is_right.then_some((Identity(*identity), length, start, span))
}

fn sum_of_header(at: u64, fields: &[u8]) -> [u8; SUM] {
    let mut sum = Xxh3::default();
    sum.update(&at.to_le_bytes());
    sum.update(fields);
    sum.finish()
}

/// The sum of the block at an offset in a frame, without its bytes.
fn begin_sum(identity: &Identity, offset: u64) -> Xxh3 {
    let mut sum = Xxh3::default();
    sum.update(&identity.0);
    sum.update(&offset.to_le_bytes());
    sum
}

impl Appender {
    pub(super) fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let end = self.length.saturating_add(bytes.len() as u64);
        if end > self.span - self.start {
            return Err(io::Error::other("a compressed code object is longer than it can be"));
        }
        write_at(&self.segment.file, bytes, self.at + self.start + self.length)?;
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
        self.sums.extend(self.block.finish());
        self.block = begin_sum(&self.identity, self.length);
    }

    /// Completes the record.
    pub(super) fn finish(mut self) -> io::Result<Location> {
        if !self.length.is_multiple_of(BLOCK as u64) {
            self.end_block();
        }
        self.write_header(self.identity, self.length)?;
        let Self { segment, identity, at, start, length, .. } = self;
        Ok(Location { segment, identity, at, start, length })
    }

    fn write_header(&self, identity: Identity, length: u64) -> io::Result<()> {
        let mut fields = identity.0.to_vec();
        for number in [length, self.start, self.span] {
            fields.extend(number.to_le_bytes());
        }
        let sum = sum_of_header(self.at, &fields);
        let header = [MAGIC, &FORMAT.to_le_bytes()[..], &sum, &fields, &self.sums].concat();
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
        let mut sums = vec![0; SUM * usize::try_from(after - first).unwrap_or(0)];
        let (file, start) = self.file();
        file.read_exact_at(&mut sums, self.at + (HEADER as u64) + first * SUM as u64)?;
        let mut pieces = [IoSliceMut::new(head), IoSliceMut::new(buffer), IoSliceMut::new(tail)];
        if preadv(file, &mut pieces, start + begin).ok().map(|count| count as u64) != Some(stop - begin) {
            // The read was interrupted, or was longer than one call can read, or hit the end of a short file.
            file.read_exact_at(head, start + begin)?;
            file.read_exact_at(buffer, start + offset)?;
            file.read_exact_at(tail, start + end)?;
        }
        let mut rest = [&*head, &*buffer, &*tail];
        for (number, expected) in (first..).zip(sums.chunks_exact(SUM)) {
            let mut sum = begin_sum(&self.identity, number * block);
            let mut left = BLOCK;
            for piece in &mut rest {
                let (here, after) = piece.split_at(left.min(piece.len()));
                sum.update(here);
                left -= here.len();
                *piece = after;
            }
            if sum.finish() != expected {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the checksum is wrong"));
            }
        }
        Ok(())
    }
}
