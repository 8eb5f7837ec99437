//! What libraries of ROCm load by name, and the files that they open: nothing in the libraries' headers says so.
//!
//! A library that another one links has no row, since the headers say it: those of hipBLASLt (origami, rocRoller,
//! tensilelite-host), rocSOLVER of hipBLAS, hipBLASLt of rocBLAS. Databases of kernels have none either:
//! [`DatabaseReader`] has their places.

use crate::database::{DatabaseReader, Handler};

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
    /// Like `Library`, under a name without a version. Packages without files for developers often lack that link.
    Unversioned(&'static str),
    /// A library for each GPU, `NAME_gfx1100`.
    LibraryOfGpu(&'static str),
    /// Files below a directory, relative to the directory of the library, and what programs and libraries there need. The
    /// first of these that exists.
    Directory(&'static [&'static str]),
    /// Files that begin so, relative to the directory of the library, and what they need.
    Files(&'static str),
}

use KnownPiece::{Directory, Files, Library, LibraryOfGpu, Unversioned};

/// The row of what a library may do without.
const fn row(library: &'static str, what: KnownPiece, source: &'static str) -> Known {
    Known { library, what, need: Need::Optional, source }
}

/// Where Open Image Denoise loads its modules, and which ones (`Context::init` of core/context.h).
const OIDN: &str = "RenderKit/oidn 0f393eca core/module.cpp, ModuleLoader::load";
/// Where ggml loads its backends.
const GGML: &str = "ggml-org/llama.cpp f5eee972 ggml/src/ggml-backend-reg.cpp, ggml_backend_load_best";

/// The same with the `GGML_BACKEND_DIR` of Debian's package ggml 0.27.0.
const GGML_DEBIAN: &str = "ggml-org/llama.cpp f5eee972 ggml/src/ggml-backend-reg.cpp, GGML_BACKEND_DIR of Debian";

/// The table. Each source was read; what it says is in the comment if the name alone does not.
pub(super) const KNOWN: [Known; 29] = [
    // Without `--offload-arch` it asks the runtime for the GPU (`RTCProgram::findIsa`).
    row("hiprtc", Unversioned("amdhip64"), "ROCm/clr hipamd/src/hiprtc/hiprtcInternal.cpp"),
    // It is built and installed with hiprtc, which contains the same headers: nothing in these sources loads it.
    row("hiprtc", Library("hiprtc-builtins"), "ROCm/rocm-systems projects/clr/hipamd/src/hiprtc/CMakeLists.txt"),
    Known {
        need: Need::Required,
        ..row("amdhip64", Library("amd_comgr"), "ROCm/rocm-systems projects/clr/rocclr/device/comgrctx.cpp")
    },
    // Builds with ROCR_DYN_DLL; others link it.
    row("amdhip64", Library("hsa-runtime64"), "ROCm/rocm-systems projects/clr/rocclr/device/rocm/rocrctx.cpp"),
    // A run-time dependency of hip-clr.
    row("amdhip64", Library("rocm_kpack"), "ROCm/TheRock core/CMakeLists.txt"),
    // Profilers need it.
    row(
        "hsa-runtime64",
        Unversioned("hsa-amd-aqlprofile64"),
        "ROCm/rocm-systems projects/rocr-runtime/runtime/hsa-runtime/inc/hsa_ven_amd_aqlprofile.h",
    ),
    // Functions of refactorization, as in hipSOLVER.
    row("rocsolver", Library("rocsparse"), "ROCm/rocSOLVER library/src/refact/rocsolver_rfinfo.cpp"),
    row("hipsolver", Library("rocsparse"), "ROCm/hipSOLVER library/src/amd_detail/dlopen/rocsparse.cpp"),
    row("hipsolver", Library("cholmod"), "ROCm/hipSOLVER library/src/amd_detail/dlopen/cholmod.cpp"),
    row(
        "MIOpen",
        LibraryOfGpu("MIOpenCKGroupedConv"),
        "ROCm/rocm-libraries projects/miopen/src/solver/ck_grouped_conv_lib_loader.cpp",
    ),
    row(
        "hipdnn_backend",
        Directory(&["hipdnn_plugins"]),
        "ROCm/rocm-libraries projects/hipdnn/backend/src/plugin/EnginePluginManager.hpp",
    ),
    // Next to the library, or in a directory of its own.
    row("rocfft", Files("rocfft_rtc_helper"), "ROCm/rocFFT library/src/rtc_subprocess.cpp"),
    row("rocfft", Files("rocfft/rocfft_rtc_helper"), "ROCm/rocFFT library/src/rtc_subprocess.cpp"),
    // Names of modules are put together: the prefix, `device_` and the kind of device, and the version. Those for devices of
    // others need libraries of others.
    row("OpenImageDenoise_core", Files("libOpenImageDenoise_device_cpu.so"), OIDN),
    row("OpenImageDenoise_core", Files("libOpenImageDenoise_device_hip.so"), OIDN),
    row("OpenImageDenoise_core", Files("OpenImageDenoise_device_cpu.dll"), OIDN),
    row("OpenImageDenoise_core", Files("OpenImageDenoise_device_hip.dll"), OIDN),
    // All files whose names begin so are tried, for CPUs of each kind. Debian has them in a directory of its own.
    row("ggml", Files("libggml-cpu"), GGML),
    row("ggml", Files("libggml-hip"), GGML),
    row("ggml", Files("ggml/backends0/libggml-cpu"), GGML_DEBIAN),
    row("ggml", Files("ggml/backends0/libggml-hip"), GGML_DEBIAN),
    // Communicators end with ncclSystemError without it.
    row("rccl", Unversioned("hsa-runtime64"), "ROCm/rocm-systems projects/rccl/src/misc/rocmwrap.cc"),
    row(
        "rccl",
        Directory(&["msccl-algorithms", "../share/rccl/msccl-algorithms"]),
        "ROCm/rccl src/misc/msccl/msccl_lifecycle.cc",
    ),
    row("rccl", Unversioned("msccl-scheduler"), "ROCm/rccl src/misc/msccl/msccl_lifecycle.cc"),
    row("rccl", Unversioned("rccl-net"), "ROCm/rocm-systems projects/rccl/src/plugin/plugin_open.cc"),
    row("rccl", Unversioned("nccl-tuner"), "ROCm/rocm-systems projects/rccl/src/plugin/plugin_open.cc"),
    row("rccl", Unversioned("nccl-profiler"), "ROCm/rocm-systems projects/rccl/src/plugin/plugin_open.cc"),
    row("rccl", Unversioned("rccl-tuner"), "ROCm/rccl src/misc/tuner.cc"),
    // By the name with its major version first.
    row("migraphx", Library("migraphx_gpu"), "ROCm/AMDMIGraphX src/register_target.cpp"),
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
    let is_row = |name: &str| {
        let is_named = KNOWN.iter().any(|row| row.library == name || row.library_name() == Some(name));
        is_named || readers().any(|reader| reader.libraries.contains(&name))
    };
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

fn readers() -> impl Iterator<Item = &'static DatabaseReader> {
    Handler::ALL.iter().filter_map(|handler| handler.reader())
}

/// Where a library with this file name has its databases.
pub(super) fn database_of(name: &[u8]) -> Option<&'static DatabaseReader> {
    let stem = stem(name)?;
    readers().find(|reader| reader.libraries.contains(&stem))
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
        let is_dll = name.to_ascii_lowercase().ends_with(b".dll");
        // Names of modules are those of one system.
        let is_here = move |row: &&Self| match row.what {
            Files(begin) => !begin.ends_with(if is_dll { ".so" } else { ".dll" }),
            _ => true,
        };
        KNOWN.iter().filter(move |row| stem.as_deref() == Some(row.library)).filter(is_here)
    }
}

#[cfg(test)]
mod tests {
    use super::{KNOWN, stem};

    #[test]
    fn names_of_libraries() {
        for (name, expected) in [
            ("librocblas.so", Some("rocblas")),
            ("aotriton_v2.dll", Some("aotriton_v2")),
            ("libhipblaslt.dll", Some("hipblaslt")),
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
