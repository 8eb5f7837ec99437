//! The blocks of a deflated content: their places in it, and where they are kept once they are made.

use std::ops::Range;
use std::sync::Arc;

use super::block::{BLOCK, BlockEncoder, DeflateLevel, describe};
use super::change::WINDOW;
use super::error::DeflateError;
use crate::metrics::MemoryClass;
use crate::resources::Resources;
use crate::rope::{Content, Identity, ReadError, copy_from, head, tail, to_usize};

/// Memory for a block at work, in bytes: the block with its history, its deflated form, and the state of zlib.
pub(super) const MEMORY: u64 = 2 * BLOCK + (512 << 10);

/// A content to deflate.
#[derive(Clone, Debug)]
pub struct Uncompressed {
    /// Names it in messages.
    pub entry: Arc<str>,
    /// The bytes.
    pub content: Arc<dyn Content>,
    /// Whether its SHA-256 is needed.
    pub is_hashed: bool,
}

/// The blocks of one content.
#[derive(Debug)]
pub(super) struct Blocks {
    pub(super) of: Uncompressed,
    level: DeflateLevel,
    /// Identifies the stream. Without one, nothing about it is recorded.
    pub(super) identity: Option<Identity>,
    /// The same, or a key that is valid in this session only.
    key: Identity,
    /// The number of the first block in the cache of frames; see [`Resources::next_ids`].
    first_id: u64,
    pub(super) resources: Arc<Resources>,
}

impl Blocks {
    pub(super) fn new(of: Uncompressed, level: DeflateLevel, resources: &Arc<Resources>) -> Self {
        let first_id = resources.next_ids(count(of.content.size()));
        let identity = of.content.identity().map(|content| {
            let mut identity = Identity::describe("deflated");
            identity.add(&content.0).add(&describe(level)).number(BLOCK).finish()
        });
        let of_session =
            || Identity::describe("deflated in this session").add(&resources.session).number(first_id).finish();
        let key = identity.unwrap_or_else(of_session);
        Self { of, level, identity, key, first_id, resources: Arc::clone(resources) }
    }

    /// The number of blocks.
    pub(super) fn count(&self) -> u64 {
        count(self.of.content.size())
    }

    /// The bytes of the content that are in a block.
    pub(super) fn range(&self, number: u64) -> Range<u64> {
        let start = number.saturating_mul(BLOCK);
        start..start.saturating_add(BLOCK).min(self.of.content.size())
    }

    /// Whether a block is the last one of the stream.
    pub(super) fn is_last(&self, number: u64) -> bool {
        number + 1 >= self.count()
    }

    /// Whether a block is on disk or in memory.
    pub(super) fn is_kept(&self, number: u64) -> bool {
        let Resources { frames, store, .. } = &*self.resources;
        frames.contains(&self.id(number)) || store.get(&self.key(number)).is_some()
    }

    /// Keeps a deflated block on disk, or else in memory as far as there is room.
    pub(super) fn keep(&self, number: u64, bytes: &[u8]) {
        let Resources { frames, store, .. } = &*self.resources;
        let stored = store.put(&self.key(number), bytes.len() as u64, |write| write(bytes));
        if !matches!(stored, Ok(Some(_))) {
            frames.put(self.id(number), Arc::new(bytes.to_vec()));
        }
    }

    /// Fills `buffer` with bytes of a deflated block of `length` bytes, if it is kept.
    pub(super) fn read_kept(
        &self,
        number: u64,
        length: u64,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<bool, ReadError> {
        let Resources { frames, store, counters, .. } = &*self.resources;
        let changed = || ReadError::Changed { entry: Arc::clone(&self.of.entry) };
        if let Some(bytes) = frames.get(&self.id(number)) {
            if bytes.len() as u64 != length {
                return Err(changed());
            }
            copy_from(&bytes, offset, buffer)?;
        } else {
            let key = self.key(number);
            let Some(location) = store.get(&key) else { return Ok(false) };
            if location.length() != length {
                return Err(changed());
            }
            if location.read_at(offset, buffer).is_err() {
                store.forget(&key, &location);
                return Ok(false);
            }
        }
        counters.cache_hits.add(1);
        Ok(true)
    }

    /// Makes a block from what the content has now.
    pub(super) fn make(&self, number: u64) -> Result<Vec<u8>, DeflateError> {
        let Resources { budget, counters, .. } = &*self.resources;
        let range = self.range(number);
        let history = range.start.min(WINDOW);
        let size = history + (range.end - range.start);
        // Reading may wait for memory of a class that comes before the one of compression.
        let read = budget.account(MemoryClass::Streams, size);
        let mut bytes = vec![0; to_usize(size)];
        self.of.content.reader(range.start - history).read(&mut bytes)?;
        let _reserved = budget.reserve(MemoryClass::Compression, MEMORY);
        drop(read);
        let (history, block) = (head(&bytes, to_usize(history)), tail(&bytes, to_usize(history)));
        let mut encoder = BlockEncoder::new(self.level);
        let made = encoder.encode(history, block, self.is_last(number))?.to_vec();
        counters.bytes_deflated.add(block.len() as u64);
        Ok(made)
    }

    fn key(&self, number: u64) -> Identity {
        Identity::describe("deflated block").add(&self.key.0).number(number).finish()
    }

    fn id(&self, number: u64) -> u64 {
        self.first_id.saturating_add(number)
    }
}

/// The number of blocks of `size` bytes. An empty content has one as well, which ends the stream.
fn count(size: u64) -> u64 {
    size.div_ceil(BLOCK).max(1)
}
