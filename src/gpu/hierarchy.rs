//! The packaging hierarchy: target → sub-family → family, as rocm-bootstrap 0.3.0 defines it.
//!
//! `tests/plain/hierarchy_oracle.rs` compares these tables with that package.

use super::fallback;

/// A tier of the hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Level {
    /// One processor: `gfx1151`.
    Target,
    /// Processors with the same major and minor version: `gfx115x`.
    SubFamily,
    /// Processors with the same major version: `gfx11`.
    Family,
}

/// A processor for which packages exist.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name in LLVM.
    pub name: &'static str,
    /// The kernel's `gfx_target_version`: major · 10000 + minor · 100 + stepping.
    pub version: u32,
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
    /// The family of a sub-family; a family has none.
    pub family: Option<&'static str>,
}

/// Every processor for which packages exist, by version.
pub const TARGETS: &[Target] = &[
    target("gfx900", 90000, "gfx9_0"),
    target("gfx902", 90002, "gfx9_0"),
    target("gfx904", 90004, "gfx9_0"),
    target("gfx906", 90006, "gfx9_0"),
    target("gfx908", 90008, "gfx9_0"),
    target("gfx909", 90009, "gfx9_0"),
    target("gfx90a", 90010, "gfx9_0"),
    target("gfx90c", 90012, "gfx9_0"),
    target("gfx942", 90402, "gfx9_4"),
    target("gfx950", 90500, "gfx9_5"),
    target("gfx1010", 100_100, "gfx10_1"),
    target("gfx1011", 100_101, "gfx10_1"),
    target("gfx1012", 100_102, "gfx10_1"),
    target("gfx1013", 100_103, "gfx10_1"),
    target("gfx1030", 100_300, "gfx10_3"),
    target("gfx1031", 100_301, "gfx10_3"),
    target("gfx1032", 100_302, "gfx10_3"),
    target("gfx1033", 100_303, "gfx10_3"),
    target("gfx1034", 100_304, "gfx10_3"),
    target("gfx1035", 100_305, "gfx10_3"),
    target("gfx1036", 100_306, "gfx10_3"),
    target("gfx1100", 110_000, "gfx110x"),
    target("gfx1101", 110_001, "gfx110x"),
    target("gfx1102", 110_002, "gfx110x"),
    target("gfx1103", 110_003, "gfx110x"),
    target("gfx1150", 110_500, "gfx115x"),
    target("gfx1151", 110_501, "gfx115x"),
    target("gfx1152", 110_502, "gfx115x"),
    target("gfx1153", 110_503, "gfx115x"),
    target("gfx1200", 120_000, "gfx12_0"),
    target("gfx1201", 120_001, "gfx12_0"),
    target("gfx1250", 120_500, "gfx12_5"),
    target("gfx1250-strict", 120_500, "gfx12_5"),
    target("gfx1251", 120_501, "gfx12_5"),
];

/// Every family and sub-family.
pub const BUNDLES: &[GpuFamily] = &[
    family("gfx9", "GFX9"),
    family("gfx10", "GFX10"),
    family("gfx11", "RDNA3"),
    family("gfx12", "RDNA4"),
    sub_family("gfx9_0", "Vega", "gfx9"),
    sub_family("gfx9_4", "MI300", "gfx9"),
    sub_family("gfx9_5", "MI350", "gfx9"),
    sub_family("gfx10_1", "RDNA1", "gfx10"),
    sub_family("gfx10_3", "RDNA2", "gfx10"),
    sub_family("gfx110x", "RDNA3", "gfx11"),
    sub_family("gfx115x", "RDNA3.5", "gfx11"),
    sub_family("gfx12_0", "RDNA4", "gfx12"),
    sub_family("gfx12_5", "GFX12.5", "gfx12"),
];

/// Keys that older packages used.
const ALIASES: &[(&str, &str)] = &[("gfx11_0", "gfx110x"), ("gfx11_5", "gfx115x")];

/// Targets that share the package of another one.
const OWNERS: &[(&str, &str)] = &[("gfx1250-strict", "gfx1250")];

const fn target(name: &'static str, version: u32, sub_family: &'static str) -> Target {
    Target { name, version, sub_family }
}

const fn family(key: &'static str, display_name: &'static str) -> GpuFamily {
    GpuFamily { key, level: Level::Family, display_name, family: None }
}

const fn sub_family(key: &'static str, display_name: &'static str, family: &'static str) -> GpuFamily {
    GpuFamily { key, level: Level::SubFamily, display_name, family: Some(family) }
}

pub(super) fn find_target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

pub(super) fn find_bundle(key: &str) -> Option<&'static GpuFamily> {
    BUNDLES.iter().find(|bundle| bundle.key == key)
}

/// The processor whose package has the code for `processor`.
pub(super) fn owner_of(processor: &str) -> &str {
    OWNERS.iter().find(|(owned, _)| *owned == processor).map_or(processor, |(_, owner)| owner)
}

/// The processors that share a package with `processor`, including itself.
pub(super) fn sharing_package(processor: &str) -> Vec<&str> {
    let owner = owner_of(processor);
    let others = OWNERS.iter().filter(|(_, of)| *of == owner).map(|(other, _)| *other);
    std::iter::once(owner).chain(others).collect()
}

/// The canonical key for `name`, a processor or a key: its owner, the key that it is an alias of, or the family that
/// reaches every processor which falls back to a generic one. Any other `name` is returned as it is.
pub(super) fn canonical_key(name: &str) -> &str {
    let renamed = || ALIASES.iter().find(|(from, _)| *from == name).map(|(_, to)| *to);
    renamed().or_else(|| family_of_generic(name)).unwrap_or_else(|| owner_of(name))
}

/// The smallest sub-family or family that contains every processor which falls back to this generic one.
fn family_of_generic(generic: &str) -> Option<&'static str> {
    let sub_families = fallback::processors_of(generic)?.iter().map(|name| Some(find_target(name)?.sub_family));
    let mut sub_families: Vec<_> = sub_families.collect::<Option<_>>()?;
    sub_families.dedup();
    match sub_families.as_slice() {
        [only] => Some(only),
        [first, ..] => find_bundle(first)?.family,
        [] => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{BUNDLES, Level, TARGETS, find_bundle, find_target};
    use crate::gpu::fallback::{FALLBACKS, FallbackState};
    use crate::gpu::{PROCESSORS, Processor};

    #[test]
    fn tables_refer_to_each_other() {
        for target in TARGETS {
            assert_eq!(find_bundle(target.sub_family).unwrap().level, Level::SubFamily, "{}", target.name);
        }
        for bundle in BUNDLES {
            assert_eq!(bundle.level == Level::Family, bundle.family.is_none(), "{}", bundle.key);
            assert!(bundle.family.is_none_or(|family| find_bundle(family).unwrap().level == Level::Family));
        }
        for row in FALLBACKS {
            let is_known = |name: &&&str| Processor::named(name).is_some();
            assert!(row.processors.iter().chain([&row.generic]).all(|name| is_known(&name)), "{}", row.generic);
            // A package for a family without processors would reach nobody.
            let has_package = row.processors.iter().all(|name| find_target(name).is_some());
            assert_eq!(has_package, row.state == FallbackState::Merged, "{}", row.generic);
        }
        assert!(TARGETS.iter().all(|target| Processor::named(target.name).is_some()));
        for (number, processor) in PROCESSORS.iter().enumerate() {
            let is_twice = |other: &Processor| other.name == processor.name || other.number == processor.number;
            assert!(!PROCESSORS[..number].iter().any(is_twice), "{}", processor.name);
        }
    }
}
