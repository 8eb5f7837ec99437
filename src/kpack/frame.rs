//! A code object as a zstd frame: compressed when it is needed, remembered by length, kept for a while.

use std::cell::RefCell;
use std::io;
use std::sync::{Arc, OnceLock};

use zstd::bulk::Compressor;

use crate::fatbin::CodeObject;
use crate::index::Resources;
use crate::rope::{Content, Identity, ReadError, check_range, copy_from};

/// A code object that archives hold compressed. Archives that hold the same code object share it.
#[derive(Debug)]
pub struct Frame {
    /// What is compressed.
    pub object: CodeObject,
    level: i32,
    length: OnceLock<u64>,
    id: u64,
    resources: Arc<Resources>,
}

/// Bytes of the buffer for code objects that a thread keeps.
const KEPT: usize = 4 << 20;

thread_local! {
    /// What is being compressed. Fresh memory would cost as much as the compression of a small code object.
    static ORIGINAL: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };

    /// A zstd context takes a few MB; each thread keeps one for the level it used last.
    static COMPRESSOR: RefCell<Option<(i32, Compressor<'static>)>> = const { RefCell::new(None) };
}

impl Frame {
    /// A frame of a zstd level, not made yet.
    pub fn new(object: CodeObject, level: i32, resources: &Arc<Resources>) -> Self {
        Self { object, level, length: OnceLock::new(), id: resources.next_id(), resources: Arc::clone(resources) }
    }

    /// Its length in bytes, if it was made before.
    pub fn known_length(&self) -> Option<u64> {
        self.length.get().copied()
    }

    /// What the frame is: other versions of zstd may compress to other bytes.
    pub(super) fn identity(&self) -> Option<Identity> {
        let object = self.object.content.identity()?;
        let mut identity = Identity::describe("frame");
        identity.add(&object.0).add(&self.level.to_le_bytes()).number(zstd::zstd_safe::version_number().into());
        Some(identity.finish())
    }

    /// The frame, made now if it is not kept any more.
    pub fn bytes(&self) -> Result<Arc<Vec<u8>>, ReadError> {
        if let Some(bytes) = self.resources.frames.get(&self.id) {
            self.resources.counters.cache_hits.add(1);
            return Ok(bytes);
        }
        self.resources.frames.get_or_make(&self.id, || self.compress())
    }

    /// Drops what is kept of the frame and of the bundle that it comes from. It can be made again.
    pub fn forget(&self) {
        self.resources.frames.remove(&self.id);
        if let Some(bundle) = &self.object.bundle {
            bundle.forget();
        }
    }

    fn compress(&self) -> Result<Arc<Vec<u8>>, ReadError> {
        let content = &self.object.content;
        let size = usize::try_from(content.size()).unwrap_or(usize::MAX);
        let frame = ORIGINAL.with_borrow_mut(|original| {
            original.resize(size.max(original.len().min(KEPT)), 0);
            let (original, _) = original.split_at_mut(size);
            content.read_at(0, original)?;
            compress(self.level, original)
                .map_err(|error| ReadError::io(&Arc::from(format!("code object for {}", self.object.target)), error))
        })?;
        let length = *self.length.get_or_init(|| frame.len() as u64);
        if length != frame.len() as u64 {
            return Err(ReadError::Changed { entry: format!("code object for {}", self.object.target).into() });
        }
        self.resources.counters.bytes_compressed.add(content.size());
        self.resources.counters.frames_made.add(1);
        Ok(Arc::new(frame))
    }
}

/// The same bytes for the same level on every machine and thread.
fn compress(level: i32, original: &[u8]) -> io::Result<Vec<u8>> {
    COMPRESSOR.with_borrow_mut(|kept| {
        if kept.as_ref().is_none_or(|(other, _)| *other != level) {
            *kept = Some((level, Compressor::new(level)?));
        }
        let (_, compressor) = kept.as_mut().ok_or(io::ErrorKind::OutOfMemory)?;
        let mut frame = compressor.compress(original)?;
        frame.shrink_to_fit();
        Ok(frame)
    })
}

/// A frame as a part of an archive. It exists only when the length is known.
#[derive(Debug)]
pub(super) struct FrameContent {
    pub(super) frame: Arc<Frame>,
    pub(super) length: u64,
}

impl Content for FrameContent {
    fn size(&self) -> u64 {
        self.length
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        check_range(offset, buffer.len(), self.length)?;
        let bytes = self.frame.bytes()?;
        copy_from(&bytes, offset, buffer)
    }

    fn is_prompt(&self, _: u64, _: usize) -> bool {
        false
    }

    fn identity(&self) -> Option<Identity> {
        self.frame.identity()
    }
}
