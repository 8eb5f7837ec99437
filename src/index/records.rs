//! The records of an index: their kinds, the input that they are about, and the names of its files.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::rope::Identity;

/// Incremented whenever the format, the meaning of records or the results of planning change. Releases that change
/// none of these share indexes.
const FORMAT: u32 = 21;

/// Records that were not used for this many days are dropped.
pub(super) const DAYS: u32 = 60;

/// The deepest nesting of values that is decoded.
const MAX_DEPTH: usize = 32;

/// The suffix of indexes.
pub(super) const SUFFIX: &str = "index";

/// The suffix of indexes that are being written.
pub(super) const TEMPORARY: &str = "new";

/// Why an index cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RecordsError {
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// It is not an index, or is damaged.
    #[error("{}: {reason}", path.display())]
    Unusable { path: PathBuf, reason: &'static str },
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
    /// Places and lengths of the members of a gzip file.
    Gzip = 7,
    /// Which files have no device code.
    Plain = 8,
    /// What is wrong with the RECORD of a wheel, if anything, and a sum over its lines.
    Claims = 9,
    /// What is wrong with a compressed content as a whole: a checksum at its end, or more data than it claims. It is
    /// recorded under the identity of the compressed content, and nothing of such a content is served.
    Damage = 10,
    /// Size and SHA-256 of a whole wheel.
    Wheel = 11,
    /// CRC-32 of a content, and the lengths of the blocks of its deflate stream for a new wheel.
    Deflated = 12,
}

/// Identifies the input of an index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Header {
    format: u32,
    /// The input's path, whose names are bytes.
    #[serde(with = "serde_bytes")]
    location: Vec<u8>,
    /// Device and inode; for a file also size and times.
    stamp: Vec<i64>,
}

/// What is known of a stored result without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordHead {
    pub(super) kind: u8,
    pub(super) identity: Identity,
    /// The last day on which it was used, in days since 1970.
    pub(super) day: u32,
}

impl Default for RecordHead {
    /// That of no record.
    fn default() -> Self {
        Self { kind: 0, identity: Identity([0; 16]), day: 0 }
    }
}

impl RecordHead {
    pub(super) fn is_some(&self) -> bool {
        self.kind != 0
    }

    /// Whether both are about the same.
    pub(super) fn is_of(&self, other: &Self) -> bool {
        (self.kind, self.identity) == (other.kind, other.identity)
    }

    pub(super) fn to_bytes(self) -> Vec<u8> {
        [&[self.kind][..], &self.identity.0, &self.day.to_le_bytes()].concat()
    }

    /// Takes it from the beginning of some bytes.
    pub(super) fn take(bytes: &mut &[u8]) -> Option<Self> {
        let (&[kind], rest) = bytes.split_first_chunk()?;
        let (identity, rest) = rest.split_first_chunk()?;
        let (day, rest) = rest.split_first_chunk()?;
        *bytes = rest;
        Some(Self { kind, identity: Identity(*identity), day: u32::from_le_bytes(*day) })
    }
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
        Ok(Self { format: FORMAT, location: location.into_os_string().into_vec(), stamp })
    }

    pub(super) fn location(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.location))
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

/// Decodes a value from MessagePack. Values nested deeper than [`MAX_DEPTH`] are refused, since each level takes stack.
pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let mut decoder = rmp_serde::Deserializer::from_read_ref(bytes);
    decoder.set_max_depth(MAX_DEPTH);
    T::deserialize(&mut decoder).ok()
}

pub(super) fn at(path: &Path) -> impl FnOnce(io::Error) -> RecordsError {
    move |source| RecordsError::Io { path: path.to_owned(), source }
}
