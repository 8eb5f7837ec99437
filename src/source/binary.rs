//! A single binary as input: a tree with one file.

use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::is_named_wheel;
use super::{Attributes, Entry, EntryKind, EntryPath, Input, InputKind, SourceError, open_file};
use crate::disk;
use crate::resources::Resources;
use crate::rope::{Content, to_usize};

/// Bytes of the smallest file that can be a binary: an ELF header, or the DOS header of PE.
pub(crate) const MIN_BINARY: u64 = 64;

/// What an `AppImage` begins with: an ELF file with "AI" in the padding of its `e_ident` (`AppImageSpec`, "Image format"). What is
/// in it is in the image of a file system behind that.
pub(super) const APP_IMAGE: &[u8] = b"\x7fELF\x02\x01\x01\0AI";

/// A format of host binaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostFormat {
    Elf,
    Coff,
}

impl HostFormat {
    /// The one that a file with these first bytes may have.
    pub(crate) fn of_head(head: &[u8]) -> Option<Self> {
        match head {
            _ if head.starts_with(APP_IMAGE) => None,
            [0x7f, b'E', b'L', b'F', ..] => Some(Self::Elf),
            [b'M', b'Z', _, _, ..] => Some(Self::Coff),
            _ => None,
        }
    }
}

/// Whether a file with these first bytes may be ELF or PE.
pub fn begins_binary(head: &[u8]) -> bool {
    HostFormat::of_head(head).is_some()
}

/// Whether a file that begins with these [`MIN_BINARY`] bytes may be a binary. Shorter ones are none.
pub(crate) fn is_head_of_binary(head: &[u8]) -> bool {
    head.len() as u64 >= MIN_BINARY && begins_binary(head)
}

/// Whether a file is long enough for a binary and begins as one. `None` if its beginning cannot be read, so that what it is, is
/// not known; opening it as a binary says why.
pub(crate) fn begins_as_binary(content: &dyn Content) -> Option<bool> {
    content.beginning(to_usize(MIN_BINARY)).ok().map(|head| is_head_of_binary(&head))
}

/// Whether a file is known to begin as a binary.
pub(crate) fn may_be_binary(content: &dyn Content) -> bool {
    begins_as_binary(content) == Some(true)
}

/// Whether the file begins as binaries do. A wheel may begin with anything: zip files are read from their end.
pub(super) fn is_binary(location: &Path) -> io::Result<bool> {
    if is_named_wheel(location) {
        return Ok(false);
    }
    let mut magic = Vec::new();
    disk::open(location)?.0.take(MIN_BINARY).read_to_end(&mut magic)?;
    Ok(begins_binary(&magic))
}

/// The binary at `location`, in a directory of its own.
pub(super) fn list(location: PathBuf, resources: &Arc<Resources>) -> Result<Input, SourceError> {
    let io = |source| SourceError::Io { path: location.clone(), source };
    let of_file = Attributes::of(&location.metadata().map_err(io)?);
    let name = location.file_name().unwrap_or_default().as_bytes();
    let path = EntryPath::new(name).map_err(|error| io(io::Error::other(error)))?;
    let kind = EntryKind::File { content: open_file(&location, resources)?, link_group: None };
    let entries = vec![Entry { path, kind, attributes: of_file }];
    Ok(Input { entries, ..Input::empty(InputKind::Binary, location, Attributes { mode: 0o755, ..of_file }) })
}
