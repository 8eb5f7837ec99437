//! A binary without its device code, worked out when somebody reads it.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::{BinaryError, FatBinary};
use crate::index::{Kind, Memory};
use crate::rope::{Content, Edit, Identity, ReadError, Rope};

/// What a fat binary becomes. Its size is known from the start; if it was learnt in an earlier session, the binary is
/// looked through again only when its bytes are wanted.
pub struct Rewritten {
    entry: Arc<str>,
    original: Arc<dyn Content>,
    marker: Vec<u8>,
    size: u64,
    made: OnceLock<Made>,
    /// Held while it is worked out.
    work: Mutex<()>,
}

struct Made {
    edits: Arc<[Edit]>,
    rope: Rope,
}

impl Rewritten {
    /// What `original` becomes when its wrappers point at `marker`, if that has been found out before; `entry` is for
    /// messages.
    pub fn recall(memory: &Memory, entry: &str, original: &Arc<dyn Content>, marker: &[u8]) -> Option<Self> {
        let mut rewritten = Self {
            entry: entry.into(),
            original: Arc::clone(original),
            marker: marker.to_vec(),
            size: 0,
            made: OnceLock::new(),
            work: Mutex::default(),
        };
        rewritten.size = memory.recall(Kind::Rewritten, &rewritten.identity()?)?;
        Some(rewritten)
    }

    /// Works out what `original` becomes when its wrappers point at `marker`.
    pub fn make(
        memory: &Memory,
        entry: &str,
        original: &Arc<dyn Content>,
        fat: &FatBinary,
        marker: &[u8],
    ) -> Result<Self, BinaryError> {
        let made = Made::new(fat, marker)?;
        let rewritten = Self {
            entry: entry.into(),
            original: Arc::clone(original),
            marker: marker.to_vec(),
            size: made.rope.size(),
            made: OnceLock::from(made),
            work: Mutex::default(),
        };
        if let Some(identity) = rewritten.identity() {
            memory.learn(Kind::Rewritten, &identity, &rewritten.size);
        }
        Ok(rewritten)
    }

    /// The binary as it was.
    pub fn original(&self) -> &Arc<dyn Content> {
        &self.original
    }

    /// The changes.
    pub fn edits(&self) -> Result<Arc<[Edit]>, ReadError> {
        self.made().map(|made| Arc::clone(&made.edits))
    }

    fn made(&self) -> Result<&Made, ReadError> {
        if let Some(made) = self.made.get() {
            return Ok(made);
        }
        // Nothing is left half done by a thread that panicked here.
        let _working = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = self.made.get() {
            return Ok(made);
        }
        let made = match FatBinary::scan(&self.original)
            .and_then(|fat| fat.map(|fat| Made::new(&fat, &self.marker)).transpose())
        {
            Ok(Some(made)) if made.rope.size() == self.size => made,
            Ok(_) => return Err(ReadError::Changed { entry: Arc::clone(&self.entry) }),
            Err(BinaryError::Read(error)) => return Err(error),
            Err(error) => return Err(ReadError::damaged(&self.entry, error.to_string())),
        };
        Ok(self.made.get_or_init(|| made))
    }
}

impl Made {
    fn new(fat: &FatBinary, marker: &[u8]) -> Result<Self, BinaryError> {
        let edits = fat.edits(marker)?;
        Ok(Self { rope: fat.edited(edits.clone())?, edits: edits.into() })
    }
}

impl Content for Rewritten {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        self.made()?.rope.read_at(offset, buffer)
    }

    fn is_prompt(&self, offset: u64, length: usize) -> bool {
        self.made.get().is_some_and(|made| made.rope.is_prompt(offset, length))
    }

    fn identity(&self) -> Option<Identity> {
        let original = self.original.identity()?;
        Some(Identity::describe("without device code").add(&original.0).add(&self.marker).finish())
    }
}

impl fmt::Debug for Rewritten {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Rewritten({:?}, {} bytes)", self.entry, self.size)
    }
}
