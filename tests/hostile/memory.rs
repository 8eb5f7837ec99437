//! What memory a piece of work takes on its thread. Libraries in C have theirs from elsewhere.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Watch;

thread_local! {
    static TAKEN: Cell<usize> = const { Cell::new(0) };
    static MOST: Cell<usize> = const { Cell::new(0) };
}

#[global_allocator]
static WATCH: Watch = Watch;

/// The most bytes that `work` had at any time.
pub(crate) fn most_during(work: impl FnOnce()) -> usize {
    let before = TAKEN.get();
    MOST.set(before);
    work();
    MOST.get().saturating_sub(before)
}

#[expect(unsafe_code, reason = "an allocator")]
// SAFETY: everything is done by the system's.
unsafe impl GlobalAlloc for Watch {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let taken = TAKEN.get().saturating_add(layout.size());
        TAKEN.set(taken);
        MOST.set(MOST.get().max(taken));
        // SAFETY: the caller keeps to the rules.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        TAKEN.set(TAKEN.get().saturating_sub(layout.size()));
        // SAFETY: the caller keeps to the rules.
        unsafe { System.dealloc(pointer, layout) }
    }
}
