//! The file that records are kept in.
//!
//! The magic, 16 bytes of the SHA-256 of all that follows, and a zstd frame. In it, all integers little-endian: u32 length
//! and MessagePack of the [`Header`], then the records: u8 kind, identity, u32 day, u32 length, content.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::rope::Identity;

const MAGIC: &[u8; 8] = b"KPFSIDX\n";

/// Raised whenever records mean something else than before, or planning comes to other results.
const FORMAT: u32 = 7;

/// Days after which a record that nobody has had use for is dropped.
pub(super) const DAYS: u32 = 60;

/// The largest index that is believed, compressed or not.
const MAX_SIZE: u64 = 1 << 30;

/// Where the frame begins: behind the magic and the checksum.
const FRAME: usize = 24;

/// Bytes of a record in addition to its content.
pub(super) const HEAD: u64 = 25;

/// The largest zstd window that is taken, as a power of two. [`LEVEL`] makes 2 MiB.
const WINDOW_LOG: u32 = 23;

/// Bytes read or written at once.
const PIECE: usize = 64 << 10;

/// How deep values are nested at most.
const MAX_DEPTH: usize = 32;

/// What the names of these files end with.
pub(super) const SUFFIX: &str = "index";

/// The same while they are being written.
pub(super) const TEMPORARY: &str = "new";

/// Records compress to little whatever the level is; most of what they hold is compressed already.
const LEVEL: i32 = 3;

/// Why an index cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RecordsError {
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// What was accessed.
        path: PathBuf,
        /// The answer.
        source: io::Error,
    },
    /// It is no index, or damaged.
    #[error("{}: {reason}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
}

/// What an index is of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Header {
    format: u32,
    version: String,
    /// Where the input is.
    pub(super) location: PathBuf,
    /// Device, inode, and for a file size and times: all that tells it from another one.
    stamp: Vec<i64>,
}

/// Something that was found out.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) kind: u8,
    pub(super) identity: Identity,
    /// The last day on which it was used, counted from 1970.
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

/// The name of the index of an input.
pub(super) fn file_name(location: &Path) -> String {
    format!("{}.{SUFFIX}", stem(location))
}

/// What the names of everything begin with that is kept about an input.
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

/// Opens an index that is at `path`.
pub(super) fn open(path: &Path) -> Result<File, RecordsError> {
    // Without it a named pipe would have to be written to first.
    File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(at(path))
}

/// Reads an index record by record, so that it does not have to fit into memory; fails if it is not the one of `wanted`.
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

/// Writes an index so that a reader sees all of it or none. `size` is the number of bytes of all records, each
/// with [`HEAD`], which `records` passes on one by one. Returns the file.
pub(super) fn write(
    path: &Path,
    header: &Header,
    size: u64,
    records: impl FnOnce(&mut dyn FnMut(&Record) -> io::Result<()>) -> io::Result<()>,
) -> Result<File, RecordsError> {
    /// Several threads can save at the same time.
    static COUNT: AtomicU64 = AtomicU64::new(0);

    let header = rmp_serde::to_vec(header).map_err(|error| at(path)(io::Error::other(error)))?;
    let directory = path.parent().unwrap_or(Path::new("."));
    create_directory(directory)?;
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let temporary = path.with_extension(format!("{}.{number}.{TEMPORARY}", process::id()));
    let write = || {
        let file = File::options().read(true).write(true).create_new(true).mode(0o600).open(&temporary)?;
        // Without its checksum it is no index yet, but its name says what it was going to be.
        (&file).write_all(&[&MAGIC[..], &[0; FRAME - MAGIC.len()]].concat())?;
        let mut encoder = zstd::Encoder::new(BufWriter::with_capacity(PIECE, &file), LEVEL)?;
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
        let checksum = checksum_of(length, Positioned { file: &file, at: FRAME as u64 })?;
        file.write_all_at(&[&MAGIC[..], &checksum].concat(), 0)?;
        fs::rename(&temporary, path)?;
        Ok(file)
    };
    write().map_err(|source| {
        fs::remove_file(&temporary).ok();
        at(path)(source)
    })
}

/// Whether a file begins as an index does. One that cannot be opened is not ours to judge.
pub(super) fn is_index(path: &Path) -> bool {
    let mut magic = [0; MAGIC.len()];
    open(path).is_ok_and(|file| file.read_exact_at(&mut magic, 0).is_ok()) && magic == *MAGIC
}

/// Creates the directory of indexes, for its owner only.
pub(super) fn create_directory(directory: &Path) -> Result<(), RecordsError> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(at(directory))
}

/// A value out of MessagePack. What is nested deeper than anything that is put down is not followed: each level takes stack.
pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let mut decoder = rmp_serde::Deserializer::from_read_ref(bytes);
    decoder.set_max_depth(MAX_DEPTH);
    T::deserialize(&mut decoder).ok()
}

/// Reads a file from a position on, whatever others read.
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

/// What the frame of `length` bytes claims, if that can be believed. A block of 128 KiB takes at least four bytes
/// (RFC 8878, 3.1.1.2).
fn uncompressed_size(length: u64, frame: impl Read) -> io::Result<Option<u64>> {
    let mut head = Vec::new();
    // The longest header of a frame (RFC 8878, 3.1.1.1).
    frame.take(18).read_to_end(&mut head)?;
    let size = zstd::zstd_safe::get_frame_content_size(&head).ok().flatten();
    Ok(size.filter(|&size| size <= MAX_SIZE.min((length / 4).saturating_mul(128 << 10))))
}

fn checksum_of(length: u64, bytes: impl Read) -> io::Result<[u8; 16]> {
    Ok(Identity::describe("index").add_read(length, bytes)?.finish().0)
}

fn write_field(writer: &mut impl Write, field: &[u8]) -> io::Result<()> {
    // No record is larger than a file that fits into memory; one that were would make the index unreadable, no more.
    writer.write_all(&u32::try_from(field.len()).unwrap_or(u32::MAX).to_le_bytes())?;
    writer.write_all(field)
}

/// Reads `N` of the bytes that are left.
fn read_array<const N: usize>(reader: &mut impl Read, left: &mut u64) -> io::Result<[u8; N]> {
    *left = left.checked_sub(N as u64).ok_or(io::ErrorKind::UnexpectedEof)?;
    let mut array = [0; N];
    reader.read_exact(&mut array)?;
    Ok(array)
}

fn read_field(reader: &mut impl Read, left: &mut u64) -> io::Result<Vec<u8>> {
    let length = u32::from_le_bytes(read_array(reader, left)?);
    *left = left.checked_sub(length.into()).ok_or(io::ErrorKind::UnexpectedEof)?;
    // What is claimed is not there yet, so memory is not taken in advance.
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
