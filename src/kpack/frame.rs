//! A code object as a zstd frame: compressed when it is needed, remembered by length, kept for a while.

use std::io;
use std::sync::{Arc, OnceLock};

use crate::fatbin::CodeObject;
use crate::index::Resources;
use crate::rope::{Identity, ReadError, check_range, copy_from};

/// A code object that archives hold compressed. Archives that hold the same code object share it.
#[derive(Debug)]
pub struct Frame {
    /// What is compressed.
    pub object: CodeObject,
    level: i32,
    length: OnceLock<u64>,
    /// Where it is in [`Resources::spool`].
    spooled: OnceLock<u64>,
    id: u64,
    resources: Arc<Resources>,
}

impl Frame {
    /// A frame of a zstd level, not made yet.
    pub fn new(object: CodeObject, level: i32, resources: &Arc<Resources>) -> Self {
        let (length, spooled, id) = (OnceLock::new(), OnceLock::new(), resources.next_id());
        Self { object, level, length, spooled, id, resources: Arc::clone(resources) }
    }

    /// Its length in bytes, if it was made before or is recalled.
    pub fn known_length(&self) -> Option<u64> {
        self.length.get().copied()
    }

    /// Takes over the length that the frame had in an earlier session. `false` if it is known to have another one, or
    /// cannot have this one. If the length turns out to be wrong when the frame is made, reading it fails.
    pub(super) fn recall(&self, length: u64) -> bool {
        let size = usize::try_from(self.object.content.size()).unwrap_or(usize::MAX);
        let is_possible = (1..=zstd::zstd_safe::compress_bound(size) as u64).contains(&length);
        is_possible && *self.length.get_or_init(|| length) == length
    }

    /// What the frame is: other versions of zstd may compress to other bytes.
    pub(super) fn identity(&self) -> Option<Identity> {
        let object = self.object.content.identity()?;
        let mut identity = Identity::describe("frame");
        identity.add(&object.0).add(&self.level.to_le_bytes()).number(zstd::zstd_safe::version_number().into());
        Some(identity.finish())
    }

    /// Whether it can be read without compressing.
    pub(super) fn is_there(&self) -> bool {
        self.spooled.get().is_some() || self.resources.frames.contains(&self.id)
    }

    /// Lets it leave the cache before all others: whoever wanted it has it.
    pub(super) fn leave_first(&self) {
        self.resources.frames.demote(&self.id);
    }

    /// Whether nothing has to be done for it before all archives can be written, or else before their sizes are known.
    pub(super) fn is_prepared(&self) -> bool {
        if self.resources.spool.get().is_some() { self.is_there() } else { self.length.get().is_some() }
    }

    /// Its number among all frames.
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// What it shares memory and threads with.
    pub(super) fn resources(&self) -> &Arc<Resources> {
        &self.resources
    }

    /// Makes it unless it is there.
    pub(super) fn make(&self) -> Result<(), ReadError> {
        if self.is_there() {
            Ok(())
        } else if self.resources.spool.get().is_some() {
            // It is put aside there, and nobody else asks for it meanwhile.
            self.compress().map(drop)
        } else {
            self.bytes().map(drop)
        }
    }

    /// The frame, made now if it is not kept any more.
    pub fn bytes(&self) -> Result<Arc<Vec<u8>>, ReadError> {
        if let Some(bytes) = self.resources.frames.get(&self.id) {
            self.resources.counters.cache_hits.add(1);
            return Ok(bytes);
        }
        self.resources.frames.get_or_make(&self.id, || match (self.spooled.get(), self.length.get()) {
            (Some(_), Some(&length)) => {
                let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
                self.read_spooled(0, &mut bytes)?;
                Ok(Arc::new(bytes))
            }
            _ => self.compress(),
        })
    }

    /// Fills `buffer` with bytes of the frame, which is `length` bytes long.
    pub(super) fn read_at(&self, length: u64, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        check_range(offset, buffer.len(), length)?;
        if self.spooled.get().is_some() && !self.resources.frames.contains(&self.id) {
            return self.read_spooled(offset, buffer);
        }
        copy_from(&self.bytes()?, offset, buffer)
    }

    fn read_spooled(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        match (self.spooled.get(), self.resources.spool.get()) {
            (Some(start), Some(spool)) => {
                spool.read_at(start + offset, buffer).map_err(|error| ReadError::io(spool.name(), error))
            }
            _ => Err(self.failed(io::ErrorKind::NotFound.into())),
        }
    }

    fn failed(&self, error: io::Error) -> ReadError {
        ReadError::io(&self.name(), error)
    }

    fn name(&self) -> Arc<str> {
        format!("code object for {}", self.object.target).into()
    }

    /// Makes it, or finds it among what was kept of earlier sessions.
    fn compress(&self) -> Result<Arc<Vec<u8>>, ReadError> {
        let resources = &self.resources;
        let kept = resources.kept.get().zip(self.identity());
        let frame = match kept.as_ref().and_then(|(store, identity)| store.get(identity)) {
            Some(frame) => {
                resources.counters.cache_hits.add(1);
                frame
            }
            None => self.compress_object()?,
        };
        if *self.length.get_or_init(|| frame.len() as u64) != frame.len() as u64 {
            return Err(ReadError::Changed { entry: self.name() });
        }
        if let Some((store, identity)) = kept {
            store.put(&identity, &frame);
        }
        if let Some(spool) = resources.spool.get() {
            let start = spool.put(&frame).map_err(|error| ReadError::io(spool.name(), error))?;
            // It is made by one thread at a time, so this is the only place for it.
            let _ = self.spooled.set(start);
        }
        Ok(Arc::new(frame))
    }

    fn compress_object(&self) -> Result<Vec<u8>, ReadError> {
        let resources = &self.resources;
        // Before there is memory for compression; see the order in `index::Budget`.
        let _held = self.object.bundle.as_ref().map(|bundle| bundle.ready()).transpose()?;
        let content = &self.object.content;
        let size = usize::try_from(content.size()).unwrap_or(usize::MAX);
        let fill = |original: &mut [u8]| content.read_at(0, original);
        let frame = resources.compressors.compress(self.level, size, fill, |error| self.failed(error))?;
        resources.counters.bytes_compressed.add(content.size());
        resources.counters.frames_made.add(1);
        Ok(frame)
    }
}
