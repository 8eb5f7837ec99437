//! The bundles of a joined binary, and which wrappers share one.
//!
//! Archives have an entry for each wrapper. Wrappers that led to one bundle have entries with one ordinal in every archive
//! (`kpack::ArchiveRope`). So wrappers share a bundle if they have code for the same targets, at the same places of the
//! archives. Equal code at different places stays apart, because HIP has a module for each bundle (`hip_fatbin.cpp` of
//! CLR), and so device variables.

use std::collections::HashMap;
use std::sync::Arc;

use crate::fatbin::CodeObject;
use crate::gpu::TargetId;

/// The bundles of a binary.
#[derive(Default)]
pub(super) struct JoinedBundles {
    /// The code objects of each bundle, in the order of the first wrappers that lead to them.
    pub(super) list: Vec<Vec<CodeObject>>,
    /// For each wrapper, the number of its bundle.
    pub(super) wrappers: Vec<usize>,
    /// The numbers of bundles with code, by the targets and the addresses of the contents.
    known: HashMap<Vec<(TargetId, usize)>, usize>,
}

impl JoinedBundles {
    /// Adds the next wrapper, which leads to these code objects. Nothing shows whether wrappers without code shared a
    /// bundle.
    pub(super) fn add(&mut self, objects: Vec<CodeObject>) {
        let new = self.list.len();
        // Code objects at one place of an archive share their content, which the list keeps.
        let place = |object: &CodeObject| (object.target.clone(), Arc::as_ptr(&object.content).addr());
        let number = if objects.iter().all(|object| object.content.size() == 0) {
            new
        } else {
            *self.known.entry(objects.iter().map(place).collect()).or_insert(new)
        };
        if number == new {
            self.list.push(objects);
        }
        self.wrappers.push(number);
    }
}
