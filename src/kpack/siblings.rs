//! Archives that are made of the same compressed bundles.
//!
//! Decompressing a bundle for one architecture after another costs as much each time. Who asks for a second architecture
//! is likely to ask for all, so then the code objects of all are compressed while the bundle is there, as far as there is
//! room to keep them.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::layout::Archive;

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
        for archive in &all {
            archive.recalled();
        }
        if is_worth_it(&all) { all } else { Vec::new() }
    }
}

/// Whether there are bundles to share, and room for what is made of them beside the bundles that are being decompressed.
fn is_worth_it(archives: &[Arc<Archive>]) -> bool {
    let frames = || archives.iter().flat_map(|archive| archive.frames());
    let Some(first) = frames().next() else { return false };
    let Some(largest) = frames().filter_map(|frame| Some(frame.object.bundle.as_ref()?.size())).max() else {
        return false;
    };
    let (resources, size) = (first.resources(), expected_size(archives));
    let working = largest.saturating_mul(rayon::current_num_threads() as u64);
    size <= resources.frames.capacity() && size.saturating_add(working) <= resources.budget.capacity() / 8 * 7
}

/// How large all archives will be, judged by those that were made, and a quarter more.
fn expected_size(archives: &[Arc<Archive>]) -> u64 {
    let original = archives.iter().map(|archive| archive.original_size()).sum::<u64>();
    let made =
        archives.iter().filter_map(|archive| Some((archive.lengths()?.iter().sum::<u64>(), archive.original_size())));
    let (compressed, of) = made.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    if of == 0 {
        original
    } else {
        u64::try_from(u128::from(original) * u128::from(compressed) * 5 / 4 / u128::from(of)).unwrap_or(u64::MAX)
    }
}
