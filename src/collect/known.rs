//! What libraries of ROCm load by name, and the files that they open: nothing in the libraries' headers says so.

/// How much a library needs what it loads by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// It does not work without it.
    Required,
    /// It is taken if a tree has it. Some builds, or some functions, do without it.
    Optional,
}

/// A row of the table.
pub(super) struct Known {
    /// The library, without `lib`, suffix and version.
    pub(super) library: &'static str,
    /// What it loads or opens.
    pub(super) what: KnownPiece,
    pub(super) need: Need,
    /// Where this is known from: a repository and a file in it.
    pub(super) source: &'static str,
}

/// What a library loads or opens.
pub(super) enum KnownPiece {
    /// A library, as in [`Known::library`], which `dlopen` gets by its soname.
    Library(&'static str),
    /// Like `Library`, under a name without a version.
    Unversioned(&'static str),
    /// A library for each GPU, `NAME_gfx1100`.
    LibraryOfGpu(&'static str),
    /// Files below a directory, relative to the directory of the library. The first of these that exists.
    Directory(&'static [&'static str]),
    /// Files that begin so, relative to the directory of the library.
    Files(&'static str),
}

use KnownPiece::{Directory, Files, Library, LibraryOfGpu, Unversioned};
use Need::{Optional, Required};

const fn row(library: &'static str, what: KnownPiece, need: Need, source: &'static str) -> Known {
    Known { library, what, need, source }
}

/// The table. Libraries that a file needs by `DT_NEEDED` have no row.
pub(super) const KNOWN: [Known; 31] = [
    row(
        "hiprtc",
        Library("hiprtc-builtins"),
        Required,
        "ROCm/rocm-systems projects/clr/hipamd/src/hiprtc/hiprtcInternal.cpp",
    ),
    row("amdhip64", Library("amd_comgr"), Required, "ROCm/rocm-systems projects/clr/rocclr/device/comgrctx.cpp"),
    row(
        "amdhip64",
        Library("hsa-runtime64"),
        Optional,
        "ROCm/rocm-systems projects/clr/rocclr/device/rocm/rocrctx.cpp",
    ),
    row("amdhip64", Library("rocm_kpack"), Optional, "ROCm/rocm-systems shared/kpack/runtime"),
    row(
        "amdhip64",
        Library("hiprtc-builtins"),
        Optional,
        "ROCm/rocm-systems projects/clr/hipamd/src/hiprtc/CMakeLists.txt",
    ),
    row(
        "hsa-runtime64",
        Unversioned("hsa-amd-aqlprofile64"),
        Optional,
        "ROCm/rocm-systems projects/rocr-runtime/runtime/hsa-runtime/core/inc/amd_gpu_agent.h",
    ),
    row("rocsolver", Library("rocsparse"), Optional, "ROCm/rocSOLVER library/src/common/rocsparse.cpp"),
    row("hipsolver", Library("rocsparse"), Optional, "ROCm/hipSOLVER library/src/amd_detail/hipsolver_refactor.cpp"),
    row("hipsolver", Library("cholmod"), Optional, "ROCm/hipSOLVER library/src/amd_detail/dlopen/cholmod.cpp"),
    row(
        "hipsolver",
        Library("suitesparseconfig"),
        Optional,
        "ROCm/hipSOLVER library/src/amd_detail/dlopen/cholmod.cpp",
    ),
    row(
        "rocblas",
        Directory(&["rocblas/library", "../lib/rocblas/library"]),
        Required,
        "ROCm/rocBLAS library/src/tensile_host.cpp",
    ),
    row("rocblas", Library("hipblaslt"), Optional, "ROCm/rocBLAS library/src/hipblaslt_host.cpp"),
    row(
        "hipblaslt",
        Directory(&["hipblaslt/library", "../lib/hipblaslt/library"]),
        Required,
        "ROCm/hipBLASLt library/src/amd_detail/rocblaslt/src/tensile_host.cpp",
    ),
    row("hipblaslt", Directory(&["../share/hipblaslt"]), Optional, "zml/zml platforms/rocm/rocm.bzl"),
    row("hipblaslt", Library("tensilelite-host"), Optional, "lemonade-sdk/llamacpp-rocm#146"),
    row("hipblaslt", Library("origami"), Optional, "AMD-Ecosystem/llama.cpp#68"),
    row("hipblaslt", Library("rocroller"), Optional, "zml/zml platforms/rocm/rocm.bzl"),
    row(
        "hipsparselt",
        Directory(&["hipsparselt/library", "../lib/hipsparselt/library"]),
        Required,
        "ROCm/hipSPARSELt library/src/hcc_detail/rocsparselt/src/tensile_host.cpp",
    ),
    row("MIOpen", Directory(&["../share/miopen"]), Required, "ROCm/MIOpen src/db_path.cpp.in"),
    row(
        "MIOpen",
        LibraryOfGpu("MIOpenCKGroupedConv"),
        Optional,
        "ROCm/rocm-libraries projects/miopen/src/include/miopen/solver/ck_grouped_conv_interface.hpp",
    ),
    row("hipdnn_backend", Directory(&["hipdnn_plugins"]), Optional, "ROCm/hipDNN docs: HIPDNN_PLUGIN_DIR"),
    row("rocfft", Files("rocfft_kernel_cache"), Optional, "ROCm/rocFFT library/src/rtc_cache.cpp"),
    row("rocfft", Directory(&["rocfft"]), Optional, "ROCm/rocFFT library/src/rtc_subprocess.cpp"),
    row(
        "rccl",
        Directory(&["../share/rccl", "msccl-algorithms"]),
        Optional,
        "ROCm/rccl src/misc/msccl/msccl_lifecycle.cc",
    ),
    row("rccl", Unversioned("rccl-net"), Optional, "ROCm/rccl src/plugin/net.cc"),
    row("rccl", Unversioned("rccl-tuner"), Optional, "ROCm/rccl src/plugin/tuner.cc"),
    row("rccl", Unversioned("rccl-profiler"), Optional, "ROCm/rccl src/plugin/profiler.cc"),
    row("aotriton_v2", Directory(&["aotriton.images"]), Required, "ROCm/aotriton v2src/packed_kernel.cc"),
    row(
        "rocm_sysdeps_drm_amdgpu",
        Directory(&["../share/libdrm"]),
        Optional,
        "ROCm/TheRock third-party/sysdeps/linux/libdrm",
    ),
    row("migraphx", Unversioned("migraphx_gpu"), Optional, "ROCm/AMDMIGraphX src/register_target.cpp"),
    row("hipblas", Library("rocsolver"), Optional, "ROCm/hipBLAS library/src/amd_detail"),
];

/// A library's name without `lib`, suffix and version: `rocblas` of `librocblas.so.5`, `amdhip64` of `amdhip64_7.dll`,
/// `hiprtc-builtins` of `hiprtc-builtins0701.dll`.
pub(super) fn stem(name: &[u8]) -> Option<&str> {
    let name = std::str::from_utf8(name).ok()?;
    if let Some(at) = name.find(".so") {
        return name.get(..at)?.strip_prefix("lib");
    }
    let name = name.strip_suffix(".dll").or_else(|| name.strip_suffix(".DLL"))?;
    let name = name.strip_prefix("lib").unwrap_or(name);
    // Names that end in digits of their own, such as amdhip64, are those of rows.
    let is_row = |name: &str| KNOWN.iter().any(|row| row.library == name || row.library_name() == Some(name));
    let shorter = name.trim_end_matches(|it: char| it.is_ascii_digit()).trim_end_matches('_');
    let with_own = name.split_once('_').map_or(name, |(name, _)| name);
    Some(if is_row(name) {
        name
    } else if is_row(with_own) {
        with_own
    } else {
        shorter
    })
}

impl Known {
    /// The library that it loads.
    pub(super) fn library_name(&self) -> Option<&'static str> {
        match self.what {
            Library(name) | Unversioned(name) | LibraryOfGpu(name) => Some(name),
            Directory(_) | Files(_) => None,
        }
    }

    /// The rows of a library.
    pub(super) fn of(name: &[u8]) -> impl Iterator<Item = &'static Self> {
        let stem = stem(name).map(str::to_owned);
        KNOWN.iter().filter(move |row| stem.as_deref() == Some(row.library))
    }
}

#[cfg(test)]
mod tests {
    use super::{KNOWN, stem};

    #[test]
    fn names_of_libraries() {
        for (name, expected) in [
            ("librocblas.so", Some("rocblas")),
            ("libamdhip64.so.7.1.0", Some("amdhip64")),
            ("amdhip64_7.dll", Some("amdhip64")),
            ("amd_comgr0701.dll", Some("amd_comgr")),
            ("hiprtc-builtins0701.dll", Some("hiprtc-builtins")),
            ("rocblas.dll", Some("rocblas")),
            ("libMIOpenCKGroupedConv_gfx1100.so", Some("MIOpenCKGroupedConv_gfx1100")),
            ("x.so", None),
            ("libx.a", None),
        ] {
            assert_eq!(stem(name.as_bytes()), expected, "{name}");
        }
    }

    #[test]
    fn each_row_has_a_source() {
        assert!(
            KNOWN.iter().all(|row| row.source.contains('/')
                && stem(format!("lib{}.so", row.library).as_bytes()) == Some(row.library))
        );
    }
}
