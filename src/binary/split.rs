//! Split binaries, made by kpackfs or by other tools, as a loader reads them.

use std::sync::Arc;

use super::BinaryError;

/// The most problems that are reported for one binary.
const MAX_PROBLEMS: usize = 100;

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
