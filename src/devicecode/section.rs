//! Code for GPUs in sections of object files, by their names: clang-offload-bundler (`-type=o`) writes a section for each entry,
//! which is called as the magic of a bundle and the entry ID. Compilers with the new driver write LLVM offload binaries instead.

use super::form::DeviceForm;
use super::found::CodePiece;
use super::offload_binary::form_for;
use crate::gpu::SPIRV;

/// The offload kinds of code for GPUs: those of HIP, of OpenMP, and of SYCL (DPC++).
const KINDS: [&str; 5] = ["hip", "hipv4", "hcc", "openmp", "sycl"];

/// The code in the section with whose name these bytes begin. How long it is, the name does not say. For AMD's GPUs it is bitcode.
pub(super) fn code_of_section(name: &[u8]) -> Option<CodePiece> {
    let id = name.strip_prefix(DeviceForm::Bundle.magic())?;
    let id = str::from_utf8(id.get(..memchr::memchr(0, id)?)?).ok()?;
    let (_, triple) = id.split_once('-').filter(|(kind, _)| KINDS.contains(kind))?;
    let form = form_for(triple.as_bytes())?;
    if form != DeviceForm::OffloadBinary {
        return Some(CodePiece::opaque(form, 0));
    }
    // There may be an environment before it, or no dash for an empty one.
    let at = ["gfx", SPIRV].iter().find_map(|begin| triple.find(begin));
    let target = at.and_then(|at| triple.get(at..)?.parse().ok());
    Some(CodePiece { code: vec![(target, 0)], ..CodePiece::opaque(DeviceForm::Bitcode, 0) })
}

#[cfg(test)]
mod tests {
    use super::{DeviceForm, code_of_section};

    #[test]
    fn sections_of_object_files_name_their_code() {
        use DeviceForm::{Bitcode, NvidiaFatbin, Sycl};
        let found = |id: &str| {
            let code = code_of_section(format!("__CLANG_OFFLOAD_BUNDLE__{id}\0.text\0").as_bytes())?;
            let target = code.code.first().and_then(|(target, _)| Some(target.as_ref()?.to_string()));
            Some((code.form, target.unwrap_or_default()))
        };
        for (id, form, target) in [
            ("hip-amdgcn-amd-amdhsa--gfx90a:xnack+", Bitcode, "gfx90a:xnack+"),
            ("hipv4-amdgcn-amd-amdhsa--gfx9-4-generic", Bitcode, "gfx9-4-generic"),
            ("openmp-amdgcn-amd-amdhsa--gfx90a", Bitcode, "gfx90a"),
            ("openmp-amdgcn-amd-amdhsa-gfx906", Bitcode, "gfx906"),
            ("sycl-amdgcn-amd-amdhsa-unknown-gfx90a", Bitcode, "gfx90a"),
            ("openmp-amdgcn-amd-amdhsa", Bitcode, ""),
            ("hip-spirv64-amd-amdhsa--amdgcnspirv", Bitcode, "amdgcnspirv"),
            ("openmp-nvptx64-nvidia-cuda--sm_80", NvidiaFatbin, ""),
            ("sycl-spir64-unknown-unknown", Sycl, ""),
            ("sycl-spirv64-unknown-unknown", Sycl, ""),
        ] {
            assert_eq!(found(id), Some((form, target.to_owned())), "{id}");
        }
        for id in ["host-x86_64-unknown-linux-gnu-", "openmp-x86_64-unknown-linux-gnu", "", "hip", "x-amdgcn--gfx90a"] {
            assert_eq!(found(id), None, "{id}");
        }
    }
}
