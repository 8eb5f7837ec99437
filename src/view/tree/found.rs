//! Views that come into being when they are looked up by name.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;

use super::stack::{Shown, View};

/// Numbers of views that are found begin here; those that are laid out have smaller ones.
pub(super) const FIRST: u32 = 1 << 24;

/// Views that are found at most, since each lives as long as the tree.
const MOST: usize = 256;

/// Makes views for names that a directory does not list.
pub trait Finder: Send + Sync + fmt::Debug {
    /// The view of this name, if there can be one; the same each time. No two names may be for one view that can be listed.
    fn find(&self, name: &[u8]) -> Option<View>;
}

/// The views that were found.
#[derive(Debug, Default)]
pub(super) struct LookupCache(RwLock<HashMap<u32, Arc<Shown>>>);

impl LookupCache {
    /// The view of this number.
    pub(super) fn get(&self, number: u32) -> Option<Arc<Shown>> {
        self.0.read().get(&number).cloned()
    }

    /// The view called `name` in the directory `parent`, if it was found before.
    pub(super) fn called(&self, parent: u32, name: &[u8]) -> Option<Arc<Shown>> {
        let found = self.0.read();
        let known = numbers(parent, name).map_while(|number| found.get(&number));
        known.into_iter().find(|shown| shown.parent == parent && *shown.name == *name).cloned()
    }

    /// Adds a view unless another thread has done so.
    pub(super) fn add(&self, parent: u32, name: &[u8], view: View) -> Option<Arc<Shown>> {
        let mut found = self.0.write();
        for number in numbers(parent, name) {
            match found.get(&number) {
                Some(shown) if shown.parent == parent && *shown.name == *name => return Some(Arc::clone(shown)),
                Some(_) => {}
                None if found.len() >= MOST => return None,
                None => {
                    let shown = Arc::new(Shown::new(number, parent, name, view));
                    found.insert(number, Arc::clone(&shown));
                    return Some(shown);
                }
            }
        }
        None
    }
}

/// The numbers that a view can have, the preferred one first: a hash of the name, so that the order of lookups does not
/// matter unless two hashes are equal.
fn numbers(parent: u32, name: &[u8]) -> impl Iterator<Item = u32> {
    let mut hash = crc32fast::Hasher::new_with_initial(parent);
    hash.update(name);
    let hash = hash.finalize();
    (0..FIRST).map(move |step| FIRST + (hash.wrapping_add(step) & (FIRST - 1)))
}
