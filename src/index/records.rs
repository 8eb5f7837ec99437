//! The file format of an index.
//!
//! A file is the magic, 16 bytes of the SHA-256 of everything after them, and a zstd frame. All integers in the frame
//! are little-endian. It begins with a u32 length and the [`Header`] in MessagePack. The records follow: u8 kind,
//! identity, u32 day, u32 length, content.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use crate::disk;
use crate::rope::Identity;

const MAGIC: &[u8; 8] = b"KPFSIDX\n";

/// Incremented whenever the meaning of records or the results of planning change.
const FORMAT: u32 = 8;

/// Records that were not used for this many days are dropped.
pub(super) const DAYS: u32 = 60;

/// The largest index that is read, in bytes, compressed or not.
const MAX_SIZE: u64 = 1 << 30;

/// Offset of the frame, after magic and checksum.
const FRAME: usize = 24;

/// Bytes of a record without its content.
pub(super) const HEAD: u64 = 25;

/// The largest zstd window that is accepted, as a power of two. [`LEVEL`] needs 2 MiB.
const WINDOW_LOG: u32 = 23;

/// Bytes read or written at a time.
const PIECE: usize = 64 << 10;

/// The deepest nesting of values that is decoded.
const MAX_DEPTH: usize = 32;

/// The suffix of indexes.
pub(super) const SUFFIX: &str = "index";

/// The suffix of indexes that are being written.
pub(super) const TEMPORARY: &str = "new";

/// Higher levels gain little: most of the content of records is compressed already.
const LEVEL: i32 = 3;

/// Why an index cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RecordsError {
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// What was accessed.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// It is not an index, or is damaged.
    #[error("{}: {reason}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
}

/// The subject of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RecordKind {
    /// Whether a file has device code, and which.
    Scan = 1,
    /// The edits that remove a binary's device code.
    Rewritten = 2,
    /// Where decoding of a deflate stream can start.
    Stream = 3,
    /// Lengths of the compressed code objects of an archive.
    Frames = 4,
    /// Digests of a content.
    Digest = 5,
    /// Length and CRC-32 of a deflate stream for a new wheel.
    Spliced = 6,
    /// Length of the content of a gzip file.
    Gzip = 7,
    /// Which files have no device code.
    Plain = 8,
    /// What is wrong with the RECORD of a wheel, if anything.
    Claims = 9,
    /// What is wrong with a compressed content as a whole: a checksum at its end, or more data than it claims. It is
    /// recorded under the identity of the compressed content, and nothing of such a content is served.
    Damage = 10,
}

/// Identifies the input of an index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Header {
    format: u32,
    version: String,
    /// The input's path.
    pub(super) location: PathBuf,
    /// Device and inode; for a file also size and times.
    stamp: Vec<i64>,
}

/// A stored result.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) kind: u8,
    pub(super) identity: Identity,
    /// The last day on which it was used, in days since 1970.
    pub(super) day: u32,
    pub(super) bytes: Arc<[u8]>,
}

impl Header {
    /// The header for the input that is at `location` now.
    pub(super) fn of(location: &Path) -> io::Result<Self> {
        let location = location.canonicalize()?;
        let metadata = location.metadata()?;
        let mut stamp = vec![metadata.dev().cast_signed(), metadata.ino().cast_signed()];
        if metadata.is_file() {
            stamp.extend([metadata.size().cast_signed(), metadata.mtime(), metadata.mtime_nsec()]);
            stamp.extend([metadata.ctime(), metadata.ctime_nsec()]);
        }
        Ok(Self { format: FORMAT, version: env!("CARGO_PKG_VERSION").to_owned(), location, stamp })
    }
}

/// The file name of the index of an input.
pub(super) fn file_name(location: &Path) -> String {
    format!("{}.{SUFFIX}", stem(location))
}

/// The prefix of the names of everything that is stored about an input.
pub(super) fn stem(location: &Path) -> String {
    let location = location.canonicalize().unwrap_or_else(|_| location.to_owned());
    let identity = Identity::describe("location").add(location.as_os_str().as_bytes()).finish();
    let hash = identity.0.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
    let name = location.file_name().unwrap_or_default().to_string_lossy();
    let name: String = name.chars().filter(|c| c.is_ascii_alphanumeric() || "._-".contains(*c)).take(64).collect();
    format!("{name}-{hash:016x}")
}

/// Days since 1970.
pub(super) fn today() -> u32 {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    u32::try_from(seconds / 86_400).unwrap_or(u32::MAX)
}

/// Opens the index at `path`.
pub(super) fn open(path: &Path) -> Result<File, RecordsError> {
    disk::open(path).map(|(file, _)| file).map_err(at(path))
}

/// Reads an index record by record, so that it need not fit into memory. Fails if its header is not `wanted`.
pub(super) fn read(
    path: &Path,
    file: &File,
    wanted: Option<&Header>,
    mut visit: impl FnMut(Record),
) -> Result<Header, RecordsError> {
    let unusable = |reason| RecordsError::Unusable { path: path.to_owned(), reason };
    let damaged = |_| unusable("damaged");
    let metadata = file.metadata().map_err(at(path))?;
    if !metadata.is_file() || metadata.len() > MAX_SIZE {
        return Err(unusable("not a file of a sensible size"));
    }
    let mut start = Positioned { file, at: 0 };
    let mut magic = [0; MAGIC.len()];
    if start.read_exact(&mut magic).is_err() || magic != *MAGIC {
        return Err(unusable("no index of kpackfs"));
    }
    let mut checksum = [0; 16];
    start.read_exact(&mut checksum).map_err(damaged)?;
    let frame = || Positioned { file, at: FRAME as u64 };
    let length = metadata.len().saturating_sub(FRAME as u64);
    if checksum != checksum_of(length, frame()).map_err(at(path))? {
        return Err(unusable("damaged"));
    }
    let size = uncompressed_size(length, frame()).map_err(at(path))?.ok_or_else(|| unusable("damaged"))?;
    let mut decoder = zstd::Decoder::new(frame()).map_err(at(path))?;
    decoder.window_log_max(WINDOW_LOG).map_err(at(path))?;
    let mut rest = BufReader::with_capacity(PIECE, decoder.take(size));
    let mut left = size;
    let header = read_field(&mut rest, &mut left).map_err(damaged)?;
    let header: Header = decode(&header).ok_or_else(|| unusable("damaged"))?;
    if wanted.is_some_and(|wanted| *wanted != header) {
        return Err(unusable("made by another version, or of an input that has changed since"));
    }
    while left > 0 {
        visit(read_record(&mut rest, &mut left).map_err(damaged)?);
    }
    Ok(header)
}

/// Writes an index atomically. `records` passes the records one by one; `size` is their total number of bytes, with
/// [`HEAD`] for each. Returns the file.
pub(super) fn write(
    path: &Path,
    header: &Header,
    size: u64,
    records: impl FnOnce(&mut dyn FnMut(&Record) -> io::Result<()>) -> io::Result<()>,
) -> Result<File, RecordsError> {
    let header = rmp_serde::to_vec(header).map_err(|error| at(path)(io::Error::other(error)))?;
    let directory = path.parent().unwrap_or(Path::new("."));
    create_directory(directory)?;
    let write = || {
        let temporary = temporary_file(path, directory)?;
        let file = temporary.as_file();
        // The file is no valid index without its checksum, but the magic marks it as one of ours.
        (&*file).write_all(&[&MAGIC[..], &[0; FRAME - MAGIC.len()]].concat())?;
        let mut encoder = zstd::Encoder::new(BufWriter::with_capacity(PIECE, file), LEVEL)?;
        encoder.set_pledged_src_size(Some(size.saturating_add(4 + header.len() as u64)))?;
        write_field(&mut encoder, &header)?;
        records(&mut |record| {
            encoder.write_all(&[record.kind])?;
            encoder.write_all(&record.identity.0)?;
            encoder.write_all(&record.day.to_le_bytes())?;
            write_field(&mut encoder, &record.bytes)
        })?;
        encoder.finish()?.flush()?;
        let length = file.metadata()?.len().saturating_sub(FRAME as u64);
        let checksum = checksum_of(length, Positioned { file, at: FRAME as u64 })?;
        file.write_all_at(&[&MAGIC[..], &checksum].concat(), 0)?;
        temporary.persist(path).map_err(|refused| refused.error)
    };
    write().map_err(at(path))
}

/// A new file in `directory` that becomes the file at `path`. Its name is random: processes in different containers
/// that share the directory can have equal process IDs. It is removed if it is dropped.
fn temporary_file(path: &Path, directory: &Path) -> io::Result<NamedTempFile> {
    let mut prefix = path.file_stem().unwrap_or_default().to_owned();
    prefix.push(".");
    let mut name = tempfile::Builder::new();
    name.prefix(&prefix).suffix(&format!(".{TEMPORARY}")).rand_bytes(16).tempfile_in(directory)
}

/// Whether a file begins with the magic of an index. `false` if it cannot be opened.
pub(super) fn is_index(path: &Path) -> bool {
    let mut magic = [0; MAGIC.len()];
    open(path).is_ok_and(|file| file.read_exact_at(&mut magic, 0).is_ok()) && magic == *MAGIC
}

/// Creates the directory of indexes with mode 0700.
pub(super) fn create_directory(directory: &Path) -> Result<(), RecordsError> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(at(directory))
}

/// Decodes a value from MessagePack. Values nested deeper than [`MAX_DEPTH`] are refused, since each level takes stack.
pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let mut decoder = rmp_serde::Deserializer::from_read_ref(bytes);
    decoder.set_max_depth(MAX_DEPTH);
    T::deserialize(&mut decoder).ok()
}

/// Reads a file from an offset on, without moving the file position.
struct Positioned<'a> {
    file: &'a File,
    at: u64,
}

impl Read for Positioned<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.at)?;
        self.at = self.at.saturating_add(count as u64);
        Ok(count)
    }
}

/// The size that the frame of `length` bytes claims, if it is plausible. A block of 128 KiB takes at least four bytes
/// (RFC 8878, 3.1.1.2).
fn uncompressed_size(length: u64, frame: impl Read) -> io::Result<Option<u64>> {
    let mut head = Vec::new();
    // The longest frame header (RFC 8878, 3.1.1.1).
    frame.take(18).read_to_end(&mut head)?;
    let size = zstd::zstd_safe::get_frame_content_size(&head).ok().flatten();
    Ok(size.filter(|&size| size <= MAX_SIZE.min((length / 4).saturating_mul(128 << 10))))
}

fn checksum_of(length: u64, bytes: impl Read) -> io::Result<[u8; 16]> {
    Ok(Identity::describe("index").add_read(length, bytes)?.finish().0)
}

fn write_field(writer: &mut impl Write, field: &[u8]) -> io::Result<()> {
    // No record has 4 GiB or more. One that had would only make the index unreadable.
    writer.write_all(&u32::try_from(field.len()).unwrap_or(u32::MAX).to_le_bytes())?;
    writer.write_all(field)
}

/// Reads `N` of the `left` bytes.
fn read_array<const N: usize>(reader: &mut impl Read, left: &mut u64) -> io::Result<[u8; N]> {
    *left = left.checked_sub(N as u64).ok_or(io::ErrorKind::UnexpectedEof)?;
    let mut array = [0; N];
    reader.read_exact(&mut array)?;
    Ok(array)
}

fn read_field(reader: &mut impl Read, left: &mut u64) -> io::Result<Vec<u8>> {
    let length = u32::from_le_bytes(read_array(reader, left)?);
    *left = left.checked_sub(length.into()).ok_or(io::ErrorKind::UnexpectedEof)?;
    // The claimed length is not verified yet, so no memory is allocated in advance.
    let mut field = Vec::new();
    let read = reader.take(length.into()).read_to_end(&mut field)?;
    if read as u64 == u64::from(length) { Ok(field) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

fn read_record(reader: &mut impl Read, left: &mut u64) -> io::Result<Record> {
    let [kind] = read_array(reader, left)?;
    let identity = Identity(read_array(reader, left)?);
    let day = u32::from_le_bytes(read_array(reader, left)?);
    Ok(Record { kind, identity, day, bytes: read_field(reader, left)?.into() })
}

pub(super) fn at(path: &Path) -> impl FnOnce(io::Error) -> RecordsError {
    move |source| RecordsError::Io { path: path.to_owned(), source }
}
