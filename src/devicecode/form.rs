//! The forms of device code.

use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use crate::text::{NAMED, first_names};

/// A form of device code.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, IntoStaticStr, VariantArray,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "lowercase")]
pub enum DeviceForm {
    /// An offload bundle.
    Bundle,
    /// A compressed offload bundle.
    #[strum(serialize = "compressed bundle")]
    CompressedBundle,
    /// An AMDGPU ELF file.
    #[strum(serialize = "code object")]
    CodeObject,
    /// An LLVM offload binary.
    #[strum(serialize = "LLVM offload binary")]
    OffloadBinary,
    /// Code for NVIDIA's GPUs.
    #[strum(serialize = "NVIDIA's code")]
    NvidiaFatbin,
    /// An ELF file with code for one of NVIDIA's GPUs.
    #[strum(serialize = "NVIDIA's cubin")]
    NvidiaCubin,
    /// Code that SYCL and OpenMP compile for GPUs when they load it.
    #[strum(serialize = "SYCL's code")]
    Sycl,
    /// LLVM bitcode for AMD's GPUs (`-fgpu-rdc`), which a linker compiles.
    #[strum(serialize = "LLVM bitcode")]
    Bitcode,
    /// LLVM bitcode for a host, which compilers write with `-flto` in place of an object file.
    #[strum(serialize = "LLVM bitcode of a host")]
    HostBitcode,
    /// Wrappers of a split library whose archives are elsewhere.
    #[strum(serialize = "split library")]
    SplitMarker,
    /// An archive for split libraries, in an archive of the input, so that it is joined with none.
    #[strum(serialize = ".kpack archive")]
    Kpack,
    /// A database of kernels that were compiled at run time.
    #[strum(serialize = "kernel cache")]
    KernelCache,
    /// An xz file that is named as code.
    Xz,
    /// The same of bzip2.
    Bzip2,
    /// The same of lzma.
    Lzma,
    /// A packed program or library.
    #[strum(serialize = "packed by UPX")]
    Upx,
}

/// A compression around code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CodeFrame {
    /// A zstd frame (RFC 8878).
    Zstd,
    /// A gzip member (RFC 1952).
    Gzip,
}

/// Where code is in the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceCodePlace {
    /// Behind a wrapper of a program or a library.
    Wrapper,
    /// In the data of a program or a library, without a wrapper.
    Data,
    /// In bytes of a program or a library that are not loaded.
    Unloaded,
    /// In an object file or a static library.
    Object,
    /// It is a file.
    File,
}

/// How `SQLite` files begin (the file format of `SQLite`, 1.2).
pub const SQLITE: &[u8] = b"SQLite format 3\0";

impl DeviceForm {
    /// Its name in reports and in docs/forms.md.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// What it begins with, which is also found within other bytes; empty if another rule recognises it.
    pub fn magic(self) -> &'static [u8] {
        match self {
            // clang's documentation, "Clang Offload Bundler".
            Self::Bundle => b"__CLANG_OFFLOAD_BUNDLE__",
            // LLVM's CompressedOffloadBundle.
            Self::CompressedBundle => b"CCOB",
            // And e_machine is 224 (EM_AMDGPU): LLVM's "User Guide for AMDGPU Backend", "ELF Code Object".
            Self::CodeObject => b"\x7fELF",
            // LLVM's Object/OffloadBinary.h; in objects and data in the section .llvm.offloading.
            Self::OffloadBinary => b"\x10\xff\x10\xad",
            // With the version 1 and the size of this header, 16: FATBIN_MAGIC and fatBinaryHeader of CUDA's fatbinary.h. The
            // sections .nv_fatbin and __nv_relfatbin (nvcc) have nothing else.
            Self::NvidiaFatbin => b"\x50\xed\x55\xba\x01\0\x10\0",
            // The file is called rocfft_kernel_cache*.db (rocFFT's rtc_cache.cpp).
            Self::KernelCache => SQLITE,
            // These files are called *.hsaco.xz, *.co.bz2, *.fatbin.lzma and the like.
            Self::Xz => b"\xfd7zXZ\0",
            Self::Bzip2 => b"BZh",
            Self::Lzma => b"\x5d\0\0",
            // In the first or last bytes of a program or library (UPX's header.h, UPX_MAGIC_LE32).
            Self::Upx => b"UPX!",
            // Wrappers with the magic HIPK; an ELF file whose e_machine is 190 (EM_CUDA); the sections
            // __CLANG_OFFLOAD_BUNDLE__*-spir* (DPC++'s clang-offload-wrapper); bundles and offload binaries with nothing else, and
            // sections __CLANG_OFFLOAD_BUNDLE__*-amdgcn-* of objects; bitcode by its triple (devicecode/bitcode.rs);
            // archives by their names or directories (loader/archives.rs).
            Self::SplitMarker | Self::NvidiaCubin | Self::Sycl | Self::Bitcode | Self::HostBitcode | Self::Kpack => b"",
        }
    }

    /// Why it stays where it is, unless that depends on the place.
    pub fn stays(self) -> Option<&'static str> {
        match self {
            Self::Bundle | Self::CompressedBundle | Self::CodeObject | Self::OffloadBinary => None,
            Self::SplitMarker => Some("its archives are not in the input; name the device parts, too"),
            Self::Kpack => Some("in an archive: unpack that first, and its libraries with it"),
            Self::KernelCache => Some("what is in it for which GPU is not read"),
            Self::Xz | Self::Bzip2 | Self::Lzma => Some("it is not searched; unpack it, or compress it with zstd"),
            Self::Upx => Some("its content cannot be seen; unpack it with \"upx -d\""),
            Self::NvidiaFatbin | Self::NvidiaCubin => Some("it is for NVIDIA's GPUs"),
            Self::Sycl => Some("no HIP runtime loads it"),
            Self::HostBitcode => Some("it is not searched; link it, or compile it without -flto"),
            Self::Bitcode => Some("it was not linked: read by a linker, not by a HIP runtime"),
        }
    }

    /// Whether it is device code. Bitcode of a host may have some, which is not searched for.
    pub(crate) fn is_device_code(self) -> bool {
        self != Self::HostBitcode
    }

    /// Whether it is code for AMD's GPUs, or may have some.
    pub fn is_amd(self) -> bool {
        !matches!(self, Self::NvidiaFatbin | Self::NvidiaCubin | Self::Sycl)
    }
}

/// What is said of a split library whose archives are in an archive of the input, or outside of the one that it is in.
pub(crate) const UNJOINED: &str =
    "it is split, and not joined with .kpack archives, since it or they are packed: unpack first";

/// What is said of files of which none has code for AMD's GPUs. Each is named with its form.
pub(crate) fn foreign_code(named: &[String]) -> String {
    format!("device code, none of which is for AMD's GPUs: {}", first_names(named, NAMED, ", ", ","))
}

impl CodeFrame {
    /// All of them.
    pub(super) const ALL: [Self; 2] = [Self::Zstd, Self::Gzip];

    /// What it begins with. All gzip members use deflate.
    pub(super) fn magic(self) -> &'static [u8] {
        match self {
            Self::Zstd => b"\x28\xb5\x2f\xfd",
            Self::Gzip => b"\x1f\x8b\x08",
        }
    }

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Zstd => "zstd",
            Self::Gzip => "gzip",
        }
    }
}
