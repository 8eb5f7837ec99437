//! What was looked at in an input that has nothing to split.

use std::fmt;

use super::table::counted;
use crate::binary::SplitBinary;
use crate::loader::is_archive;
use crate::source::{EntryKind, Input, may_be_binary};

/// What was looked at in an input that has nothing to split.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LookedAt {
    files: usize,
    binaries: usize,
    /// Libraries whose wrappers lead to archives that the input does not have.
    split: usize,
    /// Archives with code of libraries that the input does not have.
    archives: usize,
}

impl LookedAt {
    pub(crate) fn of<'a>(inputs: impl IntoIterator<Item = &'a Input>) -> Self {
        let mut all = Self::default();
        for entry in inputs.into_iter().flat_map(|input| &input.entries) {
            let EntryKind::File { content, .. } = &entry.kind else { continue };
            all.files += 1;
            all.archives += usize::from(is_archive(&entry.path, content));
            if may_be_binary(&**content) {
                all.binaries += 1;
                all.split +=
                    usize::from(matches!(SplitBinary::find(content), Ok(Some(split)) if !split.wrappers.is_empty()));
            }
        }
        all
    }
}

/// The rest of a sentence that begins with the input.
impl fmt::Display for LookedAt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { files, binaries, split, archives } = self;
        match (split, archives) {
            (0, 0) => write!(
                formatter,
                "contains no device code and no kernel databases: {}, {}, none of which has HIP's wrappers or is of a database",
                counted(*files, "file", "files"),
                counted(*binaries, "binary", "binaries")
            ),
            (0, _) => write!(
                formatter,
                "has {}, and none of the libraries whose code is there; name the host part, too",
                counted(*archives, ".kpack archive", ".kpack archives")
            ),
            (_, 0) => write!(
                formatter,
                "has {}, and no archive with the code; name the device parts, too",
                counted(*split, "split library", "split libraries")
            ),
            _ => write!(
                formatter,
                "has {} and {}, which do not belong together",
                counted(*split, "split library", "split libraries"),
                counted(*archives, ".kpack archive", ".kpack archives")
            ),
        }
    }
}
