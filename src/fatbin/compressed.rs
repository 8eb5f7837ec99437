//! The compressed offload bundle (clang's documentation, "Compressed and Uncompressed HIP Device Code"; LLVM's
//! `CompressedOffloadBundle`): the magic `CCOB`, u16 version, u16 method, sizes, u64 hash, then one zstd frame or zlib
//! stream that holds an uncompressed bundle. All integers are little-endian.
//!
//! | version | total size | uncompressed size | header |
//! |---|---|---|---|
//! | 1 | - | u32 | 20 bytes |
//! | 2 | u32 | u32 | 24 bytes |
//! | 3 | u64 | u64 | 32 bytes |

use std::fmt;
use std::io::{self, BufReader, Read};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use serde::{Deserialize, Serialize};

use super::FatbinError;
use super::bundle::malformed;
use crate::index::{Lent, Resources};
use crate::rope::{Content, Identity, ReadError, check_range, copy_from};

pub(super) const MAGIC: &[u8; 4] = b"CCOB";

/// The largest bundle that is decompressed. The largest known one holds 114 MB; a bundle is held in memory as a whole.
const MAX_SIZE: u64 = 1 << 30;

/// The largest zstd window that is taken whatever the bundle's size, as a power of two: zstd's own default. Larger ones, as
/// clang uses them to find what code objects have in common, are never larger than the bundle.
const WINDOW_LOG: u32 = 27;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Method {
    Zlib,
    Zstd,
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

/// A compressed bundle. It is decompressed when it is read, into memory of [`Resources::buffers`], and kept
/// for a while in [`Resources::bundles`].
pub struct Compressed {
    content: Arc<dyn Content>,
    packing: Packing,
    id: u64,
    resources: Arc<Resources>,
    /// The decompressed bundle as long as anybody uses it, also when it is not in the cache. Locked while it is being
    /// decompressed.
    in_use: Mutex<Weak<Decompressed>>,
}

/// A bundle in memory. The memory is used again when nobody needs this bundle any more.
pub type Decompressed = Lent<Vec<u8>>;

/// What the header of a compressed bundle says.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Packing {
    /// Where the compressed bytes are in the file.
    start: u64,
    length: u64,
    method: Method,
    /// Bytes of the bundle when it is decompressed.
    pub(super) size: u64,
}

impl Packing {
    /// Understands the header of the bundle at `offset`, of which `head` is the beginning and `available` the number of
    /// bytes it may take. `Ok(None)` if it is no compressed bundle.
    pub(super) fn parse(offset: u64, head: &[u8], available: u64) -> Result<Option<Self>, FatbinError> {
        let Some(fields) = head.strip_prefix(MAGIC) else { return Ok(None) };
        let header = Header::parse(fields).ok_or_else(|| malformed(offset, "its header is cut off"))?;
        let (header_size, total, size) = match header {
            Header { version: 1, narrow: [size, _], .. } => (20, available, size),
            Header { version: 2, narrow: [total, size], .. } => (24, total, size),
            Header { version: 3, wide: [total, size], .. } => (32, total, size),
            Header { version, .. } => return Err(malformed(offset, format!("unknown version {version} of CCOB"))),
        };
        let method = match header.method {
            0 => Method::Zlib,
            1 => Method::Zstd,
            other => return Err(malformed(offset, format!("unknown compression method {other}"))),
        };
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
        Ok(Some(Self { start: offset + header_size, length, method, size }))
    }

    /// Whether this can be in a file of `size` bytes. What was written down in another session may be false.
    pub(super) fn is_possible(&self, size: u64) -> bool {
        let end = self.start.checked_add(self.length);
        end.is_some_and(|end| end <= size) && self.size <= MAX_SIZE.min(self.method.most(self.length))
    }

    fn window_log(&self) -> u32 {
        self.size.next_power_of_two().ilog2().max(WINDOW_LOG)
    }

    /// Bytes of the compressed bundle that begins with `head`, if it is one and says so.
    pub(super) fn total_size(head: &[u8]) -> Option<u64> {
        match Header::parse(head.strip_prefix(MAGIC)?)? {
            Header { version: 2, narrow: [total, _], .. } | Header { version: 3, wide: [total, _], .. } => Some(total),
            Header { .. } => None,
        }
    }
}

impl Compressed {
    /// The bundle that `packing` describes.
    pub(super) fn new(content: &Arc<dyn Content>, packing: Packing, resources: &Arc<Resources>) -> Self {
        Self {
            content: Arc::clone(content),
            packing,
            id: resources.next_id(),
            resources: Arc::clone(resources),
            in_use: Mutex::default(),
        }
    }

    /// Bytes of the bundle when it is decompressed.
    pub fn size(&self) -> u64 {
        self.packing.size
    }

    /// A number that no other bundle of this input has, for comparing.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Gives as many of the first bytes as it is asked for, fewer if there are not so many, without decompressing the rest.
    /// Whoever asks for more the next time has nothing decompressed twice.
    pub(super) fn beginning(&self) -> Result<impl FnMut(u64) -> Result<Vec<u8>, FatbinError> + '_, FatbinError> {
        let failed = |error: io::Error| malformed(self.packing.start, error.to_string());
        let mut stream = self.stream().map_err(failed)?;
        let mut bytes = Vec::new();
        Ok(move |length: u64| {
            let before = bytes.len() as u64;
            let more = length.min(self.packing.size).saturating_sub(before);
            stream.by_ref().take(more).read_to_end(&mut bytes).map_err(failed)?;
            self.resources.counters.bytes_decompressed.add(bytes.len() as u64 - before);
            Ok(bytes.clone())
        })
    }

    /// All of it: what others hold or the cache has, or else decompressed into the cache. Waits for memory: whoever calls
    /// this must hold no other bundle, and no other memory but for bundles.
    pub fn ready(&self) -> Result<Arc<Decompressed>, ReadError> {
        if let Some(bytes) = self.held() {
            return Ok(bytes);
        }
        let bytes = self.hold()?;
        self.resources.bundles.put(self.id, Arc::clone(&bytes));
        self.resources.budget.busy();
        Ok(bytes)
    }

    /// The same, but if it is decompressed now it is kept only as long as somebody holds it.
    pub fn hold(&self) -> Result<Arc<Decompressed>, ReadError> {
        let mut in_use = self.in_use.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bytes) = in_use.upgrade() {
            return Ok(bytes);
        }
        let buffer = self.resources.buffers.buffer(self.buffer_size());
        let bytes = Arc::new(self.decompress(buffer)?);
        *in_use = Arc::downgrade(&bytes);
        Ok(bytes)
    }

    /// The same if there is room for it without waiting.
    pub fn try_hold(&self) -> Result<Option<Arc<Decompressed>>, ReadError> {
        let Ok(mut in_use) = self.in_use.try_lock() else { return Ok(None) };
        if let Some(bytes) = in_use.upgrade() {
            return Ok(Some(bytes));
        }
        let Some(buffer) = self.resources.buffers.try_buffer(self.buffer_size()) else { return Ok(None) };
        let bytes = Arc::new(self.decompress(buffer)?);
        *in_use = Arc::downgrade(&bytes);
        Ok(Some(bytes))
    }

    /// What others hold or the cache has.
    fn held(&self) -> Option<Arc<Decompressed>> {
        let bytes = self.in_use.try_lock().ok()?.upgrade()?;
        // Tells the cache that it is used.
        drop(self.resources.bundles.get(&self.id));
        self.resources.budget.busy();
        Some(bytes)
    }

    fn buffer_size(&self) -> usize {
        usize::try_from(self.packing.size).unwrap_or(usize::MAX)
    }

    fn decompress(&self, mut bytes: Decompressed) -> Result<Decompressed, ReadError> {
        let accounted = bytes.accounted();
        bytes.account_for(accounted.saturating_add(self.packing.length));
        let result = self.decompress_to(&mut bytes);
        bytes.account_for(accounted);
        result?;
        self.resources.counters.bytes_decompressed.add(self.packing.size);
        Ok(bytes)
    }

    fn decompress_to(&self, bytes: &mut Vec<u8>) -> Result<(), ReadError> {
        let damaged = |reason: String| ReadError::Damaged {
            entry: format!("offload bundle at {:#x}", self.packing.start).into(),
            reason: reason.into(),
        };
        let mut compressed = vec![0; usize::try_from(self.packing.length).unwrap_or(usize::MAX)];
        self.content.read_at(self.packing.start, &mut compressed)?;
        bytes.clear();
        match self.packing.method {
            Method::Zstd => {
                let mut decoder = zstd::bulk::Decompressor::new().map_err(|error| damaged(error.to_string()))?;
                decoder.window_log_max(self.packing.window_log()).map_err(|error| damaged(error.to_string()))?;
                let frame = frame_of(&compressed);
                decoder.decompress_to_buffer(frame, bytes).map_err(|error| damaged(error.to_string()))?;
            }
            Method::Zlib => {
                let mut stream = flate2::read::ZlibDecoder::new(compressed.as_slice());
                bytes.resize(self.buffer_size(), 0);
                stream.read_exact(bytes).map_err(|error| damaged(error.to_string()))?;
                if stream.read(&mut [0]).map_err(|error| damaged(error.to_string()))? > 0 {
                    return Err(damaged(format!(
                        "it holds more than the {} bytes it claims to hold",
                        self.packing.size
                    )));
                }
            }
        }
        if bytes.len() != self.buffer_size() {
            return Err(damaged(format!("it holds {} bytes and claims to hold {}", bytes.len(), self.packing.size)));
        }
        Ok(())
    }

    fn stream(&self) -> io::Result<Box<dyn Read + '_>> {
        let source = Source { content: &*self.content, at: self.packing.start, rest: self.packing.length };
        let buffered = BufReader::with_capacity(4096, source);
        Ok(match self.packing.method {
            Method::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::with_buffer(buffered)?.single_frame();
                decoder.window_log_max(self.packing.window_log())?;
                Box::new(decoder)
            }
            Method::Zlib => Box::new(flate2::bufread::ZlibDecoder::new(buffered)),
        })
    }

    /// Some bytes of the decompressed bundle as a content.
    pub(super) fn slice(self: &Arc<Self>, offset: u64, size: u64) -> Result<Slice, ReadError> {
        match offset.checked_add(size) {
            Some(end) if end <= self.size() => Ok(Slice { bundle: Arc::clone(self), offset, size }),
            _ => Err(ReadError::OutOfRange { offset, length: size, size: self.size() }),
        }
    }
}

/// Bytes that `size` bytes take at most when they are compressed, with either method (zstd's `ZSTD_COMPRESSBOUND`, and
/// zlib's `compressBound`, which is less), and some for headers.
fn longest(size: u64) -> u64 {
    size + size / 128 + (128 << 10)
}

/// Version 1 does not say where its frame ends; zstd knows, and bulk decompression wants nothing behind it.
fn frame_of(compressed: &[u8]) -> &[u8] {
    let size = zstd::zstd_safe::find_frame_compressed_size(compressed).unwrap_or(compressed.len());
    compressed.get(..size).unwrap_or(compressed)
}

impl fmt::Debug for Compressed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Compressed({:?})", self.packing)
    }
}

/// The fields behind the magic. The first two sizes are read both as u32 and as u64; the version says which count.
struct Header {
    version: u16,
    method: u16,
    narrow: [u64; 2],
    wide: [u64; 2],
}

impl Header {
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

/// Reads a part of a content front to back.
struct Source<'a> {
    content: &'a dyn Content,
    at: u64,
    rest: u64,
}

impl Read for Source<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let here = buffer.len().min(usize::try_from(self.rest).unwrap_or(usize::MAX));
        let (buffer, _) = buffer.split_at_mut(here);
        self.content.read_at(self.at, buffer).map_err(io::Error::other)?;
        self.at += here as u64;
        self.rest -= here as u64;
        Ok(here)
    }
}

/// Some bytes of a compressed bundle.
#[derive(Debug)]
pub(super) struct Slice {
    bundle: Arc<Compressed>,
    offset: u64,
    size: u64,
}

impl Content for Slice {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        check_range(offset, buffer.len(), self.size)?;
        if self.bundle.held().is_some() {
            self.bundle.resources.counters.cache_hits.add(1);
        }
        let bytes = self.bundle.ready()?;
        copy_from(&bytes, self.offset + offset, buffer)
    }

    fn is_prompt(&self, _: u64, _: usize) -> bool {
        self.bundle.in_use.try_lock().is_ok_and(|in_use| in_use.strong_count() > 0)
    }

    fn identity(&self) -> Option<Identity> {
        let bundle = &self.bundle;
        let whole = bundle.content.identity()?;
        let mut identity = Identity::describe("offload bundle");
        Some(
            identity
                .add(&whole.0)
                .number(bundle.packing.start)
                .number(bundle.packing.length)
                .number(self.offset)
                .number(self.size)
                .finish(),
        )
    }
}
