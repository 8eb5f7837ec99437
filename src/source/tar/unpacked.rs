//! A compressed archive as a content of its unpacked bytes.
//!
//! A gzip file is one deflate stream, which is read from checkpoints like a member of a wheel. Streams of zstd and xz
//! have no such points. They are unpacked once, to an unnamed file.

use std::error::Error;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use flate2::bufread::DeflateDecoder;
use lzma_rust2::XzReader;
use serde::{Deserialize, Serialize};

use super::super::closable::{Closable, OpenMember, Openable};
use super::super::damage;
use super::super::decoders::Decoders;
use super::super::deflated::{Deflated, peek};
use super::super::facts::MemberFacts;
use super::super::open_members::ListedMember;
use super::super::stamp::is_cached;
use super::super::stream::Stream;
use super::super::{EntryPath, SourceError};
use super::reader::ContentReader;
use crate::disk::{ScratchError, ScratchFile};
use crate::index::RecordKind;
use crate::resources::Resources;
use crate::rope::{Content, Identity, Packed, ReadError, Rope, Segment, check_range};

/// Bytes read at a time.
const PIECE: usize = 256 << 10;

/// The largest window of a zstd stream as a power of two: 128 MiB, as for bundles.
const WINDOW_LOG: u32 = 27;

/// The memory limit of xz in KiB: a dictionary of the same size, and 4 MiB for the rest.
const MAX_MEMORY: u32 = 132 << 10;

/// An archive that unpacks to more than [`MIN_SUSPECT`] bytes, and to more than this many times its size, is not
/// unpacked unless the user wants it: its content is the same few bytes over and over. Real archives of ROCm shrink 3 to
/// 30 times.
pub(in crate::source) const MAX_RATIO: u64 = 1000;
const MIN_SUSPECT: u64 = 1 << 30;

/// How an archive is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TarCompression {
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
    let unusable = |error| unusable(location, &error);
    let input = BufReader::with_capacity(PIECE, ContentReader::new(file));
    match packing {
        TarCompression::Plain => Ok(Arc::clone(file)),
        TarCompression::Gzip => gzip(location, file, resources),
        TarCompression::Zstd => {
            let mut decoder = zstd::Decoder::with_buffer(input).map_err(unusable)?;
            decoder.window_log_max(WINDOW_LOG).map_err(unusable)?;
            unpack(location, decoder, file, resources)
        }
        TarCompression::Xz => unpack(location, XzReader::new_mem_limit(input, true, MAX_MEMORY), file, resources),
    }
}

fn unusable(location: &Path, error: &io::Error) -> SourceError {
    SourceError::NotATar { path: location.to_owned(), reason: error.to_string() }
}

/// Fails if an archive that has unpacked to `unpacked` bytes so far is not wanted.
fn check_ratio(location: &Path, unpacked: u64, packed: u64, resources: &Resources) -> Result<(), SourceError> {
    let is_wanted = resources.store.scratch.allows_any_ratio || !is_suspect(unpacked, packed);
    if is_wanted { Ok(()) } else { Err(SourceError::Ratio { path: location.to_owned(), size: packed }) }
}

/// See [`MAX_RATIO`].
pub(super) fn is_suspect(unpacked: u64, packed: u64) -> bool {
    unpacked > MIN_SUSPECT.max(packed.saturating_mul(MAX_RATIO))
}

/// A gzip file with one member (RFC 1952).
#[derive(Debug, Serialize, Deserialize)]
struct Gzip {
    start: u64,
    packed: u64,
    size: u64,
    crc32: u32,
}

fn gzip(location: &Path, file: &Arc<dyn Content>, resources: &Arc<Resources>) -> Result<Arc<dyn Content>, SourceError> {
    let other = |error: &dyn Error| unusable(location, &io::Error::other(error.to_string()));
    let of_file = file.identity();
    let known = of_file.as_ref().and_then(|identity| resources.index.get::<Gzip>(RecordKind::Gzip, identity));
    let is_possible = |gzip: &Gzip| gzip.start.checked_add(gzip.packed).is_some_and(|end| end <= file.size());
    let gzip = match known.filter(is_possible) {
        Some(gzip) => gzip,
        None => Gzip::measure(location, file, resources)?,
    };
    check_ratio(location, gzip.size, file.size(), resources)?;
    let mut identity = Identity::describe("gzip");
    if let Some(of_file) = of_file {
        resources.index.put(RecordKind::Gzip, &of_file, &gzip);
        identity.add(&of_file.0);
    }
    let name = location.file_name().unwrap_or_default().as_encoded_bytes();
    let (identity, entry) = (identity.finish(), EntryPath::new(name).map_err(|error| other(&error))?);
    damage::known(resources, &identity, &entry).map_err(|error| other(&error))?;
    let packed = Segment::range(Arc::clone(file), gzip.start, gzip.packed).and_then(|range| Rope::new([range]));
    let stream = Stream {
        entry,
        packed: Arc::new(packed.map_err(|error| other(&error))?),
        size: gzip.size,
        crc32: gzip.crc32,
        identity,
        resources: Arc::clone(resources),
    };
    Ok(Closable::new(Gunzipped { stream, decoders: Decoders::new(&resources.budget) }))
}

/// The content of a gzip file.
#[derive(Debug)]
struct Gunzipped {
    stream: Stream,
    decoders: Arc<Decoders>,
}

impl Openable for Gunzipped {
    fn size(&self) -> u64 {
        self.stream.size
    }

    fn identity(&self) -> Identity {
        self.stream.identity
    }

    fn decoders(&self) -> &Arc<Decoders> {
        &self.decoders
    }

    fn open(&self, listed: ListedMember, facts: MemberFacts) -> OpenMember {
        OpenMember::Deflated(Deflated::new(self.stream.clone(), Arc::clone(&self.decoders), listed, facts))
    }

    fn peek(&self, buffer: &mut [u8]) -> Result<(), ReadError> {
        peek(&self.stream, &self.decoders, buffer)
    }

    fn packed(&self) -> Packed {
        Packed { bytes: Arc::clone(&self.stream.packed), deflated: true, crc32: self.stream.crc32 }
    }

    fn packed_size(&self) -> u64 {
        self.stream.packed.size()
    }
}

impl Gzip {
    /// Inflates the file once. Only this reveals the length of its content, since the trailer has just 32 bits of it.
    fn measure(location: &Path, file: &Arc<dyn Content>, resources: &Resources) -> Result<Self, SourceError> {
        let unusable = |error| unusable(location, &error);
        let mut input = BufReader::with_capacity(PIECE, ContentReader::new(file));
        let start = skip_header(&mut input).map_err(unusable)?;
        let mut decoder = Located::new(DeflateDecoder::new(input));
        let mut piece = vec![0; PIECE];
        let mut hasher = crc32fast::Hasher::new();
        loop {
            let count = decoder.read(&mut piece).map_err(unusable)?;
            if count == 0 {
                break;
            }
            check_ratio(location, decoder.at, file.size(), resources)?;
            hasher.update(piece.get(..count).unwrap_or_default());
        }
        let Located { stream: decoder, at: size } = decoder;
        let (packed, crc32) = (decoder.total_in(), hasher.finalize());
        let mut input = decoder.into_inner();
        let mut trailer = [0; 8];
        input.read_exact(&mut trailer).map_err(|error| unusable(located(&error, size)))?;
        let [c0, c1, c2, c3, s0, s1, s2, s3] = trailer;
        let has_size = u64::from(u32::from_le_bytes([s0, s1, s2, s3])) == size & u64::from(u32::MAX);
        if u32::from_le_bytes([c0, c1, c2, c3]) != crc32 || !has_size {
            let reason = "its content does not have the CRC-32 and the size that its end claims";
            return Err(unusable(io::Error::other(reason)));
        }
        if !input.fill_buf().map_err(unusable)?.is_empty() {
            let reason = "a gzip file of several members, which is not supported; unpack the archive";
            return Err(unusable(io::Error::other(reason)));
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
    if error.kind() == io::ErrorKind::UnexpectedEof {
        return io::Error::new(
            error.kind(),
            format!("it ends after {at} bytes of its content: it is truncated; get it again"),
        );
    }
    io::Error::new(error.kind(), format!("after {at} bytes of its content: {error}"))
}

/// Unpacks a stream to an unnamed file.
fn unpack(
    location: &Path,
    stream: impl Read,
    of: &Arc<dyn Content>,
    resources: &Arc<Resources>,
) -> Result<Arc<dyn Content>, SourceError> {
    let no_room = |error: ScratchError| SourceError::NoRoom { path: location.to_owned(), reason: error.to_string() };
    let mut file = resources.store.scratch().map_err(no_room)?;
    let (mut stream, mut piece) = (Located::new(stream), vec![0; PIECE]);
    loop {
        let count = stream.read(&mut piece).map_err(|error| unusable(location, &error))?;
        if count == 0 {
            break;
        }
        check_ratio(location, stream.at, of.size(), resources)?;
        file.append(piece.get(..count).unwrap_or_default()).map_err(no_room)?;
    }
    let identity = of.identity().map(|of| Identity::describe("unpacked").add(&of.0).finish());
    Ok(Arc::new(Unpacked { file, identity }))
}

/// An unpacked archive.
#[derive(Debug)]
struct Unpacked {
    file: ScratchFile,
    identity: Option<Identity>,
}

impl Content for Unpacked {
    fn size(&self) -> u64 {
        self.file.length()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        check_range(offset, buffer.len(), self.size())?;
        let read = std::os::unix::fs::FileExt::read_exact_at(self.file.as_file(), buffer, offset);
        read.map_err(|source| ReadError::io(&"the unpacked archive".into(), source))
    }

    fn is_nonblocking(&self, offset: u64, length: usize) -> bool {
        is_cached(self.file.as_file(), offset, length)
    }

    fn identity(&self) -> Option<Identity> {
        self.identity
    }
}
