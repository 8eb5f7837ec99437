//! Split binaries, made by kpackfs or by other tools, as a loader reads them.

use std::collections::HashMap;
use std::sync::Arc;

use super::{BinaryError, coff, elf};
use crate::rope::Content;

/// The most problems that are reported for one binary.
const MAX_PROBLEMS: usize = 100;

/// The most markers of one binary. The wrappers of real ones share one.
pub(super) const MAX_MARKERS: usize = 64;

/// A binary whose device code has been moved into archives.
#[derive(Debug)]
pub struct SplitBinary {
    /// Its wrappers, in the order of their section.
    pub wrappers: Vec<SplitWrapper>,
    /// Violated rules of its format and of split binaries.
    pub problems: Vec<String>,
}

/// A wrapper that leads to a marker, not to device code.
#[derive(Debug)]
pub struct SplitWrapper {
    /// File offset.
    pub offset: u64,
    /// Its version field. Loaders accept 1.
    pub version: u32,
    /// Its index field, by which loaders look up its code objects.
    pub index: u64,
    /// The bytes that its relocated pointer leads to. They begin with the marker.
    pub marker: Result<Arc<[u8]>, BinaryError>,
}

impl SplitBinary {
    /// Looks for split wrappers. `Ok(None)` if there are none: the file is not a binary, has never had device code, or
    /// still has it.
    pub fn read(content: &Arc<dyn Content>) -> Result<Option<Self>, BinaryError> {
        if starts_with(content, &object::elf::ELFMAG)? {
            elf::read_split(content)
        } else if starts_with(content, b"MZ")? {
            coff::read_split(content)
        } else {
            Ok(None)
        }
    }

    /// Like [`SplitBinary::read`], for a file that may be compressed. If it cannot have device code, not all of it is
    /// decompressed.
    pub fn find(content: &Arc<dyn Content>) -> Result<Option<Self>, BinaryError> {
        if starts_with(content, &object::elf::ELFMAG)? && !elf::may_have_code(content)? {
            return Ok(None);
        }
        Self::read(content)
    }
}

/// Problems of a binary, up to [`MAX_PROBLEMS`].
#[derive(Debug, Default)]
pub(super) struct Problems {
    list: Vec<String>,
    more: usize,
}

impl Problems {
    pub(super) fn push(&mut self, problem: String) {
        if self.list.len() < MAX_PROBLEMS {
            self.list.push(problem);
        } else {
            self.more += 1;
        }
    }

    pub(super) fn extend(&mut self, problems: impl IntoIterator<Item = String>) {
        problems.into_iter().for_each(|problem| self.push(problem));
    }

    pub(super) fn into_list(self) -> Vec<String> {
        let Self { mut list, more } = self;
        list.extend((more > 0).then(|| format!("and {more} more problems")));
        list
    }
}

/// The markers of wrappers, by pointer.
#[derive(Debug, Default)]
pub(super) struct Markers(HashMap<u64, Arc<[u8]>>);

impl Markers {
    /// The marker at a pointer, read by `read` at the first call.
    pub(super) fn get(
        &mut self,
        pointer: u64,
        read: impl FnOnce() -> Result<Arc<[u8]>, BinaryError>,
    ) -> Result<Arc<[u8]>, BinaryError> {
        if let Some(known) = self.0.get(&pointer) {
            return Ok(Arc::clone(known));
        }
        if self.0.len() == MAX_MARKERS {
            let reason = format!("its wrappers point at more than {MAX_MARKERS} markers");
            return Err(BinaryError::unsupported(reason));
        }
        let marker = read()?;
        self.0.insert(pointer, Arc::clone(&marker));
        Ok(marker)
    }
}

fn starts_with(content: &Arc<dyn Content>, magic: &[u8]) -> Result<bool, BinaryError> {
    let mut bytes = vec![0; magic.len()];
    if content.size() < magic.len() as u64 {
        return Ok(false);
    }
    content.peek(&mut bytes)?;
    Ok(bytes == magic)
}
