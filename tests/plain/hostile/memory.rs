//! Counts the memory that a thread allocates. The allocations of libraries in C are not counted.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Watch;

thread_local! {
    static TAKEN: Cell<usize> = const { Cell::new(0) };
    static MOST: Cell<usize> = const { Cell::new(0) };
}

#[global_allocator]
static WATCH: Watch = Watch;

/// The peak of the bytes that `work` had allocated.
pub(crate) fn most_during(work: impl FnOnce()) -> usize {
    let before = TAKEN.get();
    MOST.set(before);
    work();
    MOST.get().saturating_sub(before)
}

#[expect(unsafe_code, reason = "an allocator")]
// SAFETY: all methods forward to the system's allocator.
unsafe impl GlobalAlloc for Watch {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let taken = TAKEN.get().saturating_add(layout.size());
        TAKEN.set(taken);
        MOST.set(MOST.get().max(taken));
        // SAFETY: the caller follows the rules of `GlobalAlloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        TAKEN.set(TAKEN.get().saturating_sub(layout.size()));
        // SAFETY: the caller follows the rules of `GlobalAlloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}
