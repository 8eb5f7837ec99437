//! The file that records are kept in.
//!
//! The magic, 16 bytes of the SHA-256 of all that follows, and a zstd frame. In it, all integers little-endian: u32 length
//! and MessagePack of the [`Header`], then the records: u8 kind, identity, u32 day, u32 length, content.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
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
const FORMAT: u32 = 5;

/// Days after which a record that nobody has had use for is dropped.
pub(super) const DAYS: u32 = 60;

/// The largest index that is believed, compressed or not.
const MAX_SIZE: usize = 1 << 30;

/// How deep values are nested at most.
const MAX_DEPTH: usize = 32;

/// What the names of these files end with.
pub(super) const SUFFIX: &str = "index";

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

/// Something that was learnt.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) kind: u8,
    pub(super) identity: Identity,
    /// The last day on which somebody had use for it, counted from 1970.
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

/// Reads an index; fails if it is not the one of `wanted`.
pub(super) fn read(path: &Path, wanted: Option<&Header>) -> Result<(Header, Vec<Record>), RecordsError> {
    let unusable = |reason| RecordsError::Unusable { path: path.to_owned(), reason };
    let file = read_file(path)?;
    let body = file.strip_prefix(MAGIC).ok_or_else(|| unusable("no index of kpackfs"))?;
    let damaged = || unusable("damaged");
    let (checksum, frame) = body.split_first_chunk::<16>().ok_or_else(damaged)?;
    if *checksum != checksum_of(frame) {
        return Err(damaged());
    }
    let bytes = zstd::bulk::decompress(frame, uncompressed_size(frame).ok_or_else(damaged)?).map_err(|_| damaged())?;
    let mut rest = bytes.as_slice();
    let header: Header = take_field(&mut rest).and_then(decode).ok_or_else(damaged)?;
    if wanted.is_some_and(|wanted| *wanted != header) {
        return Err(unusable("made by another version, or of an input that has changed since"));
    }
    let mut records = Vec::new();
    while !rest.is_empty() {
        records.push(take_record(&mut rest).ok_or_else(damaged)?);
    }
    Ok((header, records))
}

/// Writes an index so that whoever reads it sees all of it or none.
pub(super) fn write(path: &Path, header: &Header, records: &[Record]) -> Result<(), RecordsError> {
    /// Several threads can save at the same time.
    static COUNT: AtomicU64 = AtomicU64::new(0);

    let mut bytes = Vec::new();
    let header = rmp_serde::to_vec(header).map_err(|error| at(path)(io::Error::other(error)))?;
    add_field(&mut bytes, &header);
    for record in records {
        bytes.push(record.kind);
        bytes.extend(record.identity.0);
        bytes.extend(record.day.to_le_bytes());
        add_field(&mut bytes, &record.bytes);
    }
    let frame = zstd::bulk::compress(&bytes, LEVEL).map_err(at(path))?;
    let directory = path.parent().unwrap_or(Path::new("."));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(at(directory))?;
    let temporary = path.with_extension(format!("{}.{}.new", process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
    let written = File::options().write(true).create_new(true).mode(0o600).open(&temporary).and_then(|mut file| {
        file.write_all(MAGIC)?;
        file.write_all(&checksum_of(&frame))?;
        file.write_all(&frame)?;
        fs::rename(&temporary, path)
    });
    written.map_err(|source| {
        fs::remove_file(&temporary).ok();
        at(path)(source)
    })
}

/// A value out of MessagePack. What is nested deeper than anything that is put down is not followed: each level takes stack.
pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let mut decoder = rmp_serde::Deserializer::from_read_ref(bytes);
    decoder.set_max_depth(MAX_DEPTH);
    T::deserialize(&mut decoder).ok()
}

/// The bytes of a file, unless it is none or too large.
fn read_file(path: &Path) -> Result<Vec<u8>, RecordsError> {
    // Without it a named pipe would have to be written to first.
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(at(path))?;
    let metadata = file.metadata().map_err(at(path))?;
    if !metadata.is_file() || metadata.len() > MAX_SIZE as u64 {
        return Err(RecordsError::Unusable { path: path.to_owned(), reason: "not a file of a sensible size" });
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0));
    file.take(MAX_SIZE as u64).read_to_end(&mut bytes).map_err(at(path))?;
    Ok(bytes)
}

/// What the frame claims, if that can be believed. A block of 128 KiB takes at least four bytes (RFC 8878, 3.1.1.2).
fn uncompressed_size(frame: &[u8]) -> Option<usize> {
    let size = zstd::zstd_safe::get_frame_content_size(frame).ok()??;
    usize::try_from(size).ok().filter(|&size| size <= MAX_SIZE.min((frame.len() / 4).saturating_mul(128 << 10)))
}

fn checksum_of(bytes: &[u8]) -> [u8; 16] {
    Identity::describe("index").add(bytes).finish().0
}

fn add_field(bytes: &mut Vec<u8>, field: &[u8]) {
    // No record is larger than a file that fits into memory; one that were would make the index unreadable, no more.
    bytes.extend(u32::try_from(field.len()).unwrap_or(u32::MAX).to_le_bytes());
    bytes.extend(field);
}

fn take_field<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, after) = rest.split_first_chunk::<4>()?;
    let (field, after) = after.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
    *rest = after;
    Some(field)
}

fn take_record(rest: &mut &[u8]) -> Option<Record> {
    let (&kind, after) = rest.split_first()?;
    let (identity, after) = after.split_first_chunk()?;
    let (day, mut after) = after.split_first_chunk()?;
    let bytes = take_field(&mut after)?.into();
    *rest = after;
    Some(Record { kind, identity: Identity(*identity), day: u32::from_le_bytes(*day), bytes })
}

pub(super) fn at(path: &Path) -> impl FnOnce(io::Error) -> RecordsError {
    move |source| RecordsError::Io { path: path.to_owned(), source }
}
