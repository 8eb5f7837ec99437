//! Split binaries, made by kpackfs or by other tools, as a loader reads them.

use std::sync::Arc;

use super::BinaryError;
use super::wrapper::{FATBIN_WRAPPER_MAGIC, HIPK_MAGIC, WrapperFields};

/// The most problems that are reported for one binary.
const MAX_PROBLEMS: usize = 100;

/// A binary whose device code has been moved into archives.
#[derive(Debug)]
pub struct SplitBinary {
    /// Its wrappers, in the order of their section.
    pub wrappers: Vec<SplitWrapper>,
    /// Violated rules of its format and of split binaries.
    pub problems: Vec<String>,
    /// Why no runtime finds all wrappers.
    pub damage: Option<String>,
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
    damage: Option<String>,
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

    /// Adds a problem with which no runtime finds all wrappers.
    pub(super) fn push_damage(&mut self, problem: String) {
        self.damage.get_or_insert_with(|| problem.clone());
        self.push(problem);
    }

    pub(super) fn into_list(self) -> Vec<String> {
        let Self { mut list, more, .. } = self;
        list.extend((more > 0).then(|| format!("further problems: {more}")));
        list
    }

    /// The binary that has these wrappers and problems.
    pub(super) fn into_binary(self, wrappers: Vec<SplitWrapper>) -> SplitBinary {
        let other = wrappers.iter().find(|wrapper| wrapper.version != 1);
        let of_version = other.map(|other| format!("there is no wrapper of version 1 at {:#x}", other.offset));
        let damage = self.damage.clone().or(of_version);
        SplitBinary { wrappers, problems: self.into_list(), damage }
    }
}

/// The split wrappers in the bytes of their section, each with its offset there. `start` is the section's file offset.
pub(super) fn split_wrappers(bytes: &[u8], start: u64, problems: &mut Problems) -> Vec<(u64, WrapperFields)> {
    let mut found = Vec::new();
    let mut with_code = 0;
    for (at, fields) in WrapperFields::in_section(bytes) {
        match fields.magic {
            HIPK_MAGIC => found.push((at, fields)),
            FATBIN_WRAPPER_MAGIC => with_code += 1,
            other => {
                problems.push_damage(format!("there is no wrapper at {:#x} but {other:#010x}", start + at));
                break;
            }
        }
    }
    if with_code > 0 && !found.is_empty() {
        let all = with_code + found.len();
        problems.push_damage(format!("{with_code} of its {all} wrappers still have the magic HIPF, the others HIPK"));
    }
    found
}
