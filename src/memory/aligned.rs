//! The allocator of the program, which does without glibc's aligned allocations.
//!
//! glibc cuts an aligned block out of a larger one and frees the rest of that (malloc.c of 2.36, `_int_memalign`). When the
//! block is freed, it is too small for the next request of the same size and alignment, as soon as something else has taken
//! what was next to it. So the heap grows with each request. zlib-rs aligns its states of up to 300 KiB to 64 bytes, and
//! makes one for each stream that it deflates: 300 small wheels took 700 MiB. Here a block keeps what it was cut out of.

use std::alloc::{GlobalAlloc, Layout, System};

/// The alignment of all blocks of malloc on 64-bit systems.
const ALIGN: usize = 16;

/// glibc's malloc, in which aligned blocks are parts of others.
#[derive(Clone, Copy, Debug)]
pub struct Malloc;

/// The block in which one of this layout is; `None` if malloc aligns it in any case.
fn around(layout: Layout) -> Option<Layout> {
    if layout.align() <= ALIGN {
        return None;
    }
    // The block begins at least `ALIGN` bytes behind the start, where the address of the start is stored.
    Layout::from_size_align(layout.size().checked_add(layout.align())?, ALIGN).ok()
}

/// Where the address of the start is stored: before an aligned block.
///
/// # Safety
///
/// `block` is that of [`inside`].
#[expect(unsafe_code, reason = "an allocator")]
#[expect(clippy::cast_ptr_alignment, reason = "the block is aligned to more than an address")]
unsafe fn before(block: *mut u8) -> *mut *mut u8 {
    // SAFETY: there are at least `ALIGN` bytes before the block.
    unsafe { block.cast::<*mut u8>().sub(1) }
}

/// The aligned block in the one at `start`, which may be null.
///
/// # Safety
///
/// `start` is that of an allocation of [`around`] this layout.
#[expect(unsafe_code, reason = "an allocator")]
unsafe fn inside(start: *mut u8, layout: Layout) -> *mut u8 {
    if start.is_null() {
        return start;
    }
    let skipped = layout.align() - start.addr() % layout.align();
    // SAFETY: at least `ALIGN` and at most `layout.align()` bytes are skipped, so the block and the address before it are
    // inside of the allocation.
    unsafe {
        let block = start.add(skipped);
        before(block).write(start);
        block
    }
}

#[expect(unsafe_code, reason = "an allocator")]
// SAFETY: it forwards to the system's allocator, for `around(layout)` where there is one, in which `inside` finds an aligned
// block of the layout's size.
unsafe impl GlobalAlloc for Malloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller follows the rules of `GlobalAlloc`.
        unsafe {
            match around(layout) {
                None => System.alloc(layout),
                Some(wide) => inside(System.alloc(wide), layout),
            }
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above. The address of the start is before the block.
        unsafe {
            match around(layout) {
                None => System.alloc_zeroed(layout),
                Some(wide) => inside(System.alloc_zeroed(wide), layout),
            }
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the block was allocated here with this layout, so the address of its start is before it.
        unsafe {
            match around(layout) {
                None => System.dealloc(block, layout),
                Some(wide) => System.dealloc(before(block).read(), wide),
            }
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller follows the rules of `GlobalAlloc`. An aligned block is copied, since its distance to the start
        // may change.
        unsafe {
            if around(layout).is_none() {
                return System.realloc(block, layout, size);
            }
            let new = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !new.is_null() {
                block.copy_to_nonoverlapping(new, layout.size().min(size));
                self.dealloc(block, layout);
            }
            new
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(unsafe_code, reason = "an allocator")]
    fn blocks_are_aligned_and_keep_their_bytes() {
        for align in [1, 8, 16, 32, 64, 4096] {
            for size in [1, 100, 5000, 300_000] {
                let layout = Layout::from_size_align(size, align).unwrap();
                // SAFETY: all blocks have this layout, and no byte outside of one is accessed.
                unsafe {
                    let block = Malloc.alloc_zeroed(layout);
                    assert_eq!(block.addr() % align, 0);
                    assert!(std::slice::from_raw_parts(block, size).iter().all(|byte| *byte == 0));
                    block.write_bytes(7, size);
                    let other = Malloc.alloc(layout);
                    other.write_bytes(8, size);
                    let larger = Malloc.realloc(block, layout, 2 * size);
                    assert_eq!(larger.addr() % align, 0);
                    assert!(std::slice::from_raw_parts(larger, size).iter().all(|byte| *byte == 7));
                    Malloc.dealloc(larger, Layout::from_size_align(2 * size, align).unwrap());
                    assert!(std::slice::from_raw_parts(other, size).iter().all(|byte| *byte == 8));
                    Malloc.dealloc(other, layout);
                }
            }
        }
    }
}
