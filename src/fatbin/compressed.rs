//! Compressed bundles, which are decompressed when they are read.

use std::io::{self, Read};

use super::damage::Damage;
use super::decoder::{BundleDecoder, headroom};
use super::error::{FatbinError, malformed};
use super::packing::CompressedHeader;
use super::pinned::{Decompressed, Pinned};
use crate::memory::{OpenStream, Pooled};
use crate::resources::Resources;
use crate::rope::{Content, ReadError, in_pieces, to_usize};
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::{Arc, Mutex, MutexGuard, Weak, rank};

/// Bytes of a decoder in addition to its window: its tables, and input and output buffers of one block (128 KiB) each.
pub(crate) const DECODER: u64 = 1 << 20;

/// Compressed bytes read at a time.
const INPUT: usize = 256 << 10;

/// The same if not all of them may be needed.
const FEW: usize = 32 << 10;

/// The same of a stream.
const STREAM_INPUT: usize = 4096;

/// The most compressed bytes that are read for a table, of which at most 16 MiB are asked for: a block of zstd or deflate may
/// be empty, so a decoder may read without end and decode nothing.
const MAX_TABLE_INPUT: u64 = 32 << 20;

/// A compressed bundle, which is decompressed when it is read: into memory of [`Resources::buffers`], as far as it is
/// needed, and then cached in [`Resources::bundles`]. If its window is smaller than the bundle and memory is scarce, it
/// is decoded as a stream.
#[derive(derive_more::Debug)]
#[debug("Compressed({packing:?})")]
pub struct Compressed {
    content: Arc<dyn Content>,
    pub(super) packing: CompressedHeader,
    /// What is known to be wrong with it, and its name in messages.
    pub(super) damage: Damage,
    id: u64,
    resources: Arc<Resources>,
    /// The decompressed bundle while it is in use, even if it is not in the cache.
    in_use: Mutex<Weak<Decompressed>>,
    /// Held during decompression.
    decompressing: Mutex<(), { rank::DECOMPRESSING }>,
    /// How many times decoding was started.
    decodings: AtomicU32,
}

impl Compressed {
    /// The bundle that `packing` describes.
    pub(super) fn new(content: &Arc<dyn Content>, packing: CompressedHeader, resources: &Arc<Resources>) -> Self {
        Self {
            content: Arc::clone(content),
            packing,
            damage: Damage::default(),
            id: resources.next_id(),
            resources: Arc::clone(resources),
            in_use: Mutex::default(),
            decompressing: Mutex::default(),
            decodings: AtomicU32::new(0),
        }
    }

    /// A single compressed code object, which is read like a bundle. `label` is its name in messages.
    pub(super) fn for_frame(
        content: &Arc<dyn Content>,
        packing: CompressedHeader,
        label: Arc<str>,
        resources: &Arc<Resources>,
    ) -> Self {
        Self { damage: Damage::for_frame(label), ..Self::new(content, packing, resources) }
    }

    /// Fills `buffer` with its first bytes. Does not decompress the rest.
    pub(super) fn first(&self, buffer: &mut [u8]) -> Result<(), ReadError> {
        let read = self.reader().and_then(|mut reader| reader.read_exact(buffer));
        read.map_err(|error| self.unreadable(&error))?;
        self.resources.counters.bytes_decompressed.add(buffer.len() as u64);
        Ok(())
    }

    /// Bytes of the bundle when it is decompressed.
    pub fn size(&self) -> u64 {
        self.packing.size
    }

    /// Offset of its compressed bytes in the file.
    pub fn start(&self) -> u64 {
        self.packing.start
    }

    pub(super) fn content(&self) -> &Arc<dyn Content> {
        &self.content
    }

    pub(super) fn resources(&self) -> &Resources {
        &self.resources
    }

    /// A number that identifies it among the bundles of this session.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// A function that returns the requested number of first bytes, or fewer if the bundle is shorter. It does not
    /// decompress the rest. Requesting more in the next call decompresses nothing twice. Adds the bytes that are read and
    /// decompressed to `count`.
    pub(super) fn beginning(
        &self,
        count: &mut u64,
    ) -> Result<impl FnMut(u64) -> Result<Vec<u8>, FatbinError>, FatbinError> {
        let failed = |error: io::Error| malformed(self.packing.start, error.to_string());
        let packing = CompressedHeader { length: self.packing.length.min(MAX_TABLE_INPUT), ..self.packing };
        let decoder = BundleDecoder::new(&self.content, &packing, STREAM_INPUT, false);
        let mut stream = decoder.map_err(failed)?;
        let mut bytes = Vec::new();
        Ok(move |length: u64| {
            let (before, input) = (bytes.len() as u64, stream.input_left());
            let more = length.min(self.packing.size).saturating_sub(before);
            let read = stream.by_ref().take(more).read_to_end(&mut bytes);
            let decompressed = bytes.len() as u64 - before;
            *count = count.saturating_add(decompressed).saturating_add(input - stream.input_left());
            read.map_err(failed)?;
            self.resources.counters.bytes_decompressed.add(decompressed);
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
        self.in_use.lock()
    }

    /// The decompressed bundle, at least up to `end`: from other users, from the cache, or decompressed into the cache.
    /// Waits for memory: the caller must hold no other bundle, and no memory of other classes.
    pub(super) fn decompressed(&self, end: u64) -> Result<Arc<Decompressed>, ReadError> {
        if let Some(bytes) = self.resident(end) {
            self.resources.counters.cache_hits.add(1);
            return Ok(bytes);
        }
        let pinned = self.pin(&|| self.sound_size());
        self.cache(&pinned.bytes);
        pinned.to(end)
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

    /// The whole bundle. If it is decompressed now, it is not put into the cache. Waits for memory: the caller must hold
    /// no other bundle, and no memory of other classes.
    pub fn pin_whole(&self) -> Result<Arc<Decompressed>, ReadError> {
        self.check(self.size())?;
        self.pin(&|| self.size()).to(self.size())
    }

    /// Like [`Compressed::pin_whole`], but only the beginning is decompressed: up to `end`, which is asked again after
    /// each block, or up to where it is damaged.
    pub(crate) fn pin(&self, end: &dyn Fn() -> u64) -> Pinned {
        let _decompressing = self.decompressing.lock();
        let existing = self.in_use_to(end());
        existing.map_or_else(|| self.decompress(self.resources.buffers.buffer(self.buffer_size()), end), Pinned::from)
    }

    /// Like [`Compressed::pin`], but `None` if it would have to wait.
    pub(crate) fn try_pin(&self, end: &dyn Fn() -> u64) -> Option<Pinned> {
        let _decompressing = self.decompressing.try_lock()?;
        let existing = self.in_use_to(end()).map(Pinned::from);
        existing.or_else(|| Some(self.decompress(self.resources.buffers.try_buffer(self.buffer_size())?, end)))
    }

    /// Decompresses more of a bundle, into the same buffer. If another thread is reading or decompressing it, it stays as
    /// it is, and cannot be extended any more. Never waits for memory.
    pub(crate) fn extend(&self, pinned: Pinned, end: &dyn Fn() -> u64) -> Pinned {
        let Pinned { bytes, decoder: Some(decoder), error: None } = pinned else { return pinned };
        let Some(_decompressing) = self.decompressing.try_lock() else { return Pinned::from(bytes) };
        match Arc::try_unwrap(bytes) {
            Ok(bytes) => self.decode(bytes, decoder, end),
            Err(shared) => Pinned::from(shared),
        }
    }

    /// The bundle up to `end`, if that much is in use or in the cache.
    pub fn resident(&self, end: u64) -> Option<Arc<Decompressed>> {
        let bytes = self.in_use_to(end)?;
        // Marks it as used in the cache.
        drop(self.resources.bundles.get(&self.id));
        self.resources.budget.touch();
        Some(bytes)
    }

    /// Like [`Compressed::resident`], but does not count as a use.
    pub(super) fn in_use_to(&self, end: u64) -> Option<Arc<Decompressed>> {
        self.in_use().upgrade().filter(|bytes| bytes.len() as u64 >= end.min(self.size()))
    }

    fn buffer_size(&self) -> usize {
        to_usize(self.packing.size.saturating_add(headroom(&self.packing)))
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

    /// Memory of a decoder and its window, in bytes.
    pub(super) fn stream_memory(&self) -> u64 {
        self.packing.window.saturating_add(DECODER)
    }

    /// Moves a stream to `offset`. To go back, decoding starts again.
    pub fn seek(&self, stream: &mut OpenStream, offset: u64) -> Result<(), ReadError> {
        if stream.id != self.id || stream.at > offset || stream.reader.is_none() {
            let reader = self.reader().map_err(|error| self.unreadable(&error))?;
            self.decodings.fetch_add(1, Ordering::Relaxed);
            *stream = OpenStream { id: self.id, at: 0, reader: Some(Box::new(reader)) };
        }
        in_pieces(offset - stream.at, |piece| self.read_stream(stream, piece), |_| Ok(()))
    }

    /// Fills `buffer` with the next bytes of one of its streams. At the end it checks the checksum.
    pub fn read_stream(&self, stream: &mut OpenStream, buffer: &mut [u8]) -> Result<(), ReadError> {
        self.check(stream.at.saturating_add(buffer.len() as u64))?;
        // Absent while it decodes, so that a panic leaves none at a wrong position.
        let mut reader = stream.reader.take();
        let mut filled = 0;
        let mut fill = |reader: &mut dyn Read| -> io::Result<()> {
            while filled < buffer.len() {
                match reader.read(buffer.get_mut(filled..).unwrap_or_default())? {
                    0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                    count => filled += count,
                }
            }
            let is_at_end = stream.at + filled as u64 == self.size();
            if is_at_end { reader.read(&mut [0]).map(drop) } else { Ok(()) }
        };
        let result = reader.as_mut().map_or(Err(io::ErrorKind::UnexpectedEof.into()), |reader| fill(reader));
        self.resources.counters.bytes_decompressed.add(filled as u64);
        stream.at += filled as u64;
        if let Err(error) = result {
            let error = self.failed(stream.at, &error);
            *stream = OpenStream::default();
            return Err(error);
        }
        stream.reader = reader;
        if stream.at == self.size() {
            self.damage.note_checked();
        }
        Ok(())
    }

    /// The caller holds `decompressing`.
    fn decompress(&self, mut bytes: Decompressed, end: &dyn Fn() -> u64) -> Pinned {
        self.decodings.fetch_add(1, Ordering::Relaxed);
        bytes.clear();
        let piece = if end() < self.size() { FEW } else { INPUT };
        match BundleDecoder::new(&self.content, &self.packing, piece, true) {
            Ok(decoder) => self.decode(bytes, Box::new(decoder), end),
            Err(error) => Pinned { bytes: Arc::new(bytes), decoder: None, error: Some(self.unreadable(&error)) },
        }
    }

    /// Decodes directly into the buffer, which also serves as the window. The caller holds `decompressing`.
    fn decode(&self, mut bytes: Decompressed, mut decoder: Box<BundleDecoder>, end: &dyn Fn() -> u64) -> Pinned {
        let before = bytes.len();
        let result = loop {
            let (done, needed) = (bytes.len() as u64, end());
            // With the end of the content comes that of the frame, which has the checksum.
            if decoder.is_at_end || (done >= needed && needed < self.size()) {
                break Ok(());
            }
            if let Err(error) = decoder.append(&mut bytes, needed) {
                break Err(error);
            }
        };
        self.resources.counters.bytes_decompressed.add((bytes.len() - before) as u64);
        let error = result.err().map(|error| self.failed(decoder.at, &error));
        if self.is_void() {
            bytes.clear();
        }
        if decoder.is_at_end && error.is_none() {
            self.damage.note_checked();
        }
        let decoder = (error.is_none() && !decoder.is_at_end).then_some(decoder);
        let memory = bytes.capacity() as u64 + decoder.as_ref().map_or(0, |_| DECODER);
        bytes.account_for(memory);
        let bytes = Arc::new(bytes);
        *self.in_use() = Arc::downgrade(&bytes);
        Pinned { bytes, decoder, error }
    }

    fn reader(&self) -> io::Result<BundleDecoder> {
        BundleDecoder::new(&self.content, &self.packing, STREAM_INPUT, false)
    }
}
