//! Compressed bundles, which are decompressed when they are read.

use std::fmt;
use std::io::{self, BufReader, Read};

use zstd::zstd_safe::{DParameter, InBuffer, OutBuffer};

use super::FatbinError;
use super::bundle::malformed;
use super::packing::{CompressedHeader, Method, WINDOW_LOG};
use super::slice_reader::SliceReader;
use crate::memory::{OpenStream, Pooled};
use crate::resources::Resources;
use crate::rope::{Content, Identity, InOrderReader, ReadError, check_range, copy_from, head, head_mut, to_usize};
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};

/// Bytes of a decoder in addition to its window: its tables, and input and output buffers of one block (128 KiB) each.
pub(crate) const DECODER: u64 = 1 << 20;

/// Bytes skipped at a time on the way to an offset in a stream.
const SKIPPED: usize = 128 << 10;

/// Compressed bytes read at a time.
const INPUT: u64 = 256 << 10;

/// The same if not all of them may be needed: a hundred times as many may be decompressed from them before it is known
/// whether that was enough.
const FEW: u64 = 32 << 10;

/// A compressed bundle, which is decompressed when it is read: into memory of [`Resources::buffers`], as far as it is
/// needed, and then cached in [`Resources::bundles`]. If its window is smaller than the bundle and memory is scarce, it
/// is decoded as a stream.
pub struct Compressed {
    content: Arc<dyn Content>,
    packing: CompressedHeader,
    /// Its name in messages, if it is not a bundle.
    label: Option<Arc<str>>,
    id: u64,
    resources: Arc<Resources>,
    /// The decompressed bundle while it is in use, even if it is not in the cache.
    in_use: Mutex<Weak<Decompressed>>,
    /// Held during decompression.
    decompressing: Mutex<()>,
    /// How many times decoding was started.
    decodings: AtomicU32,
}

/// A decompressed bundle in memory, or its beginning. Its buffer is reused after the last use.
pub(crate) type Decompressed = Pooled<Vec<u8>>;

impl Compressed {
    /// The bundle that `packing` describes.
    pub(super) fn new(content: &Arc<dyn Content>, packing: CompressedHeader, resources: &Arc<Resources>) -> Self {
        Self {
            content: Arc::clone(content),
            packing,
            label: None,
            id: resources.next_id(),
            resources: Arc::clone(resources),
            in_use: Mutex::default(),
            decompressing: Mutex::default(),
            decodings: AtomicU32::new(0),
        }
    }

    /// A single compressed code object, which is read like a bundle. `label` is its name in messages.
    pub(super) fn of_frame(
        content: &Arc<dyn Content>,
        packing: CompressedHeader,
        label: Arc<str>,
        resources: &Arc<Resources>,
    ) -> Self {
        Self { label: Some(label), ..Self::new(content, packing, resources) }
    }

    /// Its first bytes. Does not decompress the rest.
    pub(super) fn first(&self, length: u64) -> Result<Vec<u8>, ReadError> {
        let mut bytes = vec![0; to_usize(length)];
        let read = self.reader().and_then(|mut reader| reader.read_exact(&mut bytes));
        read.map_err(|error| self.damaged(&error))?;
        self.resources.counters.bytes_decompressed.add(length);
        Ok(bytes)
    }

    /// Bytes of the bundle when it is decompressed.
    pub fn size(&self) -> u64 {
        self.packing.size
    }

    /// Offset of its compressed bytes in the file.
    pub fn start(&self) -> u64 {
        self.packing.start
    }

    /// A number that identifies it among the bundles of this session.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// A function that returns the requested number of first bytes, or fewer if the bundle is shorter. It does not
    /// decompress the rest. Requesting more in the next call decompresses nothing twice.
    pub(super) fn beginning(&self) -> Result<impl FnMut(u64) -> Result<Vec<u8>, FatbinError> + '_, FatbinError> {
        let failed = |error: io::Error| malformed(self.packing.start, error.to_string());
        let mut stream = self.reader().map_err(failed)?;
        let mut bytes = Vec::new();
        Ok(move |length: u64| {
            let before = bytes.len() as u64;
            let more = length.min(self.packing.size).saturating_sub(before);
            stream.by_ref().take(more).read_to_end(&mut bytes).map_err(failed)?;
            self.resources.counters.bytes_decompressed.add(bytes.len() as u64 - before);
            Ok(bytes.clone())
        })
    }

    /// How many times it was decompressed, or decoding it as a stream was started.
    pub fn decodings(&self) -> u32 {
        self.decodings.load(Ordering::Relaxed)
    }

    /// Whether it is decompressed in memory, not read through [`Compressed::stream`]. A bundle that does not fit into half
    /// of the budget is decompressed in memory only if its window is as large as the bundle: a decoder would need the
    /// same memory.
    pub fn is_decompressed_in_memory(&self) -> bool {
        self.packing.window >= self.packing.size || self.packing.size <= self.resources.budget.capacity() / 2
    }

    /// Whether it, or its beginning, is decompressed in memory.
    pub fn is_resident(&self) -> bool {
        self.in_use().strong_count() > 0
    }

    fn in_use(&self) -> MutexGuard<'_, Weak<Decompressed>> {
        self.in_use.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The decompressed bundle, from other users, from the cache, or decompressed into the cache. Waits for memory: the
    /// caller must hold no other bundle, and no memory of other classes.
    pub fn decompressed(&self) -> Result<Arc<Decompressed>, ReadError> {
        if let Some(bytes) = self.resident(self.size()) {
            return Ok(bytes);
        }
        let bytes = self.pin_whole()?;
        self.cache(&bytes);
        Ok(bytes)
    }

    /// Puts the decompressed bundle into the cache, from which it is evicted when the memory is needed.
    pub fn cache(&self, bytes: &Arc<Decompressed>) {
        // Meanwhile, more of it may have been decompressed for another user.
        if !self.in_use().upgrade().is_some_and(|last| Arc::ptr_eq(&last, bytes)) {
            return;
        }
        self.resources.bundles.put(self.id, Arc::clone(bytes));
        self.resources.budget.touch();
    }

    /// Like [`Compressed::decompressed`], but a bundle that is decompressed now is not put into the cache.
    pub fn pin_whole(&self) -> Result<Arc<Decompressed>, ReadError> {
        self.pin(&|| self.size())
    }

    /// Like [`Compressed::pin_whole`], but only the beginning, at least up to `end`, is decompressed. When that is done, `end`
    /// is asked again (but not of a zlib stream).
    pub fn pin(&self, end: &dyn Fn() -> u64) -> Result<Arc<Decompressed>, ReadError> {
        let _decompressing = self.decompressing.lock().unwrap_or_else(PoisonError::into_inner);
        let there = self.in_use_to(end());
        there.map_or_else(|| self.decompress(self.resources.buffers.buffer(self.buffer_size()), end), Ok)
    }

    /// Like [`Compressed::pin`], but `None` if it would have to wait.
    pub fn try_pin(&self, end: &dyn Fn() -> u64) -> Result<Option<Arc<Decompressed>>, ReadError> {
        // A thread that is decompressing it may be waiting for memory.
        let _decompressing = match self.decompressing.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(None),
        };
        let there = self.in_use_to(end());
        if there.is_some() {
            return Ok(there);
        }
        let Some(buffer) = self.resources.buffers.try_buffer(self.buffer_size()) else { return Ok(None) };
        self.decompress(buffer, end).map(Some)
    }

    /// The bundle up to `end`, if that much is in use or in the cache.
    pub fn resident(&self, end: u64) -> Option<Arc<Decompressed>> {
        let bytes = self.in_use_to(end)?;
        // Marks it as used in the cache.
        drop(self.resources.bundles.get(&self.id));
        self.resources.budget.touch();
        Some(bytes)
    }

    fn in_use_to(&self, end: u64) -> Option<Arc<Decompressed>> {
        self.in_use().upgrade().filter(|bytes| bytes.len() as u64 >= end.min(self.size()))
    }

    fn buffer_size(&self) -> usize {
        to_usize(self.packing.size)
    }

    /// A stream of the decompressed bundle, which is decoded as far as it is read. Waits for memory like
    /// [`Compressed::decompressed`].
    pub fn stream(&self) -> Pooled<OpenStream> {
        let streams = &self.resources.streams;
        let found = streams.get(self.stream_memory(), |stream| stream.id == self.id);
        found.unwrap_or_else(|reservation| streams.lend(OpenStream::default(), reservation))
    }

    /// Like [`Compressed::stream`], but `None` if it would have to wait.
    pub fn try_stream(&self) -> Option<Pooled<OpenStream>> {
        let streams = &self.resources.streams;
        let found = streams.try_get(self.stream_memory(), |stream| stream.id == self.id)?;
        Some(found.unwrap_or_else(|reservation| streams.lend(OpenStream::default(), reservation)))
    }

    /// A stream for a piece at `offset`. It is the one that the reader of the piece before has left there, if it still has its
    /// lease.
    fn stream_for_piece(&self, offset: u64) -> Pooled<OpenStream> {
        let position = |stream: &OpenStream| (stream.id == self.id && stream.at <= offset).then_some(stream.at);
        self.resources.streams.resume(position).unwrap_or_else(|| self.stream())
    }

    fn stream_memory(&self) -> u64 {
        self.packing.window.saturating_add(DECODER)
    }

    /// Moves a stream to `offset`. To go back, decoding starts again.
    pub fn seek(&self, stream: &mut OpenStream, offset: u64) -> Result<(), ReadError> {
        if stream.id != self.id || stream.at > offset || stream.reader.is_none() {
            let reader = self.reader().map_err(|error| self.damaged(&error))?;
            self.decodings.fetch_add(1, Ordering::Relaxed);
            *stream = OpenStream { id: self.id, at: 0, reader: Some(reader) };
        }
        if stream.at == offset {
            return Ok(());
        }
        let mut skipped = vec![0; SKIPPED];
        while stream.at < offset {
            let here = to_usize(offset - stream.at).min(SKIPPED);
            self.read_stream(stream, head_mut(&mut skipped, here))?;
        }
        Ok(())
    }

    /// Fills `buffer` with the next bytes of one of its streams.
    pub fn read_stream(&self, stream: &mut OpenStream, buffer: &mut [u8]) -> Result<(), ReadError> {
        let result = match &mut stream.reader {
            Some(reader) => reader.read_exact(buffer),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        };
        if let Err(error) = result {
            // The position of the stream is unknown now.
            *stream = OpenStream::default();
            return Err(self.damaged(&error));
        }
        stream.at += buffer.len() as u64;
        self.resources.counters.bytes_decompressed.add(buffer.len() as u64);
        Ok(())
    }

    /// The error of a decoder, or the error of reading the input that it wraps.
    fn damaged(&self, error: &io::Error) -> ReadError {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<ReadError>());
        inner.cloned().unwrap_or_else(|| {
            let of_bundle = || format!("offload bundle at {:#x}", self.packing.start).into();
            ReadError::damaged(&self.label.clone().unwrap_or_else(of_bundle), error.to_string())
        })
    }

    /// The caller holds `decompressing`.
    fn decompress(&self, mut bytes: Decompressed, end: &dyn Fn() -> u64) -> Result<Arc<Decompressed>, ReadError> {
        self.decodings.fetch_add(1, Ordering::Relaxed);
        bytes.clear();
        let result = match self.packing.format.method {
            Method::Zstd => self.decompress_zstd(&mut bytes, end),
            Method::Zlib => self.decompress_zlib(&mut bytes, end().min(self.size())),
        };
        self.resources.counters.bytes_decompressed.add(bytes.len() as u64);
        result.map_err(|error| self.damaged(&error))?;
        let bytes = Arc::new(bytes);
        *self.in_use() = Arc::downgrade(&bytes);
        Ok(bytes)
    }

    fn decompress_zlib(&self, bytes: &mut Vec<u8>, end: u64) -> io::Result<()> {
        let mut stream = self.reader()?;
        bytes.resize(to_usize(end), 0);
        stream.read_exact(bytes)?;
        let size = self.size();
        if end == size && stream.read(&mut [0])? > 0 {
            return Err(io::Error::other(format!("it holds more than the {size} bytes it claims to hold")));
        }
        Ok(())
    }

    /// Decodes directly into the buffer, which also serves as the window.
    fn decompress_zstd(&self, bytes: &mut Vec<u8>, end: &dyn Fn() -> u64) -> io::Result<()> {
        let failed = |code| io::Error::other(zstd::zstd_safe::get_error_name(code));
        let mut decoder = zstd::zstd_safe::DCtx::create();
        decoder.set_parameter(DParameter::WindowLogMax(WINDOW_LOG)).map_err(failed)?;
        decoder.set_parameter(DParameter::StableOutBuffer(true)).map_err(failed)?;
        let (size, mut needed) = (self.size(), end());
        let mut output = OutBuffer::around(bytes);
        let mut source = self.source();
        let step = if needed < size { FEW } else { INPUT };
        let mut compressed = vec![0; to_usize(self.packing.length.min(step))];
        loop {
            let length = source.read(&mut compressed)?;
            let mut input = InBuffer::around(head(&compressed, length));
            loop {
                let hint = decoder.decompress_stream(&mut output, &mut input).map_err(failed)?;
                let done = output.pos() as u64;
                if hint == 0 && done != size {
                    return Err(io::Error::other(format!("it holds {done} bytes and claims to hold {size}")));
                }
                if done >= needed {
                    needed = end();
                }
                // With the end of the content comes that of the frame, which has the checksum.
                if hint == 0 || (done >= needed && needed < size) {
                    return Ok(());
                }
                if input.pos() == length {
                    break;
                }
            }
            if length == 0 {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "its compressed data ends too early"));
            }
        }
    }

    fn source(&self) -> InputReader {
        InputReader { content: Arc::clone(&self.content), at: self.packing.start, rest: self.packing.length }
    }

    fn reader(&self) -> io::Result<Box<dyn Read + Send>> {
        let buffered = BufReader::with_capacity(4096, self.source());
        Ok(match self.packing.format.method {
            Method::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::with_buffer(buffered)?.single_frame();
                decoder.window_log_max(WINDOW_LOG)?;
                Box::new(decoder)
            }
            Method::Zlib => Box::new(flate2::bufread::ZlibDecoder::new(buffered)),
        })
    }

    /// The decompressed bundle as a content.
    pub fn whole(self: &Arc<Self>) -> Arc<dyn Content> {
        Arc::new(Slice { bundle: Arc::clone(self), offset: 0, size: self.size() })
    }

    /// A part of the decompressed bundle as a content.
    pub(super) fn slice(self: &Arc<Self>, offset: u64, size: u64) -> Result<Slice, ReadError> {
        match offset.checked_add(size) {
            Some(end) if end <= self.size() => Ok(Slice { bundle: Arc::clone(self), offset, size }),
            _ => Err(ReadError::OutOfRange { offset, length: size, size: self.size() }),
        }
    }
}

impl fmt::Debug for Compressed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Compressed({:?})", self.packing)
    }
}

/// Reads a part of a content sequentially.
struct InputReader {
    content: Arc<dyn Content>,
    at: u64,
    rest: u64,
}

impl Read for InputReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let here = buffer.len().min(to_usize(self.rest));
        let (buffer, _) = buffer.split_at_mut(here);
        self.content.read_at(self.at, buffer).map_err(io::Error::other)?;
        self.at += here as u64;
        self.rest -= here as u64;
        Ok(here)
    }
}

/// A part of a compressed bundle.
#[derive(Debug)]
pub(super) struct Slice {
    pub(super) bundle: Arc<Compressed>,
    pub(super) offset: u64,
    pub(super) size: u64,
}

impl Content for Slice {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        check_range(offset, buffer.len(), self.size)?;
        let (bundle, start, length) = (&self.bundle, self.offset + offset, buffer.len() as u64);
        // A reader that has not reached the end is expected to go on.
        let goes_on = offset + length < self.size;
        if !bundle.is_decompressed_in_memory() {
            let mut stream = bundle.stream_for_piece(start);
            let read = bundle.seek(&mut stream, start).and_then(|()| bundle.read_stream(&mut stream, buffer));
            if goes_on && read.is_ok() {
                stream.lease(start.saturating_add(bundle.stream_memory()), length);
            } else {
                stream.end_lease();
            }
            return read;
        }
        let held = bundle.resident(start + length);
        if held.is_some() {
            bundle.resources.counters.cache_hits.add(1);
        }
        let held = held.map_or_else(|| bundle.decompressed(), Ok)?;
        copy_from(&held, start, buffer)?;
        let bundles = &bundle.resources.bundles;
        if goes_on {
            bundles.lease(&bundle.id, bundle.size(), length);
        } else {
            bundles.end_lease(&bundle.id);
        }
        Ok(())
    }

    fn reader(&self, offset: u64) -> Box<dyn InOrderReader + '_> {
        Box::new(SliceReader::new(self, offset))
    }

    fn is_nonblocking(&self, offset: u64, length: usize) -> bool {
        let start = self.offset.saturating_add(offset);
        self.bundle.in_use_to(start.saturating_add(length as u64)).is_some()
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
