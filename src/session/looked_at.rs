//! What was looked at in an input that has nothing to split.

use std::fmt;

use super::prepared::Prepared;
use crate::binary::SplitBinary;
use crate::loader::is_archive;
use crate::source::{EntryKind, may_be_binary};

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
    pub(crate) fn of(prepared: &Prepared) -> Self {
        let mut all = Self::default();
        for entry in &prepared.input.entries {
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
                "contains no device code and no kernel databases: none of its {files} files, of which {binaries} are \
                 binaries, has HIP's wrappers or is of a database"
            ),
            (0, _) => write!(
                formatter,
                "has {archives} .kpack archives, and none of the libraries whose code is in them; name the host part, too"
            ),
            (_, 0) => write!(
                formatter,
                "has {split} split libraries, and none of the archives with their code; name the device parts, too"
            ),
            _ => write!(
                formatter,
                "has {split} split libraries and {archives} .kpack archives, which do not belong together"
            ),
        }
    }
}
