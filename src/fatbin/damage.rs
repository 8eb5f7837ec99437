//! What is known to be wrong with the content of a compressed bundle or frame.
//!
//! Damage that a decoder finds at a place leaves all bytes before it. Damage that only shows at the end, such as a wrong
//! checksum, may be anywhere: then no byte is served any more, and the index remembers it.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use super::compressed::Compressed;
use crate::index::RecordKind;
use crate::rope::{Identity, ReadError};

/// What is known about the damage of a bundle, and its names.
#[derive(Debug, Default)]
pub(super) struct Damage {
    name: OnceLock<BundleName>,
    found: OnceLock<FoundDamage>,
    /// Set when the index was asked.
    is_looked_up: OnceLock<()>,
    /// Whether all of the content was decoded, and its checksum is right.
    is_checked: AtomicBool,
}

/// The name of a bundle in messages.
#[derive(Debug)]
enum BundleName {
    /// A single compressed code object.
    Frame(Arc<str>),
    /// A bundle in a file, and the first wrapper that leads to it.
    InFile(Arc<str>, Option<usize>),
}

#[derive(Debug)]
struct FoundDamage {
    /// Bytes before it. If these are all bytes, none of them is served.
    at: u64,
    error: ReadError,
}

impl Damage {
    /// For a single compressed code object of this name.
    pub(super) fn for_frame(name: Arc<str>) -> Self {
        Self { name: BundleName::Frame(name).into(), ..Self::default() }
    }

    /// Records that all of the content is sound.
    pub(super) fn note_checked(&self) {
        self.is_checked.store(true, Ordering::Relaxed);
    }

    /// Whether all of the content is known to be sound.
    pub(super) fn is_checked(&self) -> bool {
        self.is_checked.load(Ordering::Relaxed)
    }
}

impl Compressed {
    /// Sets its name in messages: the file, and the first wrapper that leads to it.
    pub(crate) fn set_name(&self, file: &Arc<str>, wrapper: Option<usize>) {
        // All users name the same file.
        self.damage.name.set(BundleName::InFile(Arc::clone(file), wrapper)).ok();
    }

    /// Fails if the bytes before `end` are known to be unreadable.
    pub(crate) fn check(&self, end: u64) -> Result<(), ReadError> {
        match self.damage() {
            Some(FoundDamage { at, error }) if end > *at || *at >= self.size() => Err(error.clone()),
            Some(_) | None => Ok(()),
        }
    }

    /// Whether nothing of it may be served.
    pub(crate) fn is_void(&self) -> bool {
        self.damage().is_some_and(|damage| damage.at >= self.size())
    }

    /// Bytes before known damage.
    pub(super) fn sound_size(&self) -> u64 {
        self.damage().map_or(self.size(), |damage| damage.at)
    }

    /// Decompresses all of it, unless that was done before. Fails if any of it is damaged. Waits for memory like
    /// [`Compressed::pin_whole`].
    pub(crate) fn check_whole(&self) -> Result<(), ReadError> {
        self.check(self.size())?;
        if self.damage.is_checked() {
            return Ok(());
        }
        if self.is_decompressed_in_memory() {
            return self.pin_whole().map(drop);
        }
        self.seek(&mut self.stream(), self.size())
    }

    fn damage(&self) -> Option<&FoundDamage> {
        let Damage { found, is_looked_up, .. } = &self.damage;
        is_looked_up.get_or_init(|| {
            let index = &self.resources().index;
            if let Some(reason) = self.identity().and_then(|it| index.get::<String>(RecordKind::Damage, &it)) {
                found.set(FoundDamage { at: self.size(), error: self.damaged_whole(&reason) }).ok();
            }
        });
        found.get()
    }

    /// Records an error of decoding after `at` bytes. Errors of reading the input are not recorded.
    pub(super) fn failed(&self, at: u64, error: &io::Error) -> ReadError {
        // The next try may succeed.
        if error.kind() == io::ErrorKind::OutOfMemory {
            return self.damaged("there is no memory to decode it");
        }
        let reason = match wrapped(error) {
            Some(other @ (ReadError::Io { .. } | ReadError::Changed { .. } | ReadError::OutOfRange { .. })) => {
                return other.clone();
            }
            Some(damaged) => damaged.to_string(),
            None => error.to_string(),
        };
        let found = if at < self.size() {
            let error = self.damaged(&format!("damaged behind byte {at} of its content: {reason}"));
            FoundDamage { at, error }
        } else {
            if let Some(identity) = self.identity() {
                self.resources().index.put(RecordKind::Damage, &identity, &reason);
            }
            FoundDamage { at: self.size(), error: self.damaged_whole(&reason) }
        };
        self.damage.found.get_or_init(|| found).error.clone()
    }

    /// The error of a decoder that could not start, or the error of reading the input that it wraps.
    pub(super) fn unreadable(&self, error: &io::Error) -> ReadError {
        wrapped(error).cloned().unwrap_or_else(|| self.damaged(&error.to_string()))
    }

    fn damaged_whole(&self, reason: &str) -> ReadError {
        self.damaged(&format!("damaged at an unknown place: {reason}"))
    }

    fn damaged(&self, reason: &str) -> ReadError {
        let offset = self.offset();
        match self.damage.name.get() {
            Some(BundleName::Frame(name)) => ReadError::damaged(name, reason),
            Some(BundleName::InFile(file, Some(wrapper))) => {
                ReadError::damaged(file, format!("offload bundle at {offset:#x} (wrapper {wrapper}): {reason}"))
            }
            Some(BundleName::InFile(file, None)) => {
                ReadError::damaged(file, format!("offload bundle at {offset:#x}: {reason}"))
            }
            None => ReadError::damaged(&format!("offload bundle at {offset:#x}").into(), reason),
        }
    }

    /// Offset of the bundle in its file.
    fn offset(&self) -> u64 {
        self.start().saturating_sub(self.packing.format.header_size())
    }

    fn identity(&self) -> Option<Identity> {
        let (content, packing) = (self.content().identity()?, &self.packing);
        let mut identity = Identity::describe("compressed bundle");
        Some(identity.add(&content.0).numbers([packing.start, packing.length, packing.size]).finish())
    }
}

/// The error of reading the input, if a decoder stopped because of it.
fn wrapped(error: &io::Error) -> Option<&ReadError> {
    error.get_ref()?.downcast_ref()
}
