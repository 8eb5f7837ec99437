//! The packaging hierarchy: target → sub-family → family, as rocm-bootstrap 0.3.0 defines it.
//!
//! `tests/hierarchy_oracle.rs` compares these tables with that package.

use super::TargetId;

/// A tier of the hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Level {
    /// One processor: `gfx1151`.
    Target,
    /// Processors with the same major and minor version: `gfx115x`.
    SubFamily,
    /// Processors with the same major version: `gfx11`.
    Family,
}

/// How a processor supports XNACK, the retry of memory accesses that fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Xnack {
    /// Not at all.
    Unsupported,
    /// Supported, off by default.
    Supported,
    /// Supported, on by default.
    DefaultOn,
}

/// A processor for which packages exist.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name in LLVM.
    pub name: &'static str,
    /// The kernel's `gfx_target_version`: major · 10000 + minor · 100 + stepping.
    pub version: u32,
    /// Whether it supports XNACK.
    pub xnack: Xnack,
    /// Key of its sub-family.
    pub sub_family: &'static str,
}

/// A sub-family or a family.
#[derive(Clone, Copy, Debug)]
pub struct GpuFamily {
    /// Its key, which is also its name as a Python module.
    pub key: &'static str,
    /// Its tier.
    pub level: Level,
    /// Its name for people.
    pub display_name: &'static str,
    /// LLVM's generic ISA for this bundle, if there is one.
    pub generic_isa: Option<&'static str>,
    /// The family of a sub-family; a family has none.
    pub family: Option<&'static str>,
}

/// Every processor for which packages exist, by version.
pub const TARGETS: &[Target] = &[
    target("gfx900", 90000, Xnack::Supported, "gfx9_0"),
    target("gfx902", 90002, Xnack::Supported, "gfx9_0"),
    target("gfx904", 90004, Xnack::Supported, "gfx9_0"),
    target("gfx906", 90006, Xnack::Supported, "gfx9_0"),
    target("gfx908", 90008, Xnack::Supported, "gfx9_0"),
    target("gfx909", 90009, Xnack::Supported, "gfx9_0"),
    target("gfx90a", 90010, Xnack::Supported, "gfx9_0"),
    target("gfx90c", 90012, Xnack::Supported, "gfx9_0"),
    target("gfx942", 90402, Xnack::Supported, "gfx9_4"),
    target("gfx950", 90500, Xnack::Supported, "gfx9_5"),
    target("gfx1010", 100_100, Xnack::Supported, "gfx10_1"),
    target("gfx1011", 100_101, Xnack::Supported, "gfx10_1"),
    target("gfx1012", 100_102, Xnack::Supported, "gfx10_1"),
    target("gfx1013", 100_103, Xnack::Supported, "gfx10_1"),
    target("gfx1030", 100_300, Xnack::Unsupported, "gfx10_3"),
    target("gfx1031", 100_301, Xnack::Unsupported, "gfx10_3"),
    target("gfx1032", 100_302, Xnack::Unsupported, "gfx10_3"),
    target("gfx1033", 100_303, Xnack::Unsupported, "gfx10_3"),
    target("gfx1034", 100_304, Xnack::Unsupported, "gfx10_3"),
    target("gfx1035", 100_305, Xnack::Unsupported, "gfx10_3"),
    target("gfx1036", 100_306, Xnack::Unsupported, "gfx10_3"),
    target("gfx1100", 110_000, Xnack::Unsupported, "gfx110x"),
    target("gfx1101", 110_001, Xnack::Unsupported, "gfx110x"),
    target("gfx1102", 110_002, Xnack::Unsupported, "gfx110x"),
    target("gfx1103", 110_003, Xnack::Unsupported, "gfx110x"),
    target("gfx1150", 110_500, Xnack::Unsupported, "gfx115x"),
    target("gfx1151", 110_501, Xnack::Unsupported, "gfx115x"),
    target("gfx1152", 110_502, Xnack::Unsupported, "gfx115x"),
    target("gfx1153", 110_503, Xnack::Unsupported, "gfx115x"),
    target("gfx1200", 120_000, Xnack::Unsupported, "gfx12_0"),
    target("gfx1201", 120_001, Xnack::Unsupported, "gfx12_0"),
    target("gfx1250", 120_500, Xnack::DefaultOn, "gfx12_5"),
    target("gfx1250-strict", 120_500, Xnack::DefaultOn, "gfx12_5"),
    target("gfx1251", 120_501, Xnack::DefaultOn, "gfx12_5"),
];

/// Every family and sub-family.
pub const BUNDLES: &[GpuFamily] = &[
    family("gfx9", "GFX9", None),
    family("gfx10", "GFX10", None),
    family("gfx11", "RDNA3", Some("gfx11-generic")),
    family("gfx12", "RDNA4", None),
    sub_family("gfx9_0", "Vega", Some("gfx9-generic"), "gfx9"),
    sub_family("gfx9_4", "MI300", Some("gfx9-4-generic"), "gfx9"),
    sub_family("gfx9_5", "MI350", None, "gfx9"),
    sub_family("gfx10_1", "RDNA1", Some("gfx10-1-generic"), "gfx10"),
    sub_family("gfx10_3", "RDNA2", Some("gfx10-3-generic"), "gfx10"),
    sub_family("gfx110x", "RDNA3", None, "gfx11"),
    sub_family("gfx115x", "RDNA3.5", None, "gfx11"),
    sub_family("gfx12_0", "RDNA4", Some("gfx12-generic"), "gfx12"),
    sub_family("gfx12_5", "GFX12.5", None, "gfx12"),
];

/// Keys that older packages used.
const ALIASES: &[(&str, &str)] = &[("gfx11_0", "gfx110x"), ("gfx11_5", "gfx115x")];

/// Targets that share the package of another one.
const OWNERS: &[(&str, &str)] = &[("gfx1250-strict", "gfx1250")];

/// The generic ISA that HIP falls back to for each processor (`TargetToGeneric` in CLR's `hip_fatbin.cpp`).
const GENERIC_ISAS: &[(&str, &[&str])] = &[
    ("gfx9-generic", &["gfx900", "gfx902", "gfx904", "gfx906", "gfx909", "gfx90c"]),
    ("gfx9-4-generic", &["gfx942", "gfx950"]),
    ("gfx10-1-generic", &["gfx1010", "gfx1011", "gfx1012", "gfx1013"]),
    ("gfx10-3-generic", &["gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036"]),
    ("gfx11-generic", &["gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153"]),
    ("gfx12-generic", &["gfx1200", "gfx1201"]),
];

const fn target(name: &'static str, version: u32, xnack: Xnack, sub_family: &'static str) -> Target {
    Target { name, version, xnack, sub_family }
}

const fn family(key: &'static str, display_name: &'static str, generic_isa: Option<&'static str>) -> GpuFamily {
    GpuFamily { key, level: Level::Family, display_name, generic_isa, family: None }
}

const fn sub_family(
    key: &'static str,
    display_name: &'static str,
    generic_isa: Option<&'static str>,
    family: &'static str,
) -> GpuFamily {
    GpuFamily { key, level: Level::SubFamily, display_name, generic_isa, family: Some(family) }
}

pub(super) fn find_target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

pub(super) fn find_bundle(key: &str) -> Option<&'static GpuFamily> {
    BUNDLES.iter().find(|bundle| bundle.key == key)
}

/// The generic ISA whose code runs on `processor`.
pub(super) fn generic_isa_of(processor: &str) -> Option<&'static str> {
    GENERIC_ISAS.iter().find(|(_, processors)| processors.contains(&processor)).map(|(isa, _)| *isa)
}

/// The canonical key for `name`, a processor or a key: its owner, the key that it is an alias of, or the bundle that
/// reaches every processor which runs a generic ISA. Any other `name` is returned as it is.
pub(super) fn canonical_key(name: &str) -> &str {
    let renamed = |table: &'static [(&str, &str)]| table.iter().find(|(from, _)| *from == name).map(|(_, to)| *to);
    renamed(OWNERS).or_else(|| renamed(ALIASES)).or_else(|| bundle_of_generic_isa(name)).unwrap_or(name)
}

/// The smallest bundle that is in the packaging chain of every processor which runs this generic ISA.
///
/// That is the bundle which carries the ISA in [`BUNDLES`], except for gfx9-4-generic: gfx950 runs it too and is no
/// member of `gfx9_4`, so a package of `gfx9_4` would never reach it.
fn bundle_of_generic_isa(isa: &str) -> Option<&'static str> {
    let (_, processors) = GENERIC_ISAS.iter().find(|(name, _)| *name == isa)?;
    let carrier = BUNDLES.iter().find(|bundle| bundle.generic_isa == Some(isa))?;
    let is_reached = |processor: &&str| {
        find_target(processor).is_some_and(|target| {
            let family = find_bundle(target.sub_family).and_then(|bundle| bundle.family);
            target.sub_family == carrier.key || family == Some(carrier.key)
        })
    };
    if processors.iter().all(is_reached) { Some(carrier.key) } else { carrier.family }
}

/// The target with this `gfx_target_version`. Versions that the table lacks are named by LLVM's rule: major and minor
/// decimal, stepping hexadecimal. The version cannot tell gfx1250-strict from gfx1250.
pub fn target_of_version(version: u32) -> TargetId {
    let known = TARGETS.iter().find(|target| target.version == version && canonical_key(target.name) == target.name);
    let (major, minor, stepping) = (version / 10_000, version / 100 % 100, version % 100);
    TargetId::bare(known.map_or_else(|| format!("gfx{major}{minor}{stepping:x}"), |target| target.name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::{BUNDLES, GENERIC_ISAS, Level, TARGETS, find_bundle, find_target, target_of_version};

    #[test]
    fn tables_refer_to_each_other() {
        for target in TARGETS {
            assert_eq!(find_bundle(target.sub_family).unwrap().level, Level::SubFamily, "{}", target.name);
        }
        for bundle in BUNDLES {
            assert_eq!(bundle.level == Level::Family, bundle.family.is_none(), "{}", bundle.key);
            assert!(bundle.family.is_none_or(|family| find_bundle(family).unwrap().level == Level::Family));
            assert!(bundle.generic_isa.is_none_or(|isa| GENERIC_ISAS.iter().any(|(name, _)| *name == isa)));
        }
        for (_, processors) in GENERIC_ISAS {
            assert!(processors.iter().all(|processor| find_target(processor).is_some()));
        }
    }

    #[test]
    fn versions_name_processors() {
        for target in TARGETS.iter().filter(|target| target.name != "gfx1250-strict") {
            assert_eq!(target_of_version(target.version).to_string(), target.name);
        }
        for (version, name) in
            [(80003, "gfx803"), (90400, "gfx940"), (90015, "gfx90f"), (130_000, "gfx1300"), (0, "gfx000")]
        {
            assert_eq!(target_of_version(version).to_string(), name);
        }
    }
}
