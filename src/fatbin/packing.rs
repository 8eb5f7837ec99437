//! The compressed offload bundle (clang's documentation, "Compressed and Uncompressed HIP Device Code"; LLVM's
//! `CompressedOffloadBundle`): the magic `CCOB`, u16 version, u16 method, sizes, u64 hash, then one zstd frame or zlib
//! stream that holds an uncompressed bundle. All integers are little-endian.
//!
//! | version | total size | uncompressed size | header |
//! |---|---|---|---|
//! | 1 | - | u32 | 20 bytes |
//! | 2 | u32 | u32 | 24 bytes |
//! | 3 | u64 | u64 | 32 bytes |

use serde::{Deserialize, Serialize};

use super::FatbinError;
use super::bundle::malformed;

pub(super) const MAGIC: &[u8; 4] = b"CCOB";

/// The largest bundle that is decompressed, in bytes. The largest known one holds 114 MB.
pub(super) const MAX_SIZE: u64 = 1 << 30;

/// Bundles of code become up to 100 times as large (jax's: 29 MB for 2437 MB). From this ratio and this size on, hardly any code can
/// be in one.
const ABSURD_RATIO: u64 = 1000;
const ABSURD_SIZE: u64 = 16 << 20;

/// The largest zstd window that is accepted, as a power of two: zstd's own default. clang writes single-segment frames,
/// whose window is the whole bundle.
pub(crate) const WINDOW_LOG: u32 = 27;

/// The window of a zlib stream (RFC 1950), in bytes.
const ZLIB_WINDOW: u64 = 32 << 10;

/// How a bundle is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Method {
    /// As a zlib stream (RFC 1950).
    Zlib,
    /// As a zstd frame (RFC 8878).
    Zstd,
}

/// The version of a compressed bundle, and its method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompressedFormat {
    version: u16,
    /// How it is compressed.
    pub method: Method,
}

impl CompressedFormat {
    /// The latest version with a method.
    pub(super) fn of(method: Method) -> Self {
        Self { version: 3, method }
    }

    /// Bytes of the header.
    pub fn header_size(self) -> u64 {
        match self.version {
            1 => 20,
            2 => 24,
            _ => 32,
        }
    }

    /// The header of a bundle of `size` bytes that are compressed to `length`, with the lowest 64 bits of their MD5 as
    /// `hash`. `None` if its fields cannot hold these sizes.
    pub fn header(self, length: u64, size: u64, hash: u64) -> Option<Vec<u8>> {
        let mut header = MAGIC.to_vec();
        header.extend(self.version.to_le_bytes());
        let method: u16 = match self.method {
            Method::Zlib => 0,
            Method::Zstd => 1,
        };
        header.extend(method.to_le_bytes());
        let total = length.checked_add(self.header_size())?;
        match self.version {
            1 => header.extend(u32::try_from(size).ok()?.to_le_bytes()),
            2 => [total, size].iter().try_for_each(|&field| {
                header.extend(u32::try_from(field).ok()?.to_le_bytes());
                Some(())
            })?,
            _ => header.extend([total, size].iter().flat_map(|field| field.to_le_bytes())),
        }
        header.extend(hash.to_le_bytes());
        Some(header)
    }
}

impl Method {
    /// The most bytes that `length` compressed bytes can stand for.
    fn most(self, length: u64) -> u64 {
        match self {
            // A match of 258 bytes takes at least two bits (RFC 1951).
            Self::Zlib => length.saturating_mul(1032),
            // A block of 128 KiB takes at least four bytes (RFC 8878, 3.1.1.2).
            Self::Zstd => (length / 4).saturating_mul(128 << 10),
        }
    }
}

/// What the header of a compressed bundle says.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct CompressedHeader {
    /// Where the compressed bytes are in the file.
    pub(super) start: u64,
    pub(super) length: u64,
    pub(super) format: CompressedFormat,
    /// Bytes of the bundle when it is decompressed.
    pub(super) size: u64,
    /// Decompressed bytes that a decoder has to keep.
    pub(super) window: u64,
}

impl CompressedHeader {
    /// Understands the header of the bundle at `offset`, of which `head` is the beginning and `available` the number of
    /// bytes it may take. `Ok(None)` if it is no compressed bundle.
    pub(super) fn parse(offset: u64, head: &[u8], available: u64) -> Result<Option<Self>, FatbinError> {
        let Some(fields) = head.strip_prefix(MAGIC) else { return Ok(None) };
        let header = PackedHeader::parse(fields).ok_or_else(|| malformed(offset, "its header is truncated"))?;
        let (version, total, size) = match header {
            PackedHeader { version: 1, narrow: [size, _], .. } => (1, available, size),
            PackedHeader { version: 2, narrow: [total, size], .. } => (2, total, size),
            PackedHeader { version: 3, wide: [total, size], .. } => (3, total, size),
            PackedHeader { version, .. } => {
                return Err(malformed(offset, format!("unknown version {version} of CCOB")));
            }
        };
        let method = match header.method {
            0 => Method::Zlib,
            1 => Method::Zstd,
            other => return Err(malformed(offset, format!("unknown compression method {other}"))),
        };
        let format = CompressedFormat { version, method };
        let header_size = format.header_size();
        if total > available || total < header_size {
            return Err(malformed(offset, format!("it claims to take {total} bytes of {available}")));
        }
        if size > MAX_SIZE {
            return Err(malformed(offset, format!("it claims to hold {size} bytes; the limit is {MAX_SIZE}")));
        }
        // Version 1 does not say how long it is. No more than this can belong to it.
        let length = (total - header_size).min(longest(size));
        if size > method.most(length) {
            return Err(malformed(offset, format!("{length} compressed bytes cannot hold the {size} that it claims")));
        }
        let window = match method {
            Method::Zlib => ZLIB_WINDOW,
            Method::Zstd => {
                let frame = usize::try_from(header_size).ok().and_then(|skipped| head.get(skipped..));
                frame.and_then(window_of).ok_or_else(|| malformed(offset, "it does not hold a zstd frame"))?
            }
        };
        if window > 1 << WINDOW_LOG {
            let most = 1_u64 << WINDOW_LOG;
            return Err(malformed(
                offset,
                format!("decompressing it needs a window of {window} bytes; the limit is {most}"),
            ));
        }
        Ok(Some(Self { start: offset + header_size, length, format, size, window: window.min(size) }))
    }

    /// Whether it claims to become so much more than it is that it may have been made to exhaust memory or disk.
    pub(super) fn is_absurd(&self) -> bool {
        self.size >= ABSURD_SIZE && self.size / ABSURD_RATIO >= self.length
    }

    /// Whether this can be in a file of `size` bytes. A record of an earlier session may be wrong.
    pub(super) fn is_possible(&self, size: u64) -> bool {
        let end = self.start.checked_add(self.length);
        end.is_some_and(|end| end <= size)
            && self.size <= MAX_SIZE.min(self.format.method.most(self.length))
            && self.window <= self.size.min(1 << WINDOW_LOG)
    }

    /// Bytes of the compressed bundle that begins with `head`, if it is one and says so.
    pub(super) fn total_size(head: &[u8]) -> Option<u64> {
        match PackedHeader::parse(head.strip_prefix(MAGIC)?)? {
            PackedHeader { version: 2, narrow: [total, _], .. } | PackedHeader { version: 3, wide: [total, _], .. } => {
                Some(total)
            }
            PackedHeader { .. } => None,
        }
    }
}

/// Bytes that `size` bytes take at most when they are compressed, with either method (zstd's `ZSTD_COMPRESSBOUND`, and
/// zlib's `compressBound`, which is less), and some for headers.
fn longest(size: u64) -> u64 {
    size + size / 128 + (128 << 10)
}

/// The window that the zstd frame which begins with `frame` needs, in bytes (RFC 8878, 3.1.1.1). All integers are
/// little-endian.
pub(crate) fn window_of(frame: &[u8]) -> Option<u64> {
    let (descriptor, rest) = descriptor_of(frame)?;
    if descriptor & 0x20 == 0 {
        let &window = rest.first()?;
        let base = 1_u64 << (10 + (window >> 3));
        return Some(base + base / 8 * u64::from(window & 7));
    }
    // A single segment: its content is its window.
    content_size(frame)
}

/// The bytes that the zstd frame which begins with `frame` becomes, if it says so.
pub(super) fn content_size(frame: &[u8]) -> Option<u64> {
    let (descriptor, rest) = descriptor_of(frame)?;
    let is_single = descriptor & 0x20 != 0;
    // The window comes first, and the dictionary ID.
    let dictionary = [0, 1, 2, 4].get(usize::from(descriptor & 3))?;
    let content = rest.get(dictionary + usize::from(!is_single)..)?;
    match descriptor >> 6 {
        0 if is_single => content.first().map(|&size| size.into()),
        0 => None,
        1 => content.first_chunk().map(|size| u64::from(u16::from_le_bytes(*size)) + 256),
        2 => content.first_chunk().map(|size| u32::from_le_bytes(*size).into()),
        _ => content.first_chunk().map(|size| u64::from_le_bytes(*size)),
    }
}

/// The descriptor of a zstd frame, and what follows it.
fn descriptor_of(frame: &[u8]) -> Option<(u8, &[u8])> {
    let rest = frame.strip_prefix(&[0x28, 0xB5, 0x2F, 0xFD])?;
    rest.split_first().map(|(descriptor, rest)| (*descriptor, rest))
}

/// The fields behind the magic. The first two sizes are read both as u32 and as u64; the version says which count.
struct PackedHeader {
    version: u16,
    method: u16,
    narrow: [u64; 2],
    wide: [u64; 2],
}

impl PackedHeader {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let (version, rest) = bytes.split_first_chunk()?;
        let (method, rest) = rest.split_first_chunk()?;
        let narrow = |at: usize| rest.get(at..)?.first_chunk().map(|field| u32::from_le_bytes(*field).into());
        let wide = |at: usize| rest.get(at..)?.first_chunk().map(|field| u64::from_le_bytes(*field));
        Some(Self {
            version: u16::from_le_bytes(*version),
            method: u16::from_le_bytes(*method),
            narrow: [narrow(0)?, narrow(4)?],
            wide: [wide(0)?, wide(8).unwrap_or(0)],
        })
    }
}
