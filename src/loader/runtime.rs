//! HIP runtimes.

use memchr::memmem;

/// Names in a runtime that reads archives: functions of the library `librocm_kpack`, or that library.
pub(crate) const NAMES_OF_READERS: [&[u8]; 2] = [b"kpack_load_code_object", b"librocm_kpack"];

/// The largest HIP runtime that is read, in bytes. That of ROCm 7 has 25 MB.
pub(crate) const MAX_RUNTIME: u64 = 256 << 20;

/// Whether a HIP runtime with these bytes reads archives.
pub(crate) fn reads_archives(bytes: &[u8]) -> bool {
    NAMES_OF_READERS.iter().any(|name| memmem::find(bytes, name).is_some())
}
