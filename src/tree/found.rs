//! Views that are created when their names are looked up.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;

use lru::LruCache;

use super::stack::{Shown, View};

/// The first number of such views. Views of the layout have smaller ones.
pub(super) const FIRST: u32 = 1 << 24;

/// The most such views at a time. Beyond that, the one that was not used for the longest time is evicted. Its nodes are stale
/// then; the kernel looks its name up again.
const MAX_FOUND: NonZeroUsize = NonZeroUsize::new(256).unwrap();

/// Creates views for names that a directory does not list.
pub trait Finder: Send + Sync + fmt::Debug {
    /// The view of this name, if there can be one. The result is the same at each call. Two names must not lead to one
    /// view that is listed.
    fn find(&self, name: &[u8]) -> Option<View>;
}

/// The views that were looked up last.
#[derive(Debug)]
pub(super) struct LookupCache {
    pub(super) views: LruCache<u32, Arc<Shown>>,
    /// The next number, once a view was evicted. The kernel may keep what it knows of an evicted view, so its number is
    /// not given to another one.
    next: Option<u32>,
}

impl Default for LookupCache {
    fn default() -> Self {
        Self { views: LruCache::new(MAX_FOUND), next: None }
    }
}

impl LookupCache {
    /// Adds a view unless another thread has done so.
    pub(super) fn add(&mut self, parent: u32, name: &[u8], view: View) -> Option<Arc<Shown>> {
        if let Some(shown) = self.called(parent, name) {
            return Some(shown);
        }
        let number = self.number(parent, name)?;
        let shown = Arc::new(Shown::new(number, parent, name, view));
        self.views.push(number, Arc::clone(&shown));
        Some(shown)
    }

    /// The view named `name` in the directory `parent`, if it was looked up before.
    pub(super) fn called(&mut self, parent: u32, name: &[u8]) -> Option<Arc<Shown>> {
        let (&number, _) = self.views.iter().find(|(_, shown)| shown.parent == parent && *shown.name == *name)?;
        self.views.get(&number).cloned()
    }

    /// The number for a new view: a hash of its name, so that it does not depend on the order of lookups, or a new one as
    /// soon as views are evicted.
    fn number(&mut self, parent: u32, name: &[u8]) -> Option<u32> {
        if self.next.is_some() || self.views.len() >= MAX_FOUND.get() {
            let number = self.next.unwrap_or(2 * FIRST);
            self.next = Some(number.checked_add(1)?);
            return Some(number);
        }
        let mut hash = crc32fast::Hasher::new_with_initial(parent);
        hash.update(name);
        let hash = hash.finalize();
        let mut numbers = (0..FIRST).map(|step| FIRST + (hash.wrapping_add(step) & (FIRST - 1)));
        numbers.find(|number| !self.views.contains(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_never_means_another_view() {
        let mut cache = LookupCache::default();
        let add = |cache: &mut LookupCache, number: usize| {
            cache.add(7, number.to_string().as_bytes(), View::default()).unwrap().number
        };
        let first = add(&mut cache, 0);
        let kept = add(&mut cache, 1);
        let mut given: std::collections::HashSet<_> = [first, kept].into();
        for number in 2..1000 {
            assert!(given.insert(add(&mut cache, number)), "{number}");
            assert!(cache.views.get(&kept).is_some(), "it is used");
        }
        assert!(cache.views.get(&first).is_none() && cache.called(7, b"0").is_none(), "it is evicted");
        assert!(!given.contains(&add(&mut cache, 0)));
        assert_eq!(add(&mut cache, 1), kept);
        assert_eq!(cache.views.len(), MAX_FOUND.get());
    }
}
