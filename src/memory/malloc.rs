//! Settings of glibc's malloc, which keeps freed memory by default.

#[cfg(target_env = "gnu")]
use rustix::process::{Resource, getrlimit};

/// Allocations of at least this size are mapped one by one, so that freeing them returns them to the system. Without a
/// fixed threshold, glibc raises it to the size of what is freed, up to 32 MiB (mallopt(3)), and buffers for bundles
/// stay in the heap.
#[cfg(target_env = "gnu")]
const MAPPED: libc::c_int = 4 << 20;

/// Buffers of at least this size are mapped one by one; see [`MAPPED`].
const LARGE: usize = 4 << 20;

/// Alignment that madvise(2) requires. On systems with larger pages it refuses.
const SMALL_PAGE: usize = 4096;

/// Bytes kept at the heap's end, so that allocations which come and go do not cost a page fault each.
#[cfg(target_env = "gnu")]
const KEPT: libc::c_int = 16 << 20;

/// Each arena keeps free memory of its own, and few threads allocate at a time.
#[cfg(target_env = "gnu")]
const ARENAS: libc::c_int = 2;

/// Configures malloc for a program whose memory has a budget. Call it before any thread is started.
pub(crate) fn set_up_malloc() {
    #[cfg(target_env = "gnu")]
    {
        // Each arena reserves 64 MiB of address space (`HEAP_MAX_SIZE`), which may be limited (`ulimit -v`).
        let arenas = if getrlimit(Resource::As).current.is_some() { 1 } else { ARENAS };
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

/// An empty buffer with a capacity of `size` bytes. For a large one, huge pages are requested, each of which costs one
/// page fault instead of 512. The difference is a fifth of the time that reading one architecture of jax takes.
pub(super) fn buffer(size: usize) -> Vec<u8> {
    let mut buffer = Vec::<u8>::with_capacity(size);
    #[cfg(target_os = "linux")]
    if size >= LARGE {
        let start = buffer.as_mut_ptr();
        let skipped = start.align_offset(SMALL_PAGE).min(size);
        #[expect(unsafe_code, reason = "there is no safe interface to madvise for memory of the heap")]
        // SAFETY: the range is inside of the buffer, and the advice does not change its content. If it is refused,
        // small pages are used.
        unsafe {
            libc::madvise(start.add(skipped).cast(), size - skipped, libc::MADV_HUGEPAGE);
        }
    }
    buffer
}

/// Returns the free pages between allocations to the system. Evicted values of caches leave such pages: jax's wheel
/// took 250 MB more than its budget without this.
pub(super) fn trim_malloc() {
    #[cfg(target_env = "gnu")]
    #[expect(unsafe_code, reason = "there is no safe interface to it")]
    // SAFETY: it takes a number, locks what it inspects, and touches free memory only.
    unsafe {
        libc::malloc_trim(0);
    }
}
