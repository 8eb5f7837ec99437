//! `HSA_OVERRIDE_GFX_VERSION`, which makes the HSA runtime take a GPU for another one.
//!
//! Sources, both in `projects/rocr-runtime` of ROCm/rocm-systems at 1b1610fc (August 2025): T is
//! `libhsakmt/src/topology.c`, A is `runtime/hsa-runtime/core/runtime/amd_gpu_agent.cpp`.
//!
//! | rule | source |
//! |---|---|
//! | `HSA_OVERRIDE_GFX_VERSION_N` wins over the variable without a number | T:1237-1238; since ROCm 6.2 (ROCm/ROCR-Runtime@84567b64) |
//! | N counts the KFD nodes that a process may use, with the CPUs | T:641-724, T:804-808 |
//! | nodes without SIMD units, which are CPUs, are not asked | T:1224-1226 |
//! | the value is three decimal numbers, and nothing follows them (`sscanf` of `%u.%u.%u%c` gives 3) | T:1240-1241 |
//! | the numbers are at most 63, 255 and 255 | T:1242 |
//! | an invalid value ends the search for nodes: there is no device at all | T:1243-1246, T:1991-1997 |
//! | an empty value is invalid; since ROCm/rocm-systems#5686 (May 2026) it is ignored | T:1240; ROCm/ROCR-Runtime#354 |
//! | a value with another major version is taken; since #5686 it is refused | T:1248-1250; ROCm/rocm-systems#5686 |
//! | 0.0.0 overrides nothing | A:134 |
//! | a GPU of an unknown version is left out | A:146-148, `amd_topology.cpp`:166-172 |

use std::ffi::{OsStr, OsString};

use super::TargetId;
use super::detect::GpuNode;
use super::fallback::{FALLBACKS, FallbackState};
use super::hierarchy::find_target;

/// The variable for all nodes. An underscore and a number name the node of another one.
pub const OVERRIDE: &str = "HSA_OVERRIDE_GFX_VERSION";

/// The generic processors whose processors may stand in for each other, as far as they share instructions.
const GROUPS: [&str; 6] =
    ["gfx9-generic", "gfx9-4-generic", "gfx10-1-generic", "gfx10-3-generic", "gfx11-generic", "gfx12-generic"];

/// The variable that applies to a GPU.
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Display)]
#[display("{variable}={value}")]
pub struct VersionOverride {
    /// Its name.
    pub variable: String,
    /// Its value.
    pub value: String,
    /// What it does.
    pub effect: OverrideEffect,
}

/// What the variable does to a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OverrideEffect {
    /// Runtimes take the GPU for this one.
    Renames(TargetId),
    /// Runtimes leave the GPU out: there is none of that version.
    Unknown,
    /// The version is of another generation. Runtimes find no device, and older ones run code that the GPU cannot run.
    OtherGeneration,
    /// The value is empty. Older runtimes find no device, and newer ones ignore it.
    Empty,
    /// The value is not a version. Runtimes find no device.
    Invalid,
}

/// The variable that applies to a GPU, with these environment variables. `None` if there is none, or if it changes
/// nothing.
pub fn version_override(node: &GpuNode, variable: impl Fn(&OsStr) -> Option<OsString>) -> Option<VersionOverride> {
    let numbered = format!("{OVERRIDE}_{}", node.number);
    let value = |name: &str| Some((name.to_owned(), variable(OsStr::new(name))?));
    let (variable, value) = value(&numbered).or_else(|| value(OVERRIDE))?;
    let value = value.to_string_lossy().into_owned();
    let effect = match version(&value) {
        Some((0, 0, 0)) => return None,
        None if value.is_empty() => OverrideEffect::Empty,
        None => OverrideEffect::Invalid,
        Some((major, minor, stepping)) => {
            // A version in decimal digits, as KFD writes it, has room for numbers up to 99.
            let target = (minor <= 99 && stepping <= 99).then(|| major * 10_000 + minor * 100 + stepping);
            match target.map(TargetId::of_version) {
                Some(target) if target == node.target => return None,
                _ if major != node.version / 10_000 => OverrideEffect::OtherGeneration,
                Some(target) if target.is_known() => OverrideEffect::Renames(target),
                _ => OverrideEffect::Unknown,
            }
        }
    };
    Some(VersionOverride { variable, value, effect })
}

/// Three numbers, as `sscanf` reads them: each may follow white space and a sign.
fn version(value: &str) -> Option<(u32, u32, u32)> {
    let numbers: Vec<_> = value.split('.').map(number).collect::<Option<_>>()?;
    match numbers.as_slice() {
        &[major @ ..=63, minor @ ..=255, stepping @ ..=255] => Some((major, minor, stepping)),
        _ => None,
    }
}

fn number(text: &str) -> Option<u32> {
    // Those of C, of which Rust has no function: it lacks the vertical tab.
    let text = text.trim_start_matches([' ', '\t', '\n', '\x0b', '\x0c', '\r']);
    // `%u` accepts a sign. Only zero can be negative.
    let (digits, is_negative) = match text.strip_prefix('-') {
        Some(digits) => (digits, true),
        None => (text.strip_prefix('+').unwrap_or(text), false),
    };
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|&number| is_number && !(is_negative && number != 0))
}

/// Processors for which runtimes can take a GPU whose instructions are mostly theirs, and the value that does it, with
/// the one that has the fewest instructions first.
pub fn stand_ins(processor: &str) -> impl Iterator<Item = (TargetId, String)> {
    let is_it = |row: &&super::Fallback| {
        row.state == FallbackState::Merged && GROUPS.contains(&row.generic) && row.processors.contains(&processor)
    };
    let group = FALLBACKS.iter().find(is_it).map_or(&[][..], |row| row.processors);
    let others: Vec<_> = group.iter().filter(|&&other| other != processor).collect();
    others.into_iter().filter_map(|other| Some((TargetId::bare(*other), value_for(other)?)))
}

/// The value that makes runtimes take a GPU for this processor.
pub fn value_for(processor: &str) -> Option<String> {
    let version = find_target(processor)?.version;
    Some(format!("{}.{}.{}", version / 10_000, version / 100 % 100, version % 100))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::OverrideEffect::{self, Empty, Invalid, OtherGeneration, Renames, Unknown};
    use super::{OVERRIDE, stand_ins, value_for, version_override};
    use crate::gpu::hierarchy::TARGETS;
    use crate::gpu::{GpuNode, TargetId};

    /// The effect on a GPU of this version, which is KFD node 1, after that of a CPU.
    fn effect(version: u32, variables: &[(&str, &str)]) -> Option<OverrideEffect> {
        let node = GpuNode { number: 1, version, target: TargetId::of_version(version) };
        let value = |name: &str| variables.iter().find(|(it, _)| *it == name).map(|(_, value)| OsString::from(value));
        version_override(&node, |name| value(name.to_str().unwrap())).map(|it| it.effect)
    }

    fn renames(name: &str) -> OverrideEffect {
        Renames(name.parse().unwrap())
    }

    /// Lines are those of the sources that the module names.
    #[test]
    fn values_have_the_effects_of_the_source() {
        for (version, value, expected) in [
            // T:1248-1250: the numbers become the version of the GPU.
            (100_301, "10.3.0", Some(renames("gfx1030"))),
            (110_501, "11.0.0", Some(renames("gfx1100"))),
            // T:1240, `%u`: decimal. gfx90a is 9.0.10, and 9.0.a is not a number.
            (90_008, "9.0.10", Some(renames("gfx90a"))),
            (90_008, "9.0.a", Some(Invalid)),
            (90_008, "9.0.0xa", Some(Invalid)),
            // T:1240, `%c`: a character behind the numbers, even white space, makes four values.
            (100_301, "10.3.0 ", Some(Invalid)),
            (100_301, "10.3.0\n", Some(Invalid)),
            (100_301, "10.3.0.", Some(Invalid)),
            (100_301, "10.3.0,11.0.0", Some(Invalid)),
            // T:1240: fewer than three values.
            (100_301, "10.3", Some(Invalid)),
            (100_301, "gfx1030", Some(Invalid)),
            (100_301, "\"10.3.0\"", Some(Invalid)),
            // T:1240, `%u`: white space and a sign before a number, and zeros, are a part of it.
            (100_301, " 10. 3.+000", Some(renames("gfx1030"))),
            // T:1242: the largest numbers.
            (100_301, "64.0.0", Some(Invalid)),
            (100_301, "10.256.0", Some(Invalid)),
            (100_301, "10.3.256", Some(Invalid)),
            (100_301, "10.3.-1", Some(Invalid)),
            (100_301, "10.3.4294967296", Some(Invalid)),
            (100_301, "10.255.255", Some(Unknown)),
            // 10.3.100 is not 10.4.0, although both are 100400 in the form of KFD.
            (100_301, "10.3.100", Some(Unknown)),
            (100_301, "10.2.101", Some(Unknown)),
            // T:1240: empty gives no value. RS#5686 ignores it.
            (100_301, "", Some(Empty)),
            (100_301, " ", Some(Invalid)),
            // A:134: all zeros are no override.
            (100_301, "0.0.0", None),
            // It is this GPU already.
            (100_301, "10.3.1", None),
            // A:146-148: no such version.
            (100_301, "10.3.9", Some(Unknown)),
            // RS#5686: another major version.
            (110_000, "10.3.0", Some(OtherGeneration)),
            (110_000, "12.0.1", Some(OtherGeneration)),
        ] {
            assert_eq!(effect(version, &[(OVERRIDE, value)]), expected, "{version} {value:?}");
        }
    }

    #[test]
    fn the_variable_with_the_number_of_the_node_wins() {
        let of_node = "HSA_OVERRIDE_GFX_VERSION_1";
        for (variables, expected) in [
            // T:1237-1238: `getenv` of the name with the number comes first, even if its value is no good.
            (&[(of_node, "10.3.0"), (OVERRIDE, "10.3.2")][..], Some(renames("gfx1030"))),
            (&[(of_node, ""), (OVERRIDE, "10.3.0")], Some(Empty)),
            (&[(of_node, "0.0.0"), (OVERRIDE, "10.3.0")], None),
            (&[(of_node, "10.3.1"), (OVERRIDE, "10.3.0")], None),
            // T:641-808: the CPU is node 0, and the GPU is node 1.
            (&[("HSA_OVERRIDE_GFX_VERSION_0", "10.3.0")], None),
            (&[("HSA_OVERRIDE_GFX_VERSION_01", "10.3.0")], None),
            (&[], None),
        ] {
            assert_eq!(effect(100_301, variables), expected, "{variables:?}");
        }
    }

    #[test]
    fn processors_stand_in_for_each_other_within_a_group() {
        let of =
            |processor: &str| -> Vec<_> { stand_ins(processor).map(|(it, value)| format!("{it} {value}")).collect() };
        assert_eq!(of("gfx90c").first().unwrap(), "gfx900 9.0.0");
        assert_eq!(of("gfx1103").first().unwrap(), "gfx1100 11.0.0");
        assert_eq!(of("gfx950"), ["gfx942 9.4.2"]);
        assert_eq!(of("gfx1201"), ["gfx1200 12.0.0"]);
        // gfx90a and gfx908 are in no group, and that of gfx1250 and gfx1251 is too young.
        for none in ["gfx90a", "gfx908", "gfx803", "gfx1250", "gfx1251", "gfx1170", "gfx11-generic"] {
            assert!(of(none).is_empty(), "{none}");
        }
    }

    #[test]
    fn suggested_values_do_what_they_say() {
        for target in TARGETS.iter().filter(|target| target.name != "gfx1250-strict") {
            let unknown = target.version / 10_000 * 10_000 + 9999;
            assert_eq!(effect(unknown, &[(OVERRIDE, &value_for(target.name).unwrap())]), Some(renames(target.name)));
        }
    }
}
