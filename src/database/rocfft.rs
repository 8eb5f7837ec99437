//! rocFFT: compiled kernels in an `SQLite` file for each GPU. Versions before 2026 have one file for all, which stays in the
//! host part.

use super::arch::Arch;
use super::names::PathNames;
use super::reader::{DatabaseReader, EmptyVariable};
use crate::gpu::whole_arch;

/// Next to the library, under the name by which it was loaded, and in a directory there. The variable names the file.
/// rocFFT compiles what it does not find.
pub(super) const READER: DatabaseReader = DatabaseReader {
    name: "rocFFT",
    libraries: &["rocfft"],
    variable: Some("ROCFFT_RTC_SYS_CACHE_PATH"),
    empty: EmptyVariable::Unset,
    searched: &["rocfft"],
    next_to: Some(CACHES),
    follows_links: false,
    is_optional: true,
    source: "ROCm/rocm-libraries 0a60a056, projects/rocfft/library/src/rtc_cache.cpp, rtccache_db_sys_paths",
};

/// How the names of caches begin.
pub const CACHES: &str = "rocfft_kernel_cache";

/// The name of the file for a processor.
pub fn cache_name(processor: &str) -> String {
    format!("{CACHES}_{processor}.db")
}

pub(super) fn detect(names: &PathNames) -> Option<Arch> {
    let arch = names.file().strip_prefix(CACHES)?.strip_prefix('_')?.strip_suffix(".db")?;
    whole_arch(arch).map(Arch::Target)
}
