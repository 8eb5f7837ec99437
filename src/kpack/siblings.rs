//! Archives that are made of the same compressed bundles.
//!
//! Decompressing a bundle for one architecture after another costs as much each time. Who asks for a second architecture
//! is likely to ask for all, so then the code objects of all are compressed while the bundle is there, as far as there is
//! room to keep them.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::layout::Archive;

/// How much smaller code objects become at least, on real ones at zstd level 3.
const RATIO: u64 = 6;

/// All archives of a split, by the device part they belong to.
#[derive(Debug)]
pub struct Siblings {
    archives: Vec<(usize, Weak<Archive>)>,
    /// Device parts of which an archive was asked for.
    asked: Mutex<BTreeSet<usize>>,
}

impl Siblings {
    /// Makes archives known to each other; each comes with the number of its device part.
    pub fn relate(archives: &[(usize, Arc<Archive>)]) {
        let known = archives.iter().map(|(part, archive)| (*part, Arc::downgrade(archive))).collect();
        let siblings = Arc::new(Self { archives: known, asked: Mutex::default() });
        for (_, archive) in archives {
            archive.join(&siblings);
        }
    }

    /// The archives to make together with one that is asked for; none if it should be made alone.
    pub(super) fn wanted_with(&self, archive: &Archive) -> Vec<Arc<Archive>> {
        let part = self.archives.iter().find(|(_, other)| std::ptr::eq(other.as_ptr(), archive)).map(|(part, _)| *part);
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.extend(part);
        if asked.len() < 2 {
            return Vec::new();
        }
        drop(asked);
        let all: Vec<_> = self.archives.iter().filter_map(|(_, archive)| archive.upgrade()).collect();
        let is_shared = archive.frames().any(|frame| frame.object.bundle.is_some());
        let room = archive.frames().next().map_or(0, |frame| frame.resources().frames.capacity());
        let size: u64 = all.iter().map(|archive| archive.original_size() / RATIO).sum();
        if is_shared && size <= room { all } else { Vec::new() }
    }
}
