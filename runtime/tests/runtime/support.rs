//! Archives of any content, and what watches a test's memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

pub(crate) use crate::archives::{archive, around};

/// An archive with this table of contents.
pub(crate) fn with_toc(stored: &[u8], toc: &Value) -> Vec<u8> {
    around(stored, &rmp_serde::to_vec_named(toc).unwrap())
}

/// Remembers the largest piece of memory that anybody asked for.
pub(crate) struct Watch;

static LARGEST: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static WATCH: Watch = Watch;

/// The largest piece of memory that was asked for so far.
pub(crate) fn largest_allocation() -> usize {
    LARGEST.load(Ordering::Relaxed)
}

#[expect(unsafe_code, reason = "an allocator")]
// SAFETY: everything is done by the system's.
unsafe impl GlobalAlloc for Watch {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps to the rules.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps to the rules.
        unsafe { System.dealloc(pointer, layout) }
    }
}
