//! The table of forms.

use serde::{Deserialize, Serialize};

/// A form of device code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceForm {
    /// An offload bundle.
    Bundle,
    /// A compressed offload bundle.
    CompressedBundle,
    /// An AMDGPU ELF file.
    CodeObject,
    /// An LLVM offload binary.
    OffloadBinary,
    /// Wrappers of a split library whose archives are elsewhere.
    SplitMarker,
    /// A database of kernels that were compiled at run time.
    KernelCache,
    /// A compressed file that is named as code.
    Xz,
    /// A packed program or library.
    Upx,
    /// Code for NVIDIA's GPUs.
    NvidiaFatbin,
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
    /// In an object file or a static library.
    Object,
    /// It is a file.
    File,
}

/// A row of the table.
#[derive(Debug)]
pub struct DeviceFormRow {
    /// The form.
    pub form: DeviceForm,
    /// Its name in reports.
    pub name: &'static str,
    /// What it begins with; empty if another rule recognises it.
    pub magic: &'static [u8],
    /// The rule in words, and the source of the fact.
    pub rule: &'static str,
    /// Why it stays where it is, unless that depends on the place.
    pub stays: Option<&'static str>,
}

/// How `SQLite` files begin (the file format of `SQLite`, 1.2).
pub const SQLITE: &[u8] = b"SQLite format 3\0";

/// The forms in the order in which they are looked for.
pub const FORMS: [DeviceFormRow; 9] = [
    DeviceFormRow {
        form: DeviceForm::Bundle,
        name: "bundle",
        magic: b"__CLANG_OFFLOAD_BUNDLE__",
        rule: "clang's documentation, \"Clang Offload Bundler\"",
        stays: None,
    },
    DeviceFormRow {
        form: DeviceForm::CompressedBundle,
        name: "compressed bundle",
        magic: b"CCOB",
        rule: "LLVM's CompressedOffloadBundle",
        stays: None,
    },
    DeviceFormRow {
        form: DeviceForm::CodeObject,
        name: "code object",
        magic: b"\x7fELF",
        rule: "e_machine 224 (EM_AMDGPU): LLVM's \"User Guide for AMDGPU Backend\", \"ELF Code Object\"",
        stays: None,
    },
    DeviceFormRow {
        form: DeviceForm::OffloadBinary,
        name: "LLVM offload binary",
        magic: b"\x10\xff\x10\xad",
        rule: "LLVM's Object/OffloadBinary.h; in objects and data in the section .llvm.offloading",
        stays: None,
    },
    DeviceFormRow {
        form: DeviceForm::SplitMarker,
        name: "split library",
        magic: b"",
        rule: "wrappers with the magic HIPK, and no archive that their marker names",
        stays: Some("its archives are not in the input; name the device parts, too"),
    },
    DeviceFormRow {
        form: DeviceForm::KernelCache,
        name: "kernel cache",
        magic: SQLITE,
        rule: "called rocfft_kernel_cache*.db (rocFFT's rtc_cache.cpp)",
        stays: Some("what is in it for which GPU is not read"),
    },
    DeviceFormRow {
        form: DeviceForm::Xz,
        name: "xz",
        magic: b"\xfd7zXZ\0",
        rule: "called *.hsaco.xz, *.co.xz, *.fatbin.xz or *.hipfb.xz",
        stays: Some("xz is not read; unpack it, or compress it with zstd"),
    },
    DeviceFormRow {
        form: DeviceForm::Upx,
        name: "packed by UPX",
        magic: b"UPX!",
        rule: "the magic in the first or last bytes of a program or library (UPX's header.h, UPX_MAGIC_LE32)",
        stays: Some("its content cannot be seen; unpack it with \"upx -d\""),
    },
    DeviceFormRow {
        form: DeviceForm::NvidiaFatbin,
        name: "NVIDIA's code",
        magic: b"",
        rule: "the sections .nv_fatbin and __nv_relfatbin (nvcc)",
        stays: Some("it is for NVIDIA's GPUs"),
    },
];

impl DeviceForm {
    /// Its row of the table.
    pub fn row(self) -> &'static DeviceFormRow {
        let [first, ..] = &FORMS;
        FORMS.iter().find(|row| row.form == self).unwrap_or(first)
    }

    /// Whether it is code for AMD's GPUs.
    pub fn is_amd(self) -> bool {
        self != Self::NvidiaFatbin
    }
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
