//! The processors that LLVM knows: their numbers in ELF headers, and the modes that target IDs can name.
//!
//! `scripts/check-hierarchy` compares this table with sources of LLVM, COMGR and CLR.

use super::processors::ModeSupport::{AlwaysOn, ForcedOff, Selectable, Unnamed, Unsupported};

/// Whether target IDs of a processor can name the state of a feature, such as `xnack+`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModeSupport {
    /// No: the processor lacks the feature. Runtimes ignore the modifier in the name of a target.
    Unsupported,
    /// No: compilers know the feature, and runtimes have no modifier for it.
    Unnamed,
    /// Yes: code may be made for either state, or for both.
    Selectable,
    /// No: the feature is always on. Runtimes ignore that code needs it, and refuse code that needs it to be off.
    AlwaysOn,
    /// Compilers accept either state. Runtimes keep the feature off, and their names of GPUs do not say so. Older ones
    /// select it.
    ForcedOff,
}

/// A processor, or a generic processor, whose code runs on several.
#[derive(Clone, Copy, Debug)]
pub struct Processor {
    /// Its name in LLVM.
    pub name: &'static str,
    /// `EF_AMDGPU_MACH`, the lowest byte of `e_flags`.
    pub number: u8,
    /// The retry of memory accesses that fault.
    pub xnack: ModeSupport,
    /// ECC of the on-chip memory.
    pub sramecc: ModeSupport,
}

/// All processors, in LLVM's order. Rows are from LLVM's `ELF.h` and `AMDGPUTargetParser.def`, with which `supportedIsas` in CLR's
/// `device.cpp` agrees. A comment names other sources: `llvm` is llvm/llvm-project, `RS` is ROCm/rocm-systems.
///
/// `ForcedOff`: the HSA runtime turns XNACK off (RS#8237). `AlwaysOn`: code records that XNACK is on, and runtimes use the bare name
/// (llvm#212792, RS#11737).
pub const PROCESSORS: &[Processor] = &[
    processor("gfx600", 0x20, Unsupported, Unsupported),
    processor("gfx601", 0x21, Unsupported, Unsupported),
    processor("gfx602", 0x3a, Unsupported, Unsupported),
    processor("gfx700", 0x22, Unsupported, Unsupported),
    processor("gfx701", 0x23, Unsupported, Unsupported),
    processor("gfx702", 0x24, Unsupported, Unsupported),
    processor("gfx703", 0x25, Unsupported, Unsupported),
    processor("gfx704", 0x26, Unsupported, Unsupported),
    processor("gfx705", 0x3b, Unsupported, Unsupported),
    processor("gfx801", 0x28, Selectable, Unsupported),
    processor("gfx802", 0x29, Unsupported, Unsupported),
    processor("gfx803", 0x2a, Unsupported, Unsupported),
    processor("gfx805", 0x3c, Unsupported, Unsupported),
    processor("gfx810", 0x2b, Selectable, Unsupported),
    processor("gfx900", 0x2c, Selectable, Unsupported),
    processor("gfx902", 0x2d, ForcedOff, Unsupported),
    processor("gfx904", 0x2e, Selectable, Unsupported),
    processor("gfx906", 0x2f, Selectable, Selectable),
    processor("gfx908", 0x30, Selectable, Selectable),
    processor("gfx909", 0x31, ForcedOff, Unsupported),
    processor("gfx90a", 0x3f, Selectable, Selectable),
    processor("gfx90c", 0x32, ForcedOff, Unsupported),
    processor("gfx940", 0x40, Selectable, Selectable), // LLVM 15 to 19: ELF.h, TargetParser.cpp.
    processor("gfx941", 0x4b, Selectable, Selectable), // LLVM 15 to 19: ELF.h, TargetParser.cpp.
    processor("gfx942", 0x4c, Selectable, Selectable),
    processor("gfx950", 0x4f, Selectable, Selectable),
    processor("gfx1010", 0x33, Selectable, Unsupported),
    processor("gfx1011", 0x34, Selectable, Unsupported),
    processor("gfx1012", 0x35, Selectable, Unsupported),
    processor("gfx1013", 0x42, Selectable, Unsupported),
    processor("gfx1030", 0x36, Unsupported, Unsupported),
    processor("gfx1031", 0x37, Unsupported, Unsupported),
    processor("gfx1032", 0x38, Unsupported, Unsupported),
    processor("gfx1033", 0x39, Unsupported, Unsupported),
    processor("gfx1034", 0x3e, Unsupported, Unsupported),
    processor("gfx1035", 0x3d, Unsupported, Unsupported),
    processor("gfx1036", 0x45, Unsupported, Unsupported),
    processor("gfx1100", 0x41, Unsupported, Unsupported),
    processor("gfx1101", 0x46, Unsupported, Unsupported),
    processor("gfx1102", 0x47, Unsupported, Unsupported),
    processor("gfx1103", 0x44, Unsupported, Unsupported),
    processor("gfx1150", 0x43, Unsupported, Unsupported),
    processor("gfx1151", 0x4a, Unsupported, Unsupported),
    processor("gfx1152", 0x55, Unsupported, Unsupported),
    processor("gfx1153", 0x58, Unsupported, Unsupported),
    processor("gfx1154", 0x57, Unsupported, Unsupported),
    processor("gfx1170", 0x5d, Unsupported, Unsupported),
    processor("gfx1171", 0x5e, Unsupported, Unsupported),
    processor("gfx1172", 0x5c, Unsupported, Unsupported),
    processor("gfx1200", 0x48, Unsupported, Unsupported),
    processor("gfx1201", 0x4e, Unsupported, Unsupported),
    // LLVM says that gfx12.5 supports SRAM-ECC. ROCr and CLR have no modifier for it.
    processor("gfx1250", 0x49, AlwaysOn, Unnamed),
    processor("gfx1250-strict", 0xeb, AlwaysOn, Unnamed), // llvm#218543, RS#10680: revision A0 of gfx1250.
    processor("gfx1251", 0x5a, AlwaysOn, Unnamed),
    processor("gfx1310", 0x50, Unsupported, Unsupported),
    processor("gfx9-generic", 0x51, Selectable, Unsupported),
    processor("gfx9-4-generic", 0x5f, Selectable, Selectable),
    processor("gfx10-1-generic", 0x52, Selectable, Unsupported),
    processor("gfx10-3-generic", 0x53, Unsupported, Unsupported),
    processor("gfx11-generic", 0x54, Unsupported, Unsupported),
    processor("gfx11-7-generic", 0x62, Unsupported, Unsupported),
    processor("gfx12-generic", 0x59, Unsupported, Unsupported),
    processor("gfx12-5-generic", 0x5b, AlwaysOn, Unnamed),
    processor("gfx13-generic", 0x63, Unsupported, Unsupported),
];

const fn processor(name: &'static str, number: u8, xnack: ModeSupport, sramecc: ModeSupport) -> Processor {
    Processor { name, number, xnack, sramecc }
}

impl Processor {
    /// The processor of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        PROCESSORS.iter().find(|processor| processor.name == name)
    }

    /// The processor with this number.
    pub fn numbered(number: u8) -> Option<&'static Self> {
        PROCESSORS.iter().find(|processor| processor.number == number)
    }

    /// Whether it lacks a feature that is written with its sign: `xnack+`. Then compilers set neither state of it.
    pub fn lacks(&self, feature: &str) -> bool {
        let is_it = |name: &str| feature.strip_suffix(['+', '-']) == Some(name);
        self.modes().into_iter().any(|(name, mode)| is_it(name) && mode == Unsupported)
    }

    /// Its modes with their names, in the order of target IDs.
    pub(super) fn modes(&self) -> [(&'static str, ModeSupport); 2] {
        [("sramecc", self.sramecc), ("xnack", self.xnack)]
    }
}
