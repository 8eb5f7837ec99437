//! The largest piece of memory that a test asked for.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// An allocator that records the largest piece of memory that each thread asked for.
pub(crate) struct Watch;

thread_local! {
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

#[global_allocator]
static WATCH: Watch = Watch;

/// The largest piece of memory that this thread asked for so far, in bytes.
pub(crate) fn largest_allocation() -> usize {
    LARGEST.get()
}

#[expect(unsafe_code, reason = "an allocator")]
// SAFETY: all methods forward to the system's allocator.
unsafe impl GlobalAlloc for Watch {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.set(LARGEST.get().max(layout.size()));
        // SAFETY: the caller follows the rules of `GlobalAlloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller follows the rules of `GlobalAlloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}
