//! Views that are created when their names are looked up.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;

use super::stack::{Shown, View};

/// The first number of such views. Views of the layout have smaller ones.
pub(super) const FIRST: u32 = 1 << 24;

/// The most such views, since each lives as long as the tree.
const MAX_FOUND: usize = 256;

/// Creates views for names that a directory does not list.
pub trait Finder: Send + Sync + fmt::Debug {
    /// The view of this name, if there can be one. The result is the same at each call. Two names must not lead to one
    /// view that is listed.
    fn find(&self, name: &[u8]) -> Option<View>;
}

/// The views that were looked up.
#[derive(Debug, Default)]
pub(super) struct LookupCache(RwLock<HashMap<u32, Arc<Shown>>>);

impl LookupCache {
    /// The view of this number.
    pub(super) fn get(&self, number: u32) -> Option<Arc<Shown>> {
        self.0.read().get(&number).cloned()
    }

    /// The view named `name` in the directory `parent`, if it was looked up before.
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
                None if found.len() >= MAX_FOUND => return None,
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

/// Possible numbers for a view, the preferred one first. It is a hash of the name, so that numbers do not depend on the
/// order of lookups unless two hashes are equal.
fn numbers(parent: u32, name: &[u8]) -> impl Iterator<Item = u32> {
    let mut hash = crc32fast::Hasher::new_with_initial(parent);
    hash.update(name);
    let hash = hash.finalize();
    (0..FIRST).map(move |step| FIRST + (hash.wrapping_add(step) & (FIRST - 1)))
}
