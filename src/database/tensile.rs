//! rocBLAS, hipBLASLt and hipSPARSELt: libraries of kernels made by Tensile, in `<library>/library/`.

use super::arch::Arch;
use super::names::{PathNames, VERSION};
use super::reader::{DatabaseReader, EmptyVariable};
use crate::gpu::{find_arch, whole_arch};

/// A build tree with Tensile above the library, the directory next to the library, packages of the address sanitizer,
/// another form of build tree, the installed form of Debian, and that of all others. Debian's library names the version of
/// its own directory (librocblas4 6.4.4-4, librocblas5 7.2.4-1).
pub(super) const ROCBLAS: DatabaseReader = DatabaseReader {
    name: "rocBLAS",
    libraries: &["rocblas"],
    variable: Some("ROCBLAS_TENSILE_LIBPATH"),
    empty: EmptyVariable::Root,
    searched: &[
        "../../Tensile/library",
        "library",
        "../rocblas/library",
        "../Tensile/library",
        "rocblas/<version>/library",
        "rocblas/library",
    ],
    next_to: None,
    follows_links: false,
    is_optional: false,
    source: "ROCm/rocm-libraries 00255b93, projects/rocblas/library/src/tensile_host.cpp, determine_tensile_base_path",
};

/// The installed form, a build tree, and the directory next to the library. Versions before 2026 tried the installed form
/// last, which is also where files are missing if there are none.
pub(super) const HIPBLASLT: DatabaseReader = DatabaseReader {
    name: "hipBLASLt",
    libraries: &["hipblaslt"],
    variable: Some("HIPBLASLT_TENSILE_LIBPATH"),
    empty: EmptyVariable::WorkingDirectory,
    searched: &["hipblaslt/library", "../Tensile/library", "library", "hipblaslt/library"],
    next_to: None,
    follows_links: false,
    source: "ROCm/rocm-libraries 003add59 and 01942615, projects/hipblaslt/library/src/amd_detail/rocblaslt/src/tensile_host.cpp, \
             TensileHost::initialize, and rocblaslt_auxiliary.cpp, rocblaslt_find_library_relative_path",
    is_optional: false,
};

/// Two forms of build trees, and the installed form.
pub(super) const HIPSPARSELT: DatabaseReader = DatabaseReader {
    name: "hipSPARSELt",
    libraries: &["hipsparselt"],
    variable: Some("ROCSPARSELT_TENSILE_LIBPATH"),
    empty: EmptyVariable::Root,
    searched: &["../hipblaslt/Tensile/library", "../Tensile/library", "hipsparselt/library"],
    next_to: None,
    follows_links: false,
    is_optional: false,
    source: "ROCm/rocm-libraries 2613b197, projects/hipsparselt/library/src/hcc_detail/rocsparselt/src/tensile_host.cpp, \
             TensileHost::initialize",
};

/// The suffixes of catalogues. hipBLASLt also reads compressed ones.
pub const CATALOGUES: [&str; 2] = [".dat", ".dat.zlib"];
/// The suffixes of code objects.
pub const CODE: [&str; 2] = [".co", ".hsaco"];

/// The components below the directory of a library's database.
pub(super) fn below<'a, 'b>(library: &str, names: &'b PathNames<'a>) -> Option<&'b [&'a str]> {
    names.below(&[library, "library"]).or_else(|| names.below(&[library, VERSION, "library"]))
}

/// Newer builds have a directory for each architecture. Some of its files do not name the architecture (a
/// manifest, fallbacks), or name the one they are derived from (gfx1250 below `gfx1250-strict`). The library reads what
/// is in its directory, so the directory decides. Older builds have all files in one directory. There the file name
/// decides.
pub(super) fn detect(library: &str, names: &PathNames) -> Option<Arch> {
    let below = below(library, names)?;
    let directory = below.split_last().and_then(|(_, directories)| directories.first());
    let arch = directory.and_then(|name| whole_arch(name)).or_else(|| {
        let is_kernels = CODE.iter().chain(&CATALOGUES).any(|suffix| names.file().ends_with(suffix));
        if is_kernels { find_arch(names.file()) } else { None }
    })?;
    Some(Arch::Target(arch))
}
