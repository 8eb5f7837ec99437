//! Decides by names which parts of which shards go into which package.

use std::collections::{BTreeMap, BTreeSet};

use super::config::Group;
use super::{ArtifactName, PackagingConfig};
use crate::gpu::{BundleKey, Level, SPIRV, TargetId};

/// The decision. Numbers are positions in the list of parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recombination {
    /// Parts with host code of the primary shard.
    pub generic: Vec<usize>,
    /// Parts with host code of other shards, each with the primary shard's part for the same component.
    pub other_generic: Vec<(usize, Option<usize>)>,
    /// The groups of device code, sorted by name.
    pub groups: Vec<Combined>,
    /// Device parts that are in no group.
    pub ungrouped: Vec<usize>,
    /// Device parts in groups that two shards have.
    pub duplicates: Vec<Duplicate>,
    /// Processors in groups that no shard has.
    pub missing: Vec<Missing>,
}

/// Device parts that are packaged together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Combined {
    /// The component and the group.
    pub name: ArtifactName,
    /// The parts.
    pub parts: Vec<usize>,
}

/// Two shards have the same device part. The first one is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Duplicate {
    /// The part of the first shard.
    pub first: usize,
    /// The part of another shard.
    pub second: usize,
}

/// A component has no device part for a processor of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The component and the processor.
    pub name: ArtifactName,
    /// The group.
    pub group: String,
}

/// Decides where the parts go. Each part is given by shard and name, sorted by shard.
pub fn recombine(config: &PackagingConfig, parts: &[(&str, &ArtifactName)]) -> Recombination {
    let mut result = Recombination::default();
    let mut device = BTreeMap::<&str, Vec<DevicePart<'_>>>::new();
    let mut primary = BTreeMap::<&str, usize>::new();
    for (number, (shard, name)) in parts.iter().enumerate() {
        if !name.is_generic() {
            device.entry(&name.component).or_default().push(DevicePart { number, shard, family: &name.family });
        } else if *shard == config.primary_shard {
            result.generic.push(number);
            primary.insert(&name.component, number);
        }
    }
    let others =
        parts.iter().enumerate().filter(|(_, (shard, name))| name.is_generic() && *shard != config.primary_shard);
    result.other_generic =
        others.map(|(number, (_, name))| (number, primary.get(name.component.as_str()).copied())).collect();
    for (component, parts) in &device {
        let groups = config.groups_of(component);
        let belongs = |family: &str, members: &Group| belongs(groups, family, members);
        let has_group = |family: &str| groups.values().any(|members| belongs(family, members));
        let parts = without_duplicates(parts, has_group, &mut result.duplicates);
        let families: BTreeSet<&str> = parts.iter().map(|part| part.family).collect();
        let mut grouped = BTreeSet::new();
        for (group, members) in groups {
            let of_group = parts.iter().filter(|part| belongs(part.family, members));
            let numbers: Vec<usize> = of_group.map(|part| part.number).collect();
            grouped.extend(numbers.iter().copied());
            let is_there = |arch: &String| families.iter().any(|family| is_variant(family, arch));
            let missing = members.architectures.iter().filter(|arch| !is_there(arch));
            let name = |family: &String| ArtifactName::new(component, family);
            result.missing.extend(missing.map(|arch| Missing { name: name(arch), group: group.clone() }));
            if !numbers.is_empty() {
                result.groups.push(Combined { name: name(group), parts: numbers });
            }
        }
        result.ungrouped.extend(parts.iter().map(|part| part.number).filter(|number| !grouped.contains(number)));
    }
    result
}

/// Whether a group has a device part of a component.
pub(crate) fn is_grouped(config: &PackagingConfig, part: &ArtifactName) -> bool {
    let groups = config.groups_of(&part.component);
    groups.values().any(|members| belongs(groups, &part.family, members))
}

/// Whether one of these groups has device code of a family.
fn belongs(groups: &BTreeMap<String, Group>, family: &str, members: &Group) -> bool {
    let names = |members: &Group| members.architectures.iter().any(|arch| is_variant(family, arch));
    // Portable code goes with the code of every group, unless a group is for it.
    let has_own_group = || family == SPIRV && groups.values().any(names);
    names(members) || !has_own_group() && is_needed_by(family, &members.architectures)
}

/// Whether both are the part of one component for one processor, in either spelling.
pub(crate) fn is_same_part(first: &ArtifactName, second: &ArtifactName) -> bool {
    first.component == second.component && canonical(&first.family) == canonical(&second.family)
}

/// A part with device code.
#[derive(Clone, Copy)]
struct DevicePart<'a> {
    number: usize,
    shard: &'a str,
    family: &'a str,
}

/// Removes parts for a processor that an earlier shard has. A part for several processors is needed by each of them, so
/// every shard has it. Parts that go into no package are not duplicates. Variants of a processor (`gfx942-xnack+`) are
/// parts of their own. One shard may have a processor under two names: 0.2.0 split code for gfx1250 into `gfx1250` and
/// `gfx1250:xnack+`. Both are kept.
fn without_duplicates<'a>(
    parts: &[DevicePart<'a>],
    is_grouped: impl Fn(&str) -> bool,
    duplicates: &mut Vec<Duplicate>,
) -> Vec<DevicePart<'a>> {
    let mut seen = BTreeMap::<String, Vec<DevicePart<'a>>>::new();
    let mut kept = Vec::new();
    for &part in parts {
        let earlier = seen.entry(canonical(part.family)).or_default();
        let of_other_shard = earlier.first().filter(|first| first.shard != part.shard && !is_shared(part.family));
        if let Some(first) = of_other_shard {
            let first = earlier.iter().find(|other| other.family == part.family).unwrap_or(first).number;
            duplicates.extend(is_grouped(part.family).then_some(Duplicate { first, second: part.number }));
        } else {
            earlier.push(part);
            kept.push(part);
        }
    }
    kept
}

/// The name of a family in its canonical spelling: `gfx942:xnack+` for `gfx942-xnack+`.
fn canonical(family: &str) -> String {
    family.parse().map_or_else(|_| family.to_owned(), |target: TargetId| target.to_string())
}

/// Whether a family is a processor that a group names, or a variant of it.
fn is_variant(family: &str, member: &str) -> bool {
    let (Ok(family), Ok(member)) = (family.parse::<TargetId>(), member.parse::<TargetId>()) else {
        return family == member;
    };
    family == member || family.without_features() == member
}

/// Whether device code of this family is for several processors: a family, a generic ISA, or portable code.
fn is_shared(family: &str) -> bool {
    let level = family.parse::<BundleKey>().map(|key| key.level());
    family == SPIRV
        || family.parse::<TargetId>().is_ok_and(|it| it.is_generic())
        || level.is_ok_and(|it| it != Level::Target)
}

/// Whether one of the processors needs a part that is for several.
fn is_needed_by(family: &str, members: &[String]) -> bool {
    let (true, Ok(key)) = (is_shared(family), family.parse::<BundleKey>()) else { return false };
    let is_above = |member: &String| member.parse().is_ok_and(|it: BundleKey| it.packaging_chain().contains(&key));
    family == SPIRV || members.iter().any(is_above)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Recombination, recombine};
    use crate::artifact::{ArtifactName, PackagingConfig};

    const CONFIG: &str = r#"{
        "primary_shard": "b",
        "architecture_groups": {
            "gfx110X": {"architectures": ["gfx1100", "gfx1101"]},
            "gfx115X": {"architectures": ["gfx1151"]},
            "gfx125X": {"architectures": ["gfx1250"]},
            "gfx94X": {"architectures": ["gfx942"]}
        },
        "component_overrides": {
            "y": {"architecture_groups": {
                "gfx115X": {"architectures": ["gfx1151"]},
                "amdgcnspirv": {"architectures": ["amdgcnspirv"]}
            }}
        }
    }"#;

    /// The decision, and the names of the parts for its numbers.
    fn decide(parts: &[(&str, &str)]) -> (Recombination, Vec<(String, Vec<String>)>) {
        let config = PackagingConfig::parse(CONFIG.as_bytes(), Path::new("c")).unwrap();
        let names: Vec<_> = parts.iter().map(|(_, name)| ArtifactName::parse(name).unwrap()).collect();
        let given: Vec<_> = parts.iter().zip(&names).map(|((shard, _), name)| (*shard, name)).collect();
        let result = recombine(&config, &given);
        let show = |number: &usize| format!("{}/{}", parts[*number].0, parts[*number].1);
        let groups =
            result.groups.iter().map(|it| (it.name.to_string(), it.parts.iter().map(show).collect())).collect();
        (result, groups)
    }

    #[test]
    fn host_code_comes_from_the_primary_shard_and_device_code_from_all() {
        let (result, groups) = decide(&[
            ("a", "blas_lib_generic"),
            ("a", "blas_lib_gfx1151"),
            ("b", "base_lib_generic"),
            ("b", "blas_lib_generic"),
            ("b", "blas_lib_gfx1100"),
            ("b", "blas_lib_gfx1101"),
        ]);
        assert_eq!(result.generic, [2, 3]);
        assert_eq!(result.other_generic, [(0, Some(3))]);
        let all = ["b/blas_lib_gfx1100", "b/blas_lib_gfx1101"].map(str::to_owned).to_vec();
        let expected = [("blas_lib_gfx110X", all), ("blas_lib_gfx115X", vec!["a/blas_lib_gfx1151".to_owned()])];
        assert_eq!(groups, expected.map(|(name, parts)| (name.to_owned(), parts)));
        assert!(result.duplicates.is_empty() && result.ungrouped.is_empty());
        let missing: Vec<_> = result.missing.iter().map(|it| format!("{} in {}", it.name, it.group)).collect();
        assert_eq!(missing, ["blas_lib_gfx1250 in gfx125X", "blas_lib_gfx942 in gfx94X"]);
    }

    #[test]
    fn the_first_shard_with_a_processor_counts() {
        let (result, groups) = decide(&[("a", "x_gfx1100"), ("b", "x_gfx1100"), ("c", "x_gfx1100")]);
        assert_eq!(groups, [("x_gfx110X".to_owned(), vec!["a/x_gfx1100".to_owned()])]);
        let pairs: Vec<_> = result.duplicates.iter().map(|it| (it.first, it.second)).collect();
        assert_eq!(pairs, [(0, 1), (0, 2)]);
        // No group asks for gfx906.
        let (result, _) = decide(&[("a", "x_gfx906"), ("b", "x_gfx906")]);
        assert_eq!((result.duplicates, result.ungrouped), (Vec::new(), vec![0]));
    }

    #[test]
    fn code_for_several_processors_goes_to_each_group_that_needs_it() {
        let (result, groups) = decide(&[
            ("a", "x_gfx11"),
            ("a", "x_gfx110x"),
            ("a", "x_gfx11-generic"),
            ("a", "x_amdgcnspirv"),
            ("b", "x_gfx11"),
            ("b", "x_gfx12_0"),
        ]);
        let parts = |group: usize| groups[group].1.iter().map(String::as_str).collect::<Vec<_>>();
        assert_eq!(parts(0), ["a/x_gfx11", "a/x_gfx110x", "a/x_gfx11-generic", "a/x_amdgcnspirv", "b/x_gfx11"]);
        assert_eq!(parts(1), ["a/x_gfx11", "a/x_gfx11-generic", "a/x_amdgcnspirv", "b/x_gfx11"]);
        assert_eq!(parts(2), ["a/x_amdgcnspirv"]);
        assert!(result.duplicates.is_empty());
        assert_eq!(result.ungrouped, [5]);
    }

    #[test]
    fn variants_go_with_their_processor_in_either_spelling() {
        let (result, groups) = decide(&[
            ("a", "x_gfx1151"),
            ("a", "x_gfx942"),
            ("a", "x_gfx942-xnack+"),
            ("b", "x_gfx942:xnack+"),
            ("b", "x_gfx942:xnack-"),
            ("b", "x_gfx942-strict"),
        ]);
        let of_mi300 = ["a/x_gfx942", "a/x_gfx942-xnack+", "b/x_gfx942:xnack-"].map(str::to_owned).to_vec();
        assert_eq!(groups[1], ("x_gfx94X".to_owned(), of_mi300));
        let pairs: Vec<_> = result.duplicates.iter().map(|it| (it.first, it.second)).collect();
        assert_eq!((pairs, result.ungrouped), (vec![(2, 3)], vec![5]));
        // A variant is enough.
        let (result, _) = decide(&[("a", "x_gfx942:xnack+"), ("a", "x_gfx1250")]);
        assert!(!result.missing.iter().any(|missing| missing.name.family == "gfx942"));
    }

    #[test]
    fn a_processor_under_two_names_in_one_shard_is_not_a_duplicate() {
        let (result, groups) = decide(&[
            ("a", "x_gfx1250"),
            ("a", "x_gfx1250:xnack+"),
            ("b", "x_gfx1250"),
            ("b", "x_gfx1250:xnack+"),
            ("c", "x_gfx1250-xnack+"),
        ]);
        let both = ["a/x_gfx1250", "a/x_gfx1250:xnack+"].map(str::to_owned).to_vec();
        assert_eq!(groups, [("x_gfx125X".to_owned(), both)]);
        let pairs: Vec<_> = result.duplicates.iter().map(|it| (it.first, it.second)).collect();
        assert_eq!(pairs, [(0, 2), (1, 3), (0, 4)]);
    }

    #[test]
    fn portable_code_can_be_a_group() {
        let (result, groups) = decide(&[("a", "y_amdgcnspirv"), ("a", "y_gfx1151"), ("b", "y_amdgcnspirv")]);
        let all = ["a/y_amdgcnspirv", "b/y_amdgcnspirv"].map(str::to_owned).to_vec();
        assert_eq!(groups[0], ("y_amdgcnspirv".to_owned(), all));
        // Groups that have one of their own are not given a copy each.
        assert_eq!(groups[1], ("y_gfx115X".to_owned(), vec!["a/y_gfx1151".to_owned()]));
        assert!(result.duplicates.is_empty() && result.ungrouped.is_empty());
    }

    #[test]
    fn strict_code_is_code_of_its_own() {
        let (result, groups) = decide(&[("a", "x_gfx1250"), ("a", "x_gfx1250-strict")]);
        assert_eq!(groups, [("x_gfx125X".to_owned(), vec!["a/x_gfx1250".to_owned()])]);
        assert_eq!(result.ungrouped, [1]);
    }
}
