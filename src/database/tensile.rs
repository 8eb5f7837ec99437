//! rocBLAS, hipBLASLt and hipSPARSELt: libraries of kernels made by Tensile, in `<library>/library/`.

use super::arch::Arch;
use super::names::{PathNames, find_arch, whole_arch};

/// Kernels and their catalogues. hipBLASLt also reads compressed catalogues.
const SUFFIXES: [&str; 4] = [".co", ".hsaco", ".dat", ".dat.zlib"];

/// Newer builds have a directory for each architecture. Some of its files do not name the architecture (a
/// manifest, fallbacks), or name the one they are derived from (gfx1250 below `gfx1250-strict`). The library reads what
/// is in its directory, so the directory decides. Older builds have all files in one directory. There the file name
/// decides.
pub(super) fn detect(library: &str, names: &PathNames) -> Option<Arch> {
    let below = names.below(&[library, "library"])?;
    let directory = below.split_last().and_then(|(_, directories)| directories.first());
    let arch = directory.and_then(|name| whole_arch(name)).or_else(|| {
        let is_kernels = SUFFIXES.iter().any(|suffix| names.file().ends_with(suffix));
        if is_kernels { find_arch(names.file()) } else { None }
    })?;
    Some(Arch::Target(arch))
}
