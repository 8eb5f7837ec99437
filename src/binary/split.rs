//! Binaries that have been split, by kpackfs or by anybody else: what a loader would find in them.

use std::sync::Arc;

use super::{BinaryError, coff, elf};
use crate::rope::Content;

/// A binary whose device code has been moved into archives.
#[derive(Debug)]
pub struct SplitBinary {
    /// Its wrappers, in the order of their section.
    pub wrappers: Vec<SplitWrapper>,
    /// Rules of its format, and of what a split binary is, that it breaks.
    pub problems: Vec<String>,
}

/// A wrapper that names archives instead of pointing at device code.
#[derive(Debug)]
pub struct SplitWrapper {
    /// File offset.
    pub offset: u64,
    /// Its version field; loaders want 1.
    pub version: u32,
    /// Its index field, under which loaders look for its code objects.
    pub index: u64,
    /// What its pointer leads to once the loader has relocated it; the marker is the beginning of it.
    pub marker: Result<Arc<[u8]>, BinaryError>,
}

impl SplitBinary {
    /// Looks for wrappers that have been split. `Ok(None)` means that there are none: the file is no binary, or has
    /// never had device code, or still has it.
    pub fn read(content: &Arc<dyn Content>) -> Result<Option<Self>, BinaryError> {
        if starts_with(content, &object::elf::ELFMAG)? {
            elf::read_split(content)
        } else if starts_with(content, b"MZ")? {
            coff::read_split(content)
        } else {
            Ok(None)
        }
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
