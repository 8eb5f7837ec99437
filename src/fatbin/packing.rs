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

use super::error::{FatbinError, malformed};
use crate::rope::to_usize;

pub(super) const MAGIC: &[u8; 4] = b"CCOB";

/// The largest bundle that is decompressed, in bytes. The largest known one has 114 MB.
pub(super) const MAX_SIZE: u64 = 1 << 30;

/// Ratio and size from which on a bundle's claim is implausible. Bundles of code are compressed by a factor of up to
/// 100 (jax's: 2437 MB to 29 MB), so hardly any code can be in such a bundle.
const ABSURD_RATIO: u64 = 1000;
const ABSURD_SIZE: u64 = 16 << 20;

/// The largest zstd window that is accepted, as a power of two: zstd's own default. clang writes single-segment frames,
/// whose window is the whole bundle.
pub(crate) const WINDOW_LOG: u32 = 27;

/// The window of a zlib stream (RFC 1950), in bytes.
const ZLIB_WINDOW: u64 = 32 << 10;

/// The compression method of a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Method {
    /// A zlib stream (RFC 1950).
    Zlib,
    /// A zstd frame (RFC 8878).
    Zstd,
}

/// The version of a compressed bundle, and its method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CompressedFormat {
    version: u16,
    /// The compression method.
    pub method: Method,
}

impl CompressedFormat {
    /// The latest version for a method.
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

    /// The header of a bundle of `size` bytes, compressed to `length` bytes. `hash` is the lowest 64 bits of its MD5.
    /// `None` if the header's fields cannot hold these sizes.
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
    /// The largest decompressed size of `length` compressed bytes.
    fn max_size(self, length: u64) -> u64 {
        match self {
            // A match of 258 bytes takes at least two bits (RFC 1951).
            Self::Zlib => length.saturating_mul(1032),
            // A block of 128 KiB takes at least four bytes (RFC 8878, 3.1.1.2).
            Self::Zstd => (length / 4).saturating_mul(128 << 10),
        }
    }
}

/// The fields of a compressed bundle's header.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct CompressedHeader {
    /// Offset of the compressed bytes in the file.
    pub(super) start: u64,
    pub(super) length: u64,
    pub(super) format: CompressedFormat,
    /// Decompressed bytes.
    pub(super) size: u64,
    /// Bytes of the window that a decoder needs.
    pub(super) window: u64,
}

impl CompressedHeader {
    /// Parses the header of the bundle at `offset`. `head` is its beginning, and `available` the number of bytes it may
    /// take. `Ok(None)` if it is not a compressed bundle.
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
        // Version 1 does not state its length. This is the most that can belong to it.
        let length = (total - header_size).min(compress_bound(size));
        if size > method.max_size(length) {
            return Err(malformed(offset, format!("{length} compressed bytes cannot hold the {size} that it claims")));
        }
        let window = match method {
            Method::Zlib => ZLIB_WINDOW,
            Method::Zstd => {
                let frame = head.get(to_usize(header_size)..).unwrap_or_default();
                if let Some(stated) = content_size(frame).filter(|stated| *stated != size) {
                    let reason = format!("its zstd frame states {stated} bytes, and its header {size}");
                    return Err(malformed(offset, reason));
                }
                window_of(frame).ok_or_else(|| malformed(offset, "it does not hold a zstd frame"))?
            }
        };
        if window > 1 << WINDOW_LOG {
            let limit = 1_u64 << WINDOW_LOG;
            return Err(malformed(
                offset,
                format!("decompressing it needs a window of {window} bytes; the limit is {limit}"),
            ));
        }
        Ok(Some(Self { start: offset + header_size, length, format, size, window: window.min(size) }))
    }

    /// Whether its claimed size is so implausible that it may be meant to exhaust memory or disk.
    pub(super) fn is_absurd(&self) -> bool {
        is_absurd(self.length, self.size)
    }

    /// Whether this can be in a file of `size` bytes. A record of an earlier session may be wrong.
    pub(super) fn is_possible(&self, size: u64) -> bool {
        let end = self.start.checked_add(self.length);
        end.is_some_and(|end| end <= size)
            && self.size <= MAX_SIZE.min(self.format.method.max_size(self.length))
            && self.window <= self.size.min(1 << WINDOW_LOG)
    }

    /// Bytes of the compressed bundle that begins with `head`, if it is one and states its size.
    pub(super) fn total_size(head: &[u8]) -> Option<u64> {
        match PackedHeader::parse(head.strip_prefix(MAGIC)?)? {
            PackedHeader { version: 2, narrow: [total, _], .. } | PackedHeader { version: 3, wide: [total, _], .. } => {
                Some(total)
            }
            PackedHeader { .. } => None,
        }
    }
}

/// Whether it is implausible that `length` compressed bytes are `size` bytes of code.
pub(crate) fn is_absurd(length: u64, size: u64) -> bool {
    size >= ABSURD_SIZE && size / ABSURD_RATIO >= length
}

/// The most bytes that `size` bytes can take when compressed with either method (zstd's `ZSTD_COMPRESSBOUND`; zlib's
/// `compressBound` is less), plus some for headers.
fn compress_bound(size: u64) -> u64 {
    size + size / 128 + (128 << 10)
}

/// Bytes of the window of the zstd frame that begins with `frame` (RFC 8878, 3.1.1.1). All integers are little-endian.
pub(crate) fn window_of(frame: &[u8]) -> Option<u64> {
    let (descriptor, rest) = descriptor_of(frame)?;
    if descriptor & 0x20 == 0 {
        let &window = rest.first()?;
        let base = 1_u64 << (10 + (window >> 3));
        return Some(base + base / 8 * u64::from(window & 7));
    }
    // A single segment: the window is the content.
    content_size(frame)
}

/// Decompressed bytes of the zstd frame that begins with `frame`, if it states them.
pub(crate) fn content_size(frame: &[u8]) -> Option<u64> {
    let (descriptor, rest) = descriptor_of(frame)?;
    let is_single = descriptor & 0x20 != 0;
    // The window and the dictionary ID precede it.
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

/// Bytes of the header of the zstd frame that begins with `frame`. `None` if it is no frame, or needs a dictionary.
pub(super) fn frame_header_size(frame: &[u8]) -> Option<u64> {
    let (descriptor, _) = descriptor_of(frame).filter(|(descriptor, _)| matches!(descriptor & 3, 0))?;
    let is_single = descriptor & 0x20 != 0;
    let size = match descriptor >> 6 {
        0 => u64::from(is_single),
        flag => 1 << flag,
    };
    Some(5 + u64::from(!is_single) + size)
}

/// The descriptor of a zstd frame, and the bytes after it.
fn descriptor_of(frame: &[u8]) -> Option<(u8, &[u8])> {
    let rest = frame.strip_prefix(&[0x28, 0xB5, 0x2F, 0xFD])?;
    rest.split_first().map(|(descriptor, rest)| (*descriptor, rest))
}

/// The fields after the magic. The first two sizes are read both as u32 and as u64; the version says which is valid.
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
