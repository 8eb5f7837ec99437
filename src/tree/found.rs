//! Views that are created when their names are looked up.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;

use lru::LruCache;
use parking_lot::Mutex;

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
pub(super) struct LookupCache(Mutex<LookedUp>);

#[derive(Debug)]
struct LookedUp {
    views: LruCache<u32, Arc<Shown>>,
    /// The next number, once a view was evicted. The kernel may keep what it knows of an evicted view, so its number is
    /// not given to another one.
    next: Option<u32>,
}

impl Default for LookupCache {
    fn default() -> Self {
        Self(Mutex::new(LookedUp { views: LruCache::new(MAX_FOUND), next: None }))
    }
}

impl LookupCache {
    /// The view of this number.
    pub(super) fn get(&self, number: u32) -> Option<Arc<Shown>> {
        self.0.lock().views.get(&number).cloned()
    }

    /// The view named `name` in the directory `parent`, if it was looked up before.
    pub(super) fn called(&self, parent: u32, name: &[u8]) -> Option<Arc<Shown>> {
        self.0.lock().called(parent, name)
    }

    /// Adds a view unless another thread has done so.
    pub(super) fn add(&self, parent: u32, name: &[u8], view: View) -> Option<Arc<Shown>> {
        let mut found = self.0.lock();
        if let Some(shown) = found.called(parent, name) {
            return Some(shown);
        }
        let number = found.number(parent, name)?;
        let shown = Arc::new(Shown::new(number, parent, name, view));
        found.views.push(number, Arc::clone(&shown));
        Some(shown)
    }
}

impl LookedUp {
    fn called(&mut self, parent: u32, name: &[u8]) -> Option<Arc<Shown>> {
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
        let cache = LookupCache::default();
        let add = |number: usize| cache.add(7, number.to_string().as_bytes(), View::default()).unwrap().number;
        let first = add(0);
        let kept = add(1);
        let mut given: std::collections::HashSet<_> = [first, kept].into();
        for number in 2..1000 {
            assert!(given.insert(add(number)), "{number}");
            assert!(cache.get(kept).is_some(), "it is used");
        }
        assert!(cache.get(first).is_none() && cache.called(7, b"0").is_none(), "it is evicted");
        assert!(!given.contains(&add(0)));
        assert_eq!(add(1), kept);
        assert_eq!(cache.0.lock().views.len(), MAX_FOUND.get());
    }
}
