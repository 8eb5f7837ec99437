//! A binary without its device code, worked out when somebody reads it.

use std::sync::Arc;

use super::{BinaryError, FatBinary};
use crate::index::{Kind, Memory};
use crate::rope::{Content, Edit, Identity, Later, Outcome, ReadError, Rope};

/// What a fat binary becomes. Its size is known from the start; if it was learnt in an earlier session, the binary is
/// looked through again only when its bytes are wanted.
#[derive(Debug)]
pub struct Rewritten {
    original: Arc<dyn Content>,
    result: Later<Edited>,
}

struct Edited {
    edits: Arc<[Edit]>,
    rope: Rope,
}

impl Rewritten {
    /// What `original` becomes when its wrappers point at `marker`, if that has been found out before; `entry` is for
    /// messages.
    pub fn recall(memory: &Memory, entry: &str, original: &Arc<dyn Content>, marker: &[u8]) -> Option<Self> {
        let identity = identity(&**original, marker)?;
        let size = memory.recall(Kind::Rewritten, &identity)?;
        let (name, whole, marker) = (Arc::from(entry), Arc::clone(original), marker.to_vec());
        let work = move || match FatBinary::scan(&whole) {
            Ok(Some(fat)) => Edited::new(&fat, &marker).map_err(|error| read_error(error, &name)),
            Ok(None) => Err(ReadError::Changed { entry: Arc::clone(&name) }),
            Err(error) => Err(read_error(error, &name)),
        };
        Some(Self { original: Arc::clone(original), result: Later::new(entry, size, Some(identity), work) })
    }

    /// Works out what `original` becomes when its wrappers point at `marker`.
    pub fn make(
        memory: &Memory,
        entry: &str,
        original: &Arc<dyn Content>,
        fat: &FatBinary,
        marker: &[u8],
    ) -> Result<Self, BinaryError> {
        let identity = identity(&**original, marker);
        let result = Later::done(entry, identity, Edited::new(fat, marker)?);
        if let Some(identity) = identity {
            memory.learn(Kind::Rewritten, &identity, &result.size());
        }
        Ok(Self { original: Arc::clone(original), result })
    }

    /// The binary as it was.
    pub fn original(&self) -> &Arc<dyn Content> {
        &self.original
    }

    /// The changes.
    pub fn edits(&self) -> Result<Arc<[Edit]>, ReadError> {
        self.result.get().map(|edited| Arc::clone(&edited.edits))
    }
}

fn identity(original: &dyn Content, marker: &[u8]) -> Option<Identity> {
    Some(Identity::describe("without device code").add(&original.identity()?.0).add(marker).finish())
}

fn read_error(error: BinaryError, entry: &Arc<str>) -> ReadError {
    match error {
        BinaryError::Read(error) => error,
        error => ReadError::damaged(entry, error.to_string()),
    }
}

impl Edited {
    fn new(fat: &FatBinary, marker: &[u8]) -> Result<Self, BinaryError> {
        let edits = fat.edits(marker)?;
        Ok(Self { rope: fat.edited(edits.clone())?, edits: edits.into() })
    }
}

impl Outcome for Edited {
    fn content(&self) -> &dyn Content {
        &self.rope
    }
}

impl Content for Rewritten {
    fn size(&self) -> u64 {
        self.result.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        self.result.read_at(offset, buffer)
    }

    fn is_prompt(&self, offset: u64, length: usize) -> bool {
        self.result.is_prompt(offset, length)
    }

    fn identity(&self) -> Option<Identity> {
        self.result.identity()
    }
}
