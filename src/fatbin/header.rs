//! The target of code: the one that an AMDGPU ELF file names in its header.
//!
//! Numbers are those of LLVM's "User Guide for AMDGPU Backend", "ELF Code Object".

use object::LittleEndian as LE;
use object::elf::{self, FileHeader64};
use object::pod::from_bytes;

use crate::gpu::{SPIRV, TargetId};

/// First word of a SPIR-V module.
const SPIRV_MAGIC: u32 = 0x0723_0203;

/// `e_ident[EI_ABIVERSION]` of code object version 4, the first whose header states all features.
const ABI_VERSION_4: u8 = 2;

/// Processors by `EF_AMDGPU_MACH`, the lowest byte of `e_flags`.
const PROCESSORS: &[(u32, &str)] = &[
    (0x20, "gfx600"),
    (0x21, "gfx601"),
    (0x3a, "gfx602"),
    (0x22, "gfx700"),
    (0x23, "gfx701"),
    (0x24, "gfx702"),
    (0x25, "gfx703"),
    (0x26, "gfx704"),
    (0x3b, "gfx705"),
    (0x28, "gfx801"),
    (0x29, "gfx802"),
    (0x2a, "gfx803"),
    (0x3c, "gfx805"),
    (0x2b, "gfx810"),
    (0x2c, "gfx900"),
    (0x2d, "gfx902"),
    (0x2e, "gfx904"),
    (0x2f, "gfx906"),
    (0x30, "gfx908"),
    (0x31, "gfx909"),
    (0x3f, "gfx90a"),
    (0x32, "gfx90c"),
    (0x40, "gfx940"),
    (0x4b, "gfx941"),
    (0x4c, "gfx942"),
    (0x4f, "gfx950"),
    (0x33, "gfx1010"),
    (0x34, "gfx1011"),
    (0x35, "gfx1012"),
    (0x42, "gfx1013"),
    (0x36, "gfx1030"),
    (0x37, "gfx1031"),
    (0x38, "gfx1032"),
    (0x39, "gfx1033"),
    (0x3e, "gfx1034"),
    (0x3d, "gfx1035"),
    (0x45, "gfx1036"),
    (0x41, "gfx1100"),
    (0x46, "gfx1101"),
    (0x47, "gfx1102"),
    (0x44, "gfx1103"),
    (0x43, "gfx1150"),
    (0x4a, "gfx1151"),
    (0x55, "gfx1152"),
    (0x58, "gfx1153"),
    (0x48, "gfx1200"),
    (0x4e, "gfx1201"),
    (0x49, "gfx1250"),
    (0x5a, "gfx1251"),
    (0x51, "gfx9-generic"),
    (0x5f, "gfx9-4-generic"),
    (0x52, "gfx10-1-generic"),
    (0x53, "gfx10-3-generic"),
    (0x54, "gfx11-generic"),
    (0x59, "gfx12-generic"),
    (0x5b, "gfx12-5-generic"),
];

/// Bytes of a code object that show what it is: those of its ELF header.
pub const CODE_HEADER: usize = size_of::<FileHeader64<LE>>();

/// The problem with `code` as a code object for `target`. `code` is its first [`CODE_HEADER`] bytes, or all of it if it
/// is shorter.
pub fn code_problem(code: &[u8], target: &TargetId) -> Option<String> {
    if code.is_empty() {
        return None;
    }
    if is_spirv(code) {
        return (!target.is_spirv()).then(|| "it is SPIR-V".to_owned());
    }
    let Some(header) = header(code) else { return Some("it is neither an AMDGPU ELF file nor SPIR-V".to_owned()) };
    // Processors that this table lacks are not judged.
    let (processor, features) = (processor(header)?, features(header));
    let is_right_processor = || {
        let wanted = target.processor().trim_end_matches("-strict");
        wanted == processor || target.candidates().iter().any(|candidate| candidate.processor() == processor)
    };
    // Code that needs a feature in one state is wrong unless the target names that state.
    if is_right_processor() && features.iter().all(|feature| target.features().any(|named| named == *feature)) {
        return None;
    }
    let made_for = std::iter::once(processor).chain(features).collect::<Vec<_>>().join(":");
    Some(format!("it is code for {made_for}"))
}

/// The target of code by its header, of which [`CODE_HEADER`] bytes are needed. `None` if it is neither SPIR-V nor an
/// AMDGPU ELF file for a known processor. Before code object version 4, headers do not state features.
pub fn code_target(code: &[u8]) -> Option<TargetId> {
    if is_spirv(code) {
        return SPIRV.parse().ok();
    }
    let header = header(code)?;
    let name: Vec<_> = std::iter::once(processor(header)?).chain(features(header)).collect();
    name.join(":").parse().ok()
}

/// Whether this is the beginning of an AMDGPU ELF file for any processor.
pub(crate) fn is_code(code: &[u8]) -> bool {
    header(code).is_some()
}

/// Whether ELF headers have a number for a processor. Generic processors count, too.
pub(crate) fn is_processor(name: &str) -> bool {
    PROCESSORS.iter().any(|(_, processor)| *processor == name)
}

/// Whether the header of code states which features it needs, or that it needs none: that of SPIR-V, or of code object
/// version 4 or later.
pub(crate) fn tells_features(code: &[u8]) -> bool {
    is_spirv(code) || header(code).is_some_and(|header| header.e_ident.abi_version >= ABI_VERSION_4)
}

fn is_spirv(code: &[u8]) -> bool {
    code.first_chunk().is_some_and(|word| u32::from_le_bytes(*word) == SPIRV_MAGIC)
}

/// The header of an AMDGPU ELF file.
fn header(code: &[u8]) -> Option<&FileHeader64<LE>> {
    let (header, _) = from_bytes::<FileHeader64<LE>>(code).ok()?;
    (header.e_ident.magic == elf::ELFMAG && header.e_machine.get(LE) == elf::EM_AMDGPU).then_some(header)
}

fn processor(header: &FileHeader64<LE>) -> Option<&'static str> {
    let mach = header.e_flags.get(LE).0 & 0xff;
    PROCESSORS.iter().find(|(of, _)| *of == mach).map(|(_, processor)| *processor)
}

/// The features that the code needs to be on or off: `EF_AMDGPU_FEATURE_SRAMECC_V4` and `EF_AMDGPU_FEATURE_XNACK_V4`.
fn features(header: &FileHeader64<LE>) -> Vec<&'static str> {
    if header.e_ident.abi_version < ABI_VERSION_4 {
        return Vec::new();
    }
    let flags = header.e_flags.get(LE).0;
    let sramecc = match flags >> 10 & 3 {
        2 => Some("sramecc-"),
        3 => Some("sramecc+"),
        _ => None,
    };
    let xnack = match flags >> 8 & 3 {
        2 => Some("xnack-"),
        3 => Some("xnack+"),
        _ => None,
    };
    sramecc.into_iter().chain(xnack).collect()
}

#[cfg(test)]
mod tests {
    use super::{code_problem as problem, code_target};

    fn code(mach: u8, features: u8) -> Vec<u8> {
        let mut code = vec![0; 64];
        code[..9].copy_from_slice(b"\x7fELF\x02\x01\x01\x40\x02");
        code[18] = 224;
        code[48] = mach;
        code[49] = features;
        code
    }

    #[test]
    fn code_is_for_the_target_that_it_is_named_after() {
        for (target, mach, features, expected) in [
            ("gfx90a", 0x3f, 0x05, None),
            ("gfx90a:xnack-", 0x3f, 0x05, None),
            ("gfx90a:xnack+", 0x3f, 0x07, None),
            ("gfx90a:sramecc+:xnack-", 0x3f, 0x0e, None),
            ("gfx90a:xnack-", 0x3f, 0x07, Some("it is code for gfx90a:xnack+")),
            ("gfx90a", 0x3f, 0x07, Some("it is code for gfx90a:xnack+")),
            ("gfx942", 0x3f, 0x05, Some("it is code for gfx90a")),
            ("gfx942", 0x5f, 0x05, None),
            ("gfx90a", 0x5f, 0x05, Some("it is code for gfx9-4-generic")),
            ("gfx9-4-generic", 0x4c, 0x05, Some("it is code for gfx942")),
            ("gfx1250-strict", 0x49, 0, None),
            ("gfx9999", 0xf0, 0, None),
        ] {
            assert_eq!(problem(&code(mach, features), &target.parse().unwrap()).as_deref(), expected, "{target}");
        }
    }

    #[test]
    fn headers_name_targets() {
        for (mach, features, expected) in [
            (0x3f, 0x05, Some("gfx90a")),
            (0x3f, 0x0e, Some("gfx90a:sramecc+:xnack-")),
            (0x4c, 0x07, Some("gfx942:xnack+")),
            (0x54, 0, Some("gfx11-generic")),
            (0xf0, 0, None),
        ] {
            assert_eq!(code_target(&code(mach, features)).map(|it| it.to_string()).as_deref(), expected);
        }
        let mut version_3 = code(0x3f, 0x0e);
        version_3[8] = 1;
        assert_eq!(code_target(&version_3).unwrap().to_string(), "gfx90a");
        assert_eq!(code_target(&0x0723_0203_u32.to_le_bytes()).unwrap().to_string(), "amdgcnspirv");
        assert_eq!(code_target(b"text"), None);
    }

    #[test]
    fn code_is_an_elf_file_or_spirv_or_nothing() {
        let spirv = 0x0723_0203_u32.to_le_bytes();
        assert_eq!(problem(&spirv, &"amdgcnspirv".parse().unwrap()), None);
        assert!(problem(&spirv, &"gfx942".parse().unwrap()).is_some());
        assert_eq!(problem(&[], &"gfx942".parse().unwrap()), None);
        assert!(problem(b"hello", &"gfx942".parse().unwrap()).is_some());
        let mut host = code(0x3f, 0);
        host[18] = 62;
        assert!(problem(&host, &"gfx90a".parse().unwrap()).is_some());
    }
}
