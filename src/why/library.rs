//! A file with code, opened.

use std::path::Path;
use std::sync::Arc;

use super::assembled::Assembly;
use super::error;
use super::lookup::Presence;
use crate::binary::{FatBinary, SplitBinary};
use crate::coverage::{CodePlace, LibraryCode};
use crate::fatbin::begins_code;
use crate::resources::Resources;
use crate::rope::Content;
use crate::source::{EntryPath, open_file};

/// A library with device code, or with wrappers that lead to archives; or another file with code.
pub(super) enum Library {
    Split(SplitBinary),
    /// With what it was put together from, if it is not installed.
    Held(LibraryCode, Option<Arc<Assembly>>),
}

impl Library {
    /// Where its code is.
    pub(super) fn form(&self) -> CodePlace {
        match self {
            Self::Split(_) => CodePlace::Split,
            Self::Held(code, _) => code.form,
        }
    }

    pub(super) fn wrapper_count(&self) -> usize {
        match self {
            Self::Split(split) => split.wrappers.len(),
            Self::Held(code, _) => code.wrappers.len(),
        }
    }

    pub(super) fn presence(&self) -> Presence {
        match self {
            Self::Held(_, Some(assembly)) => assembly.presence(),
            Self::Held(_, None) | Self::Split(_) => Presence::Installed,
        }
    }
}

/// The library in a file; `None` if it is none, or has no code.
pub(super) fn open(path: &Path, resources: &Arc<Resources>) -> anyhow::Result<Option<Library>> {
    library(EntryPath::root(), path, &open_file(path, resources)?, resources)
}

/// The same for a file of an input, where it is called `entry`.
pub(super) fn library(
    entry: EntryPath,
    path: &Path,
    content: &Arc<dyn Content>,
    resources: &Arc<Resources>,
) -> anyhow::Result<Option<Library>> {
    if begins_code(&**content) {
        return Ok(None);
    }
    if let Some(split) = SplitBinary::find(content).map_err(error::at(path))? {
        return match split.damage {
            Some(reason) => Err(error::at(path)(reason)),
            None => Ok(Some(Library::Split(split))),
        };
    }
    let Some(binary) = FatBinary::scan(content).map_err(error::at(path))? else { return Ok(None) };
    let code = LibraryCode::of_fat(entry, content, &binary, resources).map_err(error::at(path))?;
    Ok(code.map(|code| Library::Held(code, None)))
}
