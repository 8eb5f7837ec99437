//! What was looked at in an input that has nothing to split.

use std::fmt;

use super::table::counted;
use crate::binary::SplitBinary;
use crate::fatbin::{CODE_HEADER, is_bundle, is_code};
use crate::loader::is_archive;
use crate::rope::Content;
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
    /// Code objects and bundles that are files.
    loose: usize,
}

impl LookedAt {
    pub(crate) fn of<'a>(inputs: impl IntoIterator<Item = &'a Input>) -> Self {
        let mut all = Self::default();
        for entry in inputs.into_iter().flat_map(|input| &input.entries) {
            let EntryKind::File { content, .. } = &entry.kind else { continue };
            all.files += 1;
            all.archives += usize::from(is_archive(&entry.path, content));
            all.loose += usize::from(is_loose_code(&**content));
            if may_be_binary(&**content) {
                all.binaries += 1;
                all.split +=
                    usize::from(matches!(SplitBinary::find(content), Ok(Some(split)) if !split.wrappers.is_empty()));
            }
        }
        all
    }
}

/// Whether a file is a code object or an offload bundle.
fn is_loose_code(content: &dyn Content) -> bool {
    let mut head = [0; CODE_HEADER];
    content.size() >= CODE_HEADER as u64 && content.peek(&mut head).is_ok() && (is_code(&head) || is_bundle(&head))
}

/// The rest of a sentence that begins with the input.
impl fmt::Display for LookedAt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { files, binaries, split, archives, loose } = self;
        match (split, archives) {
            (0, 0) if *loose > 0 => write!(
                formatter,
                "has {} of no library and of no database that is split",
                counted(*loose, "code object or bundle", "code objects or bundles")
            ),
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
