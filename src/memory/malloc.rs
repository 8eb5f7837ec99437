//! What glibc's malloc does with memory that is freed: it keeps it, unless told otherwise.

#[cfg(target_env = "gnu")]
use rustix::process::{Resource, getrlimit};

/// Allocations of so many bytes are mapped one by one, so that freeing them gives them back. Without a fixed number glibc
/// raises it to the size of what is freed, up to 32 MiB (mallopt(3)), and buffers for bundles stay in the heap.
#[cfg(target_env = "gnu")]
const MAPPED: libc::c_int = 4 << 20;

/// Buffers from this size on are mapped one by one; see [`MAPPED`].
const LARGE: usize = 4 << 20;

/// What madvise(2) wants addresses to be multiples of; with larger pages it refuses.
const SMALL_PAGE: usize = 4096;

/// What is freed at the heap's end is kept up to this, so that chunks which come and go do not cost a page fault each.
#[cfg(target_env = "gnu")]
const KEPT: libc::c_int = 16 << 20;

/// Each arena keeps free memory of its own. Few threads allocate at a time.
#[cfg(target_env = "gnu")]
const ARENAS: libc::c_int = 2;

/// Sets malloc up for a program whose memory has a budget. To be called before there are threads.
pub(crate) fn set_up_malloc() {
    #[cfg(target_env = "gnu")]
    {
        // Each arena reserves 64 MiB of address space (`HEAP_MAX_SIZE`).
        let arenas = if is_address_space_limited() { 1 } else { ARENAS };
        for (parameter, value) in
            [(libc::M_MMAP_THRESHOLD, MAPPED), (libc::M_TRIM_THRESHOLD, KEPT), (libc::M_ARENA_MAX, arenas)]
        {
            #[expect(unsafe_code, reason = "there is no safe interface to malloc's parameters")]
            // SAFETY: it takes two numbers, and no other thread allocates yet. If it refuses, nothing changes.
            unsafe {
                libc::mallopt(parameter, value);
            }
        }
    }
}

/// Whether there is a limit as `ulimit -v` sets it.
#[cfg(target_env = "gnu")]
fn is_address_space_limited() -> bool {
    getrlimit(Resource::As).current.is_some()
}

/// An empty buffer for `size` bytes. A large one is asked for in large pages, each of which costs one page fault instead of
/// 512. That is a fifth of the time that one architecture of jax takes.
pub(super) fn buffer(size: usize) -> Vec<u8> {
    let mut buffer = Vec::<u8>::with_capacity(size);
    #[cfg(target_os = "linux")]
    if size >= LARGE {
        let start = buffer.as_mut_ptr();
        let skipped = start.align_offset(SMALL_PAGE).min(size);
        #[expect(unsafe_code, reason = "there is no safe interface to madvise for memory of the heap")]
        // SAFETY: the range is inside of the buffer, and the advice changes nothing that is in it. If it is refused, the
        // pages are small.
        unsafe {
            libc::madvise(start.add(skipped).cast(), size - skipped, libc::MADV_HUGEPAGE);
        }
    }
    buffer
}

/// Gives the system the free pages between what is still in use. What caches gave up is of that kind: jax's wheel took
/// 250 MB more than its budget without this.
pub(super) fn trim_malloc() {
    #[cfg(target_env = "gnu")]
    #[expect(unsafe_code, reason = "there is no safe interface to it")]
    // SAFETY: it takes a number, locks what it looks at, and touches free memory only.
    unsafe {
        libc::malloc_trim(0);
    }
}
