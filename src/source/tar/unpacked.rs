//! A compressed archive as a content of its unpacked bytes.
//!
//! A gzip file is one deflate stream, which is read from checkpoints like a member of a wheel. Streams of zstd and xz
//! have no such points. They are unpacked once, to an unnamed file.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use flate2::bufread::DeflateDecoder;
use lzma_rust2::XzReader;
use serde::{Deserialize, Serialize};

use super::super::damage;
use super::super::decoders::Decoders;
use super::super::deflated::Deflated;
use super::super::stamp::is_cached;
use super::super::stream::Stream;
use super::super::{EntryPath, SourceError};
use super::reader::ContentReader;
use crate::index::RecordKind;
use crate::resources::Resources;
use crate::rope::{Content, Identity, ReadError, Rope, Segment, check_range};

/// Bytes read at a time.
const PIECE: usize = 256 << 10;

/// The largest window of a zstd stream as a power of two: 128 MiB, as for bundles.
const WINDOW_LOG: u32 = 27;

/// The memory limit of xz in KiB: a dictionary of the same size, and 4 MiB for the rest.
const MAX_MEMORY: u32 = 132 << 10;

/// How an archive is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::source) enum TarCompression {
    Plain,
    Gzip,
    Zstd,
    Xz,
}

/// The bytes of the archive in `file`.
pub(super) fn open(
    location: &Path,
    file: &Arc<dyn Content>,
    packing: TarCompression,
    resources: &Arc<Resources>,
) -> Result<Arc<dyn Content>, SourceError> {
    let unusable = |error: io::Error| SourceError::NotATar { path: location.to_owned(), reason: error.to_string() };
    let input = BufReader::with_capacity(PIECE, ContentReader::new(file));
    match packing {
        TarCompression::Plain => Ok(Arc::clone(file)),
        TarCompression::Gzip => gzip(location, file, resources).map_err(unusable),
        TarCompression::Zstd => {
            let mut decoder = zstd::Decoder::with_buffer(input).map_err(unusable)?;
            decoder.window_log_max(WINDOW_LOG).map_err(unusable)?;
            unpack(decoder, file, resources).map_err(unusable)
        }
        TarCompression::Xz => {
            unpack(XzReader::new_mem_limit(input, true, MAX_MEMORY), file, resources).map_err(unusable)
        }
    }
}

/// A gzip file with one member (RFC 1952).
#[derive(Debug, Serialize, Deserialize)]
struct Gzip {
    start: u64,
    packed: u64,
    size: u64,
    crc32: u32,
}

fn gzip(location: &Path, file: &Arc<dyn Content>, resources: &Arc<Resources>) -> io::Result<Arc<dyn Content>> {
    let of_file = file.identity();
    let known = of_file.as_ref().and_then(|identity| resources.index.get::<Gzip>(RecordKind::Gzip, identity));
    let is_possible = |gzip: &Gzip| gzip.start.checked_add(gzip.packed).is_some_and(|end| end <= file.size());
    let gzip = match known.filter(is_possible) {
        Some(gzip) => gzip,
        None => Gzip::measure(file)?,
    };
    let mut identity = Identity::describe("gzip");
    if let Some(of_file) = of_file {
        resources.index.put(RecordKind::Gzip, &of_file, &gzip);
        identity.add(&of_file.0);
    }
    let name = location.file_name().unwrap_or_default().as_encoded_bytes();
    let (identity, entry) = (identity.finish(), EntryPath::new(name).map_err(io::Error::other)?);
    damage::known(resources, &identity, &entry).map_err(io::Error::other)?;
    let packed = Segment::range(Arc::clone(file), gzip.start, gzip.packed).and_then(|range| Rope::new([range]));
    let stream = Stream {
        entry,
        packed: Arc::new(packed.map_err(io::Error::other)?),
        size: gzip.size,
        crc32: gzip.crc32,
        identity,
        resources: Arc::clone(resources),
    };
    Ok(Arc::new(Deflated::new(stream, Decoders::new(&resources.budget))))
}

impl Gzip {
    /// Inflates the file once. Only this reveals the length of its content, since the trailer has just 32 bits of it.
    fn measure(file: &Arc<dyn Content>) -> io::Result<Self> {
        let mut input = BufReader::with_capacity(PIECE, ContentReader::new(file));
        let start = skip_header(&mut input)?;
        let mut decoder = Located::new(DeflateDecoder::new(input));
        let mut piece = vec![0; PIECE];
        let mut hasher = crc32fast::Hasher::new();
        loop {
            let count = decoder.read(&mut piece)?;
            if count == 0 {
                break;
            }
            hasher.update(piece.get(..count).unwrap_or_default());
        }
        let Located { stream: decoder, at: size } = decoder;
        let (packed, crc32) = (decoder.total_in(), hasher.finalize());
        let mut input = decoder.into_inner();
        let mut trailer = [0; 8];
        input.read_exact(&mut trailer).map_err(|error| located(&error, size))?;
        let [c0, c1, c2, c3, s0, s1, s2, s3] = trailer;
        let has_size = u64::from(u32::from_le_bytes([s0, s1, s2, s3])) == size & u64::from(u32::MAX);
        if u32::from_le_bytes([c0, c1, c2, c3]) != crc32 || !has_size {
            return Err(io::Error::other("its content does not have the CRC-32 and the size that its end claims"));
        }
        if !input.fill_buf()?.is_empty() {
            return Err(io::Error::other("a gzip file of several members, which is not supported; unpack the archive"));
        }
        Ok(Self { start, packed, size, crc32 })
    }
}

/// Reads the header of a gzip member, and returns its length in bytes (RFC 1952, 2.3).
fn skip_header(input: &mut impl BufRead) -> io::Result<u64> {
    let mut fixed = [0; 10];
    input.read_exact(&mut fixed)?;
    let [0x1f, 0x8b, 8, flags, ..] = fixed else { return Err(io::Error::other("not gzip with deflate")) };
    let mut length = fixed.len();
    if flags & 4 != 0 {
        let mut size = [0; 2];
        input.read_exact(&mut size)?;
        let mut extra = vec![0; u16::from_le_bytes(size).into()];
        input.read_exact(&mut extra)?;
        length += size.len() + extra.len();
    }
    // FNAME and FCOMMENT end with a NUL byte.
    for flag in [8, 16] {
        if flags & flag != 0 {
            length += input.skip_until(0)?;
        }
    }
    if flags & 2 != 0 {
        input.read_exact(&mut [0; 2])?;
        length += 2;
    }
    Ok(length as u64)
}

/// A stream whose errors say where it is damaged: after how many bytes of its content.
struct Located<R> {
    stream: R,
    at: u64,
}

impl<R> Located<R> {
    fn new(stream: R) -> Self {
        Self { stream, at: 0 }
    }
}

impl<R: Read> Read for Located<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.stream.read(buffer).map_err(|error| located(&error, self.at))?;
        self.at = self.at.saturating_add(count as u64);
        Ok(count)
    }
}

fn located(error: &io::Error, at: u64) -> io::Error {
    io::Error::new(error.kind(), format!("after {at} bytes of its content: {error}"))
}

/// Unpacks a stream to an unnamed file.
fn unpack(stream: impl Read, of: &Arc<dyn Content>, resources: &Arc<Resources>) -> io::Result<Arc<dyn Content>> {
    let mut file = resources.store.scratch()?;
    let size = io::copy(&mut Located::new(stream), &mut file)?;
    let identity = of.identity().map(|of| Identity::describe("unpacked").add(&of.0).finish());
    Ok(Arc::new(Scratch { file, size, identity }))
}

/// An unnamed file of this process, which no other process can change.
#[derive(Debug)]
struct Scratch {
    file: File,
    size: u64,
    identity: Option<Identity>,
}

impl Content for Scratch {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        check_range(offset, buffer.len(), self.size)?;
        let read = std::os::unix::fs::FileExt::read_exact_at(&self.file, buffer, offset);
        read.map_err(|source| ReadError::io(&"the unpacked archive".into(), source))
    }

    fn is_nonblocking(&self, offset: u64, length: usize) -> bool {
        is_cached(&self.file, offset, length)
    }

    fn identity(&self) -> Option<Identity> {
        self.identity
    }
}
