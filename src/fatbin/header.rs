//! The target of code: the one that an AMDGPU ELF file names in its header.
//!
//! Numbers are those of LLVM's "User Guide for AMDGPU Backend", "ELF Code Object".

use std::collections::BTreeMap;

use object::LittleEndian as LE;
use object::elf::{self, FileHeader64, ProgramHeader64};
use object::pod::{from_bytes, slice_from_bytes};

use crate::gpu::{Processor, SPIRV, TargetId};
use crate::rope::Content;

/// First word of a SPIR-V module.
const SPIRV_MAGIC: u32 = 0x0723_0203;

/// The problem with LLVM bitcode as a code object.
pub(super) const NOT_LINKED: &str = "it is LLVM bitcode, which was not linked";

/// How LLVM bitcode begins, without and with a wrapper ("LLVM Bitcode File Format").
pub(crate) const BITCODE: [&[u8]; 2] = [b"BC\xC0\xDE", b"\xDE\xC0\x17\x0B"];

/// `e_ident[EI_ABIVERSION]` of code object version 4, the first whose header states all features.
const ABI_VERSION_4: u8 = 2;

/// That of code object version 3, the first whose header has to state the processor.
const ABI_VERSION_3: u8 = 1;

/// `EF_AMDGPU_MACH_AMDGCN_GFX600`, the lowest number of a processor that is no R600.
const FIRST_GCN: u8 = 0x20;

/// Bytes of a code object that show what it is: those of its ELF header.
pub const CODE_HEADER: usize = size_of::<FileHeader64<LE>>();

/// Bytes in which its program headers are, too: known ones have up to 10, behind the ELF header.
pub(crate) const CODE_BEGINNING: usize = 1024;

/// The targets whose code nothing can load, as far as they are known, and why.
pub(crate) type CodeDamage = BTreeMap<Option<TargetId>, String>;

/// The problem of a bundle whose code for a target has this problem.
pub(super) fn of_target(target: &TargetId, problem: &str) -> String {
    format!("the code object for {target}: {problem}")
}

/// The problem with `code` as a code object for `target`. `code` is its first [`CODE_HEADER`] bytes, or all of it if it
/// is shorter.
pub fn code_problem(code: &[u8], target: &TargetId) -> Option<String> {
    // Code that needs a feature in one state is wrong unless the target names that state.
    let lacks = |own: &TargetId| own.features().any(|feature| target.features().all(|named| named != feature));
    let with_feature = || code_target(code).filter(|own| !target.is_unknown() && lacks(own));
    code_of_other(code, target).or_else(|| with_feature().map(|own| format!("it is code for {own}")))
}

/// The problem with what is no code for the processor of `target`, whatever features it needs. Empty code is allowed.
fn code_of_other(code: &[u8], target: &TargetId) -> Option<String> {
    if code.is_empty() || target.is_unknown() {
        return None;
    }
    if is_spirv(code) {
        return (!target.is_spirv()).then(|| "it is SPIR-V".to_owned());
    }
    if is_bitcode(code) {
        return Some(NOT_LINKED.to_owned());
    }
    if header(code).is_none() {
        return Some("it is neither an AMDGPU ELF file nor SPIR-V".to_owned());
    }
    // Processors that are not known are not judged, as there will be more.
    let Some(own) = code_target(code) else { return names_no_gpu(code).then(|| "it is code for no GPU".to_owned()) };
    let is_candidate = || target.candidates().iter().any(|candidate| candidate.processor() == own.processor());
    // Before it had a number of its own, code for gfx1250-strict had that of gfx1250.
    (!target.is_same_gpu(&own) && !is_candidate()).then(|| format!("it is code for {own}"))
}

/// The problem with `code` that a library or a runtime loads for `target`: that of [`code_problem`], or a header that no
/// compiler writes. Released runtimes refuse code with a modifier that its processor lacks (ROCm's `AmdHsaCode::GetIsa`);
/// later ones ignore XNACK then (ROCm/rocm-systems#11737).
pub fn loaded_code_problem(code: &[u8], target: &TargetId) -> Option<String> {
    code_problem(code, target).or_else(|| lacking_feature(code).filter(|_| !target.is_unknown()))
}

/// The target of code by its header, of which [`CODE_HEADER`] bytes are needed. `None` if it is neither SPIR-V nor an
/// AMDGPU ELF file for a known processor. Before code object version 4, headers do not state features.
pub fn code_target(code: &[u8]) -> Option<TargetId> {
    if is_spirv(code) {
        return SPIRV.parse().ok();
    }
    let header = header(code)?;
    let name: Vec<_> = std::iter::once(processor(header)?.name).chain(features(header)).collect();
    name.join(":").parse().ok()
}

/// Whether this is the beginning of an AMDGPU ELF file for any processor.
pub(crate) fn is_code(code: &[u8]) -> bool {
    header(code).is_some()
}

/// The end of a cubin, NVIDIA's ELF file for one GPU: its tables are behind all else. `None` if this begins something else.
pub(crate) fn end_of_cubin(code: &[u8]) -> Option<u64> {
    end_of_tables(header_of(code, elf::EM_CUDA)?)
}

/// The end of the tables that the header of an ELF file names: a shorter file is truncated.
fn end_of_tables(header: &FileHeader64<LE>) -> Option<u64> {
    let end = |offset: u64, size: u16, count: u16| offset.checked_add(u64::from(size) * u64::from(count));
    let sections = end(header.e_shoff.get(LE), header.e_shentsize.get(LE), header.e_shnum.get(LE))?;
    let segments = end(header.e_phoff.get(LE), header.e_phentsize.get(LE), header.e_phnum.get(LE))?;
    Some(sections.max(segments))
}

/// Why nothing can load a code object: it is no little-endian 64-bit file, not linked, truncated, or no code for the processor
/// under whose name it is found.
pub(crate) fn code_damage(content: &dyn Content, target: Option<&TargetId>) -> Option<String> {
    let beginning = content.beginning(CODE_BEGINNING).map_err(|error| error.to_string());
    beginning.map_or_else(Some, |beginning| {
        let of_other = || code_of_other(&beginning, target?);
        damage_by_beginning(&beginning, content.size()).or_else(of_other)
    })
}

/// The same by the beginning of a code object of `size` bytes, as far as its program headers are in that.
pub(crate) fn damage_by_beginning(code: &[u8], size: u64) -> Option<String> {
    let is_little_64 = |it: &elf::Ident| it.class == elf::ELFCLASS64 && it.data == elf::ELFDATA2LSB;
    if header(code).is_some_and(|header| !is_little_64(&header.e_ident)) {
        return Some("its header is that of no little-endian 64-bit file".to_owned());
    }
    if header(code).is_some_and(|header| header.e_type.get(LE) == elf::ET_REL) {
        return Some("it is an object file, which was not linked".to_owned());
    }
    let end = end_by_beginning(code);
    (end > size).then(|| format!("it has {size} bytes, but its headers need {end}"))
}

/// The end of everything by the beginning of a code object alone, as far as its program headers are in that.
pub(crate) fn end_by_beginning(code: &[u8]) -> u64 {
    let Some(end) = header(code).and_then(end_of_tables) else { return 0 };
    let table =
        segment_table(code).and_then(|(offset, count)| Some((code.get(usize::try_from(offset).ok()?..)?, count)));
    table.map_or(end, |(table, count)| end_of_segments(table, count, end))
}

/// The offset and number of program headers; `None` if they have another size than the specification says.
fn segment_table(code: &[u8]) -> Option<(u64, usize)> {
    let header = header(code)?;
    let is_standard = usize::from(header.e_phentsize.get(LE)) == size_of::<ProgramHeader64<LE>>();
    is_standard.then(|| (header.e_phoff.get(LE), header.e_phnum.get(LE).into()))
}

/// The end of the last segment in a table of `count` program headers, or `end` if that is behind it.
fn end_of_segments(table: &[u8], count: usize, end: u64) -> u64 {
    let segments = slice_from_bytes::<ProgramHeader64<LE>>(table, count).map_or(&[][..], |(segments, _)| segments);
    let ends = segments.iter().map(|segment| segment.p_offset.get(LE).saturating_add(segment.p_filesz.get(LE)));
    ends.fold(end, u64::max)
}

/// Whether the header of code states which features it needs, or that it needs none: that of SPIR-V, or of code object
/// version 4 or later.
pub(crate) fn tells_features(code: &[u8]) -> bool {
    is_spirv(code) || header(code).is_some_and(|header| header.e_ident.abi_version >= ABI_VERSION_4)
}

fn is_spirv(code: &[u8]) -> bool {
    first_word(code) == Some(SPIRV_MAGIC)
}

/// Whether this is the beginning of LLVM bitcode, plain or in a wrapper.
pub(crate) fn is_bitcode(code: &[u8]) -> bool {
    BITCODE.iter().any(|magic| code.starts_with(magic))
}

fn first_word(code: &[u8]) -> Option<u32> {
    code.first_chunk().map(|word| u32::from_le_bytes(*word))
}

/// The header of an AMDGPU ELF file.
pub(super) fn header(code: &[u8]) -> Option<&FileHeader64<LE>> {
    header_of(code, elf::EM_AMDGPU)
}

fn header_of(code: &[u8], machine: elf::Machine) -> Option<&FileHeader64<LE>> {
    let (header, _) = from_bytes::<FileHeader64<LE>>(code).ok()?;
    (header.e_ident.magic == elf::ELFMAG && header.e_machine.get(LE) == machine).then_some(header)
}

/// Whether the number of the processor is none of a GCN or later GPU. Code object version 2 may have no number.
fn names_no_gpu(code: &[u8]) -> bool {
    header(code).is_some_and(|header| {
        let [.., number] = header.e_flags.get(LE).0.to_be_bytes();
        header.e_ident.abi_version >= ABI_VERSION_3 && number < FIRST_GCN
    })
}

/// The processor by `EF_AMDGPU_MACH`, the lowest byte of `e_flags`.
fn processor(header: &FileHeader64<LE>) -> Option<&'static Processor> {
    let [.., number] = header.e_flags.get(LE).0.to_be_bytes();
    Processor::numbered(number)
}

/// What is wrong if code needs a state of a feature that its processor lacks: compilers write
/// `EF_AMDGPU_FEATURE_XNACK_UNSUPPORTED_V4` then (`AMDGPUTargetELFStreamer::getEFlagsV4`), or the same of SRAM-ECC.
fn lacking_feature(code: &[u8]) -> Option<String> {
    let header = header(code)?;
    let processor = processor(header)?;
    let feature = features(header).into_iter().find(|feature| processor.lacks(feature))?;
    Some(format!("its header says {feature}, and {} has no such mode", processor.name))
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
    use super::{code_of_other, code_problem as problem, code_target, damage_by_beginning, loaded_code_problem};

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
            ("gfx1250-strict", 0xeb, 3, None),
            ("gfx1250", 0xeb, 3, None),
            ("gfx1250", 0x49, 3, None),
            ("gfx1250", 0x5b, 3, None),
            ("gfx1250", 0x49, 2, Some("it is code for gfx1250:xnack-")),
            ("gfx1251", 0x5b, 3, Some("it is code for gfx12-5-generic")),
            ("gfx1250:xnack-", 0x49, 2, None),
            ("gfx1030", 0x36, 3, None),
            ("gfx9999", 0xf0, 0, None),
            ("gfx1030", 0xf0, 0, None),
            ("gfx1030", 0x16, 3, Some("it is code for no GPU")),
            ("gfx1030", 0, 3, Some("it is code for no GPU")),
        ] {
            assert_eq!(problem(&code(mach, features), &target.parse().unwrap()).as_deref(), expected, "{target}");
        }
    }

    #[test]
    fn code_needs_no_feature_that_its_processor_lacks() {
        for (target, mach, features, expected) in [
            ("gfx1030", 0x36, 0, None),
            ("gfx1030", 0x36, 0x05, None),
            ("gfx1030", 0x36, 0x03, Some("its header says xnack+, and gfx1030 has no such mode")),
            ("gfx1030", 0x36, 0x02, Some("its header says xnack-, and gfx1030 has no such mode")),
            ("gfx1030", 0x36, 0x0c, Some("its header says sramecc+, and gfx1030 has no such mode")),
            ("gfx900", 0x2c, 0x0c, Some("its header says sramecc+, and gfx900 has no such mode")),
            ("gfx11-generic", 0x54, 0x03, Some("its header says xnack+, and gfx11-generic has no such mode")),
            ("gfx1100", 0x36, 0x03, Some("it is code for gfx1030")),
            ("gfx90a:sramecc+:xnack+", 0x3f, 0x0f, None),
            ("gfx90a:xnack-", 0x3f, 0x07, Some("it is code for gfx90a:xnack+")),
            ("gfx90c:xnack+", 0x32, 0x03, None),
            ("gfx1250", 0x49, 0x0f, None),
            ("gfx1250", 0x5b, 0x0f, None),
            ("gfx9999", 0xf0, 0x0f, None),
            ("unknown-gfx1030", 0x36, 0x03, None),
        ] {
            let found = loaded_code_problem(&code(mach, features), &target.parse().unwrap());
            assert_eq!(found.as_deref(), expected, "{target} {features}");
        }
        // Before version 4, the same bits have another meaning.
        let mut version_3 = code(0x36, 3);
        version_3[8] = 1;
        assert_eq!(loaded_code_problem(&version_3, &"gfx1030".parse().unwrap()), None);
        assert!(loaded_code_problem(b"hello", &"gfx1030".parse().unwrap()).is_some());
    }

    #[test]
    fn only_whole_linked_64_bit_code_can_be_loaded() {
        assert_eq!(damage_by_beginning(&code(0x41, 0), 64), None);
        for (at, byte) in [(4, 1), (5, 2), (16, 1), (57, 1)] {
            let mut other = code(0x41, 0);
            other[54] = 56;
            other[at] = byte;
            assert!(damage_by_beginning(&other, 64).is_some(), "{at}");
        }
    }

    #[test]
    fn headers_name_targets() {
        for (mach, features, expected) in [
            (0x3f, 0x05, Some("gfx90a")),
            (0x3f, 0x0e, Some("gfx90a:sramecc+:xnack-")),
            (0x4c, 0x07, Some("gfx942:xnack+")),
            (0x54, 0, Some("gfx11-generic")),
            (0x49, 0x03, Some("gfx1250")),
            (0x49, 0x01, Some("gfx1250")),
            (0x49, 0x02, Some("gfx1250:xnack-")),
            (0xeb, 0x0f, Some("gfx1250-strict")),
            (0x36, 0x0f, Some("gfx1030")),
            (0x5e, 0, Some("gfx1171")),
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
        for magic in [*b"BC\xc0\xde", [0xde, 0xc0, 0x17, 0x0b]] {
            assert!(problem(&magic, &"gfx90a".parse().unwrap()).unwrap().contains("bitcode"));
        }
        let mut host = code(0x3f, 0);
        host[18] = 62;
        // Whatever features code needs, this is judged alike.
        for problem in [problem, code_of_other] {
            assert!(problem(&host, &"gfx90a".parse().unwrap()).is_some());
            assert_eq!(problem(&[], &"gfx90a".parse().unwrap()), None);
        }
    }
}
