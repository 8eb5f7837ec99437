//! rocSHMEM: bitcode of its device functions, which compilers link into kernels (ROCm/rocm-systems af6206cd,
//! `projects/rocshmem/cmake/DeviceBitcode.cmake`).

use super::arch::Arch;
use super::names::PathNames;
use crate::gpu::whole_arch;

/// `librocshmem_device_gfx942.bc`.
pub(super) fn detect(names: &PathNames) -> Option<Arch> {
    let arch = names.file().strip_prefix("librocshmem_device_")?.strip_suffix(".bc")?;
    whole_arch(arch).map(Arch::Target)
}
