//! A code object as a zstd frame, or several code objects as a compressed bundle. The job of its bundle makes it, and
//! the frame store keeps it.

mod reuse;

use std::io;
use std::sync::{Arc, OnceLock};

use super::selection::{BundleSelection, HASH_SIZE, compress_zlib};
use crate::fatbin::{COMPRESSION, COMPRESSION_LEVEL, CodeObject, Method, OpenBundle};
use crate::index::Location;
use crate::memory::{Original, STREAMED};
use crate::metrics::MemoryClass;
use crate::resources::Resources;
use crate::rope::{Identity, ReadError, SizeBounds, Xxh3, copy_from, to_usize};
use crate::source::is_cached;
use crate::sync::atomic::AtomicBool;
use crate::sync::{Mutex, rank};

/// Separates the reason why a bundle cannot be read from the target.
const NO_CODE: &str = "; no code for ";

/// Bytes by which a frame in memory grows.
const GROWTH: usize = 4 << 20;

/// A code object as archives store it. Archives with the same code object share its frame.
#[derive(Debug)]
pub struct Frame {
    /// The content to be compressed.
    pub object: CodeObject,
    /// The selected parts of its bundle, if it consists of several code objects.
    selection: Option<Box<BundleSelection>>,
    /// Bytes of the code object.
    size: u64,
    level: i32,
    length: OnceLock<u64>,
    /// The XXH3-128 of the frame.
    sum: OnceLock<[u8; 16]>,
    key: OnceLock<Identity>,
    id: u64,
    /// Whether it has used the frame of another bundle.
    has_taken_over: AtomicBool,
    resources: Arc<Resources>,
}

/// A frame that was made: on disk or in memory.
#[derive(Clone, Debug)]
pub(super) enum MadeFrame {
    Stored(Location),
    Held(Arc<Vec<u8>>),
}

impl MadeFrame {
    pub(super) fn length(&self) -> u64 {
        match self {
            Self::Stored(location) => location.length(),
            Self::Held(bytes) => bytes.len() as u64,
        }
    }
}

impl Frame {
    /// A frame of a zstd level. It is made later.
    pub fn new(object: CodeObject, level: i32, resources: &Arc<Resources>) -> Self {
        let (id, resources) = (resources.next_id(), Arc::clone(resources));
        let (length, sum, key) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        let (size, has_taken_over) = (object.content.size(), AtomicBool::new(false));
        Self { object, selection: None, size, level, length, sum, key, id, has_taken_over, resources }
    }

    /// Several code objects of a bundle that are compressed together.
    pub(super) fn selected(object: CodeObject, selection: BundleSelection, resources: &Arc<Resources>) -> Self {
        Self { selection: Some(Box::new(selection)), ..Self::new(object, COMPRESSION_LEVEL, resources) }
    }

    /// Its length in bytes, if it has been made or its length is in the index.
    pub fn known_length(&self) -> Option<u64> {
        let stored = || Some(self.made()?.length());
        self.length.get().copied().or_else(|| stored().map(|length| *self.length.get_or_init(|| length)))
    }

    /// Sets the length that the frame had in an earlier session. `false` if that contradicts a known length or is
    /// impossible. If the frame turns out to have another length when it is made, reading it fails.
    pub(super) fn restore_length(&self, length: u64) -> bool {
        (1..=self.max_length()).contains(&length) && *self.length.get_or_init(|| length) == length
    }

    /// Its XXH3-128, if it was made or read in this session.
    pub(super) fn known_sum(&self) -> Option<[u8; 16]> {
        self.sum.get().copied()
    }

    /// Sets its XXH3-128. A known one stays.
    pub(super) fn set_sum(&self, sum: [u8; 16]) -> [u8; 16] {
        *self.sum.get_or_init(|| sum)
    }

    /// Identifies the frame. Versions of zstd may compress to different bytes, and so does zstd if it is fed in pieces.
    pub(super) fn identity(&self) -> Option<Identity> {
        let object = self.object.content.identity()?;
        let mut identity = Identity::describe("frame");
        identity.add(&object.0).add(&self.level.to_le_bytes()).number(zstd::zstd_safe::version_number().into());
        identity.number(STREAMED).number(u64::from(self.is_streamed()));
        if let Some(selection) = &self.selection {
            identity.add(selection.describe()).add(COMPRESSION.as_bytes());
        }
        Some(identity.finish())
    }

    /// Its key in the store. Without an identity, the key is valid in this session only.
    fn key(&self) -> &Identity {
        let session_key = || {
            let session = self.resources.session;
            Identity::describe("frame of this session").add(&session).number(self.id).finish()
        };
        self.key.get_or_init(|| self.identity().unwrap_or_else(session_key))
    }

    fn is_streamed(&self) -> bool {
        self.size() > STREAMED
    }

    /// Whether it is written in several pieces.
    fn has_pieces(&self) -> bool {
        self.is_streamed() || self.selection.is_some()
    }

    /// Bytes of the code object.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The offset in its decompressed bundle after the last byte that it needs.
    pub(super) fn end(&self) -> u64 {
        let object_end = || self.object.offset.saturating_add(self.size());
        self.selection.as_deref().map_or_else(object_end, BundleSelection::end)
    }

    /// The largest possible number of bytes (`ZSTD_COMPRESSBOUND`).
    fn max_length(&self) -> u64 {
        let bound = zstd::zstd_safe::compress_bound(to_usize(self.size())) as u64;
        bound.saturating_add(self.selection.as_ref().map_or(0, |_| HASH_SIZE))
    }

    /// What is known of its length. A block of a zstd frame has 3 bytes of header and at least one byte more, and becomes
    /// 128 KiB at most; before it are the magic, a descriptor, and a window or a size (RFC 8878, 3.1.1).
    pub(super) fn bounds(&self) -> SizeBounds {
        let least = 6 + 4 * self.size().div_ceil(128 << 10);
        self.known_length().map_or(SizeBounds { least, most: self.max_length() }, SizeBounds::exact)
    }

    /// Its number, which is unique in this session.
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// Fails if its code is known to be unreadable.
    pub(super) fn check(&self) -> Result<(), ReadError> {
        let bundle = self.object.bundle.as_ref();
        bundle.map_or(Ok(()), |bundle| bundle.check(self.end())).map_err(|error| self.lost(&error))
    }

    /// The error of its bundle as an error of this frame.
    pub(super) fn lost(&self, error: &ReadError) -> ReadError {
        match error {
            ReadError::Damaged { entry, reason } if !reason.contains(NO_CODE) => {
                ReadError::damaged(entry, format!("{reason}{NO_CODE}{}", self.object.target))
            }
            other => other.clone(),
        }
    }

    /// Removes it from the store if it is at this place.
    pub(super) fn forget_stored(&self, location: &Location) {
        self.resources.store.forget(self.key(), location);
    }

    /// Removes it from memory and from the store.
    pub(super) fn forget(&self) {
        let Resources { frames, store, .. } = &*self.resources;
        frames.remove(&self.id);
        if let Some(location) = store.get(self.key()) {
            store.forget(self.key(), &location);
        }
    }

    /// The frame, if it has been made and is still in memory or on disk. `None` if its bundle turned out to be damaged
    /// as a whole.
    pub(super) fn made(&self) -> Option<MadeFrame> {
        if self.object.bundle.as_ref().is_some_and(|bundle| bundle.is_void()) {
            return None;
        }
        let held = self.resources.frames.get(&self.id).map(MadeFrame::Held);
        held.or_else(|| self.resources.store.get(self.key()).map(MadeFrame::Stored))
    }

    /// Whether it has been made and its length is known. An equal frame of another bundle may have been stored.
    pub(super) fn is_done(&self) -> bool {
        self.known_length().is_some() && self.made().is_some()
    }

    /// Whether nothing is left to do for it before archives are written. If frames are not spooled, it is enough that
    /// its length is known.
    pub(super) fn is_prepared(&self) -> bool {
        if self.resources.store.is_spooling() { self.made().is_some() } else { self.known_length().is_some() }
    }

    /// Whether these bytes can be read without compressing and without waiting for a disk.
    pub(super) fn is_nonblocking(&self, offset: u64, length: usize) -> bool {
        match self.made() {
            Some(MadeFrame::Held(_)) => true,
            Some(MadeFrame::Stored(location)) => {
                let (file, start) = location.file();
                is_cached(file, start.saturating_add(offset), length)
            }
            None => false,
        }
    }

    /// Fills `buffer` with bytes of the frame, which has `length` bytes and was made.
    pub(super) fn read_made(
        &self,
        made: &MadeFrame,
        length: u64,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<(), ReadError> {
        if made.length() != length {
            return Err(ReadError::Changed { entry: self.name() });
        }
        match made {
            MadeFrame::Held(bytes) => copy_from(bytes, offset, buffer)?,
            MadeFrame::Stored(location) => location.read_at(offset, buffer).map_err(|error| self.failed(error))?,
        }
        self.resources.counters.cache_hits.add(1);
        Ok(())
    }

    fn failed(&self, error: io::Error) -> ReadError {
        ReadError::io(&self.name(), error)
    }

    pub(super) fn name(&self) -> Arc<str> {
        let what = if self.selection.is_some() { "offload bundle" } else { "code object" };
        format!("{what} for {}", self.object.target).into()
    }

    /// Makes it, and puts it into the store or else into the cache. `bundle` is its open bundle. `growing` is held while a
    /// large frame grows in memory.
    pub(super) fn make(
        &self,
        bundle: &mut OpenBundle,
        growing: &Mutex<(), { rank::GROWING }>,
    ) -> Result<MadeFrame, ReadError> {
        // Damage may have been found since it was demanded.
        self.check()?;
        let made = if self.has_pieces() { self.make_streamed(bundle, growing) } else { self.make_whole(bundle) }?;
        if *self.length.get_or_init(|| made.length()) != made.length() {
            return Err(ReadError::Changed { entry: self.name() });
        }
        let counters = &self.resources.counters;
        counters.bytes_compressed.add(self.size());
        counters.frames_made.add(1);
        Ok(made)
    }

    fn make_whole(&self, bundle: &mut OpenBundle) -> Result<MadeFrame, ReadError> {
        let mut made = None;
        self.compress(bundle, &mut |frame| {
            self.set_sum(Xxh3::of(frame));
            let length = frame.len() as u64;
            let stored = self.resources.store.put(self.key(), length, |write| write(frame)).unwrap_or_default();
            made = Some(stored.map_or_else(|| self.hold(frame.to_vec()), MadeFrame::Stored));
            Ok(())
        })?;
        made.ok_or_else(|| ReadError::damaged(&self.name(), "it was not compressed"))
    }

    /// Writes a frame that may not fit into memory to the store in pieces.
    fn make_streamed(
        &self,
        bundle: &mut OpenBundle,
        growing: &Mutex<(), { rank::GROWING }>,
    ) -> Result<MadeFrame, ReadError> {
        let store = &self.resources.store;
        let mut has_failed = false;
        let mut sum = Xxh3::default();
        let stored = store.put(self.key(), self.max_length(), |write| {
            self.compress(bundle, &mut |piece| {
                sum.update(piece);
                write(piece).map_err(|error| {
                    has_failed = true;
                    self.failed(error)
                })
            })
        });
        match stored {
            Ok(Some(location)) => {
                self.set_sum(sum.finish());
                return Ok(MadeFrame::Stored(location));
            }
            Err(error) if !has_failed => return Err(error),
            Ok(None) | Err(_) => {}
        }
        self.make_in_memory(bundle, growing)
    }

    /// Without room on disk, only one large frame at a time grows in memory, up to the size of the cache.
    fn make_in_memory(
        &self,
        bundle: &mut OpenBundle,
        growing: &Mutex<(), { rank::GROWING }>,
    ) -> Result<MadeFrame, ReadError> {
        let _growing = growing.lock();
        let budget = &self.resources.budget;
        let limit = self.resources.frames.capacity();
        let mut reservation = budget.account(MemoryClass::Frames, 0);
        let mut frame = Vec::new();
        self.compress(bundle, &mut |piece| {
            let length = frame.len() + piece.len();
            if length as u64 > limit {
                let reason =
                    format!("there is no disk space, and no memory beyond {limit} bytes, to keep it compressed");
                return Err(ReadError::damaged(&self.name(), reason));
            }
            if length > frame.capacity() {
                frame.reserve_exact(piece.len().max(GROWTH));
                reservation.resize(frame.capacity() as u64);
                budget.reclaim();
            }
            frame.extend_from_slice(piece);
            Ok(())
        })?;
        // From here on the cache accounts for it.
        drop(reservation);
        Ok(self.hold(frame))
    }

    fn hold(&self, frame: Vec<u8>) -> MadeFrame {
        let frame = Arc::new(frame);
        self.resources.frames.put(self.id, Arc::clone(&frame));
        MadeFrame::Held(frame)
    }

    fn compress(
        &self,
        bundle: &mut OpenBundle,
        sink: &mut dyn FnMut(&[u8]) -> Result<(), ReadError>,
    ) -> Result<(), ReadError> {
        if let Some(selection) = &self.selection {
            return self.compress_selection(selection, bundle, sink);
        }
        let CodeObject { content, bundle: compressed, offset, .. } = &self.object;
        let compress = |original: Original<ReadError>| {
            let failed = |error| self.failed(error);
            self.resources.compressors.compress(self.level, self.size(), original, sink, failed)
        };
        match (compressed, bundle) {
            (Some(_), OpenBundle::InMemory(bundle)) => {
                let start = to_usize(*offset);
                let end = start.saturating_add(to_usize(self.size()));
                let object = bundle.get(start..end);
                let object = object.ok_or_else(|| ReadError::damaged(&self.name(), "it is not in its bundle"))?;
                compress(Original::Memory(object))
            }
            (Some(compressed), OpenBundle::Stream(Some(stream))) => {
                compressed.seek(stream, *offset)?;
                compress(Original::Source(&mut |buffer| compressed.read_stream(stream, buffer)))
            }
            _ => {
                let mut at = 0;
                compress(Original::Source(&mut |buffer| {
                    content.read_at(at, buffer)?;
                    at += buffer.len() as u64;
                    Ok(())
                }))
            }
        }
    }

    /// Writes the compressed bundle without its header, followed by its hash.
    fn compress_selection(
        &self,
        selection: &BundleSelection,
        bundle: &mut OpenBundle,
        sink: &mut dyn FnMut(&[u8]) -> Result<(), ReadError>,
    ) -> Result<(), ReadError> {
        let mut reader = selection.reader(&self.object, bundle)?;
        let mut read = |buffer: &mut [u8]| reader.fill(buffer);
        match selection.method() {
            Method::Zstd => {
                let failed = |error| self.failed(error);
                let original = Original::Source(&mut read);
                self.resources.compressors.compress(self.level, self.size(), original, &mut *sink, failed)?;
            }
            Method::Zlib => compress_zlib(self.size(), &mut read, &mut *sink, |error| self.failed(error))?,
        }
        sink(&reader.hash())
    }
}
