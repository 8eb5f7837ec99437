//! Entry IDs: which code objects of a bundle runtimes find, and for which target.
//!
//! HIP has COMGR look code up (`amd_comgr_lookup_code_object`). The rules here are the answers of COMGR 2.4 and 3.3, which
//! `scripts/check-thin` asks:
//! - The ID is the offload kind `hip`, `hipv4` or `hcc`, then exactly `-amdgcn-amd-amdhsa--`, and the target ID. The
//!   environment in a triple is empty, hence the two dashes. Code of other kinds, and under triples that compilers write
//!   for other tools (one dash, `-unknown-`, `amdgpu9.42-amd-amdhsa`), is not found.
//! - SPIR-V has the triple `spirv64-amd-amdhsa--` or `spirv64-amd-amdhsa-unknown-`. HIP asks for both.
//! - Features may have any order. Of a feature that is named twice, the last one is valid.
//! - An entry names no mode that its processor lacks.
//! - The first entry that fits is taken, also if it has no code. So it is in uncompressed bundles; for compressed ones, HIP asks
//!   COMGR 3.3 in another way, which may take another entry that fits (`findings/comgr-compressed-answers-otherwise.sh`).

use std::collections::{HashMap, HashSet};

use crate::gpu::{SPIRV, TargetId};

/// The offload kinds whose code HIP looks for.
const KINDS: [&str; 3] = ["hip", "hipv4", "hcc"];

/// The triple of code objects.
const TRIPLE: &str = "amdgcn-amd-amdhsa--";

/// The triples of SPIR-V. Newer compilers spell the environment out (llvm/llvm-project#139112).
const PORTABLE: [&str; 2] = ["spirv64-amd-amdhsa--", "spirv64-amd-amdhsa-unknown-"];

/// The most parts of a target ID in which repeated features are looked for. Real ones have at most three.
const MAX_PARTS: usize = 16;

/// What an entry is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EntryRole {
    /// Host code, or the place of it.
    Host,
    /// Code that runtimes find for a target.
    Found(TargetId),
    /// Code that no runtime finds: the target ID if only that is not understood, otherwise all of the ID.
    NotFound(String),
}

impl EntryRole {
    /// Reads an entry ID.
    pub(super) fn of(id: &[u8]) -> Self {
        let id = String::from_utf8_lossy(id);
        if id.starts_with("host-") {
            return Self::Host;
        }
        let triple_and_target = id.split_once('-').filter(|(kind, _)| KINDS.contains(kind)).map(|(_, rest)| rest);
        let Some(rest) = triple_and_target else { return Self::NotFound(id.into_owned()) };
        let is_portable = PORTABLE.iter().any(|triple| rest.strip_prefix(triple) == Some(SPIRV));
        let name = rest.strip_prefix(TRIPLE).filter(|name| *name != SPIRV).or_else(|| is_portable.then_some(SPIRV));
        name.map_or_else(|| Self::NotFound(id.clone().into_owned()), Self::found)
    }

    fn found(name: &str) -> Self {
        let name_once = without_repetition(name);
        // No feature was left out, and each was written behind a colon.
        let is_exact = |target: &TargetId| target.features().len() == name_once.matches(':').count();
        let target = name_once.parse().ok().filter(is_exact).filter(is_processor);
        target.map_or_else(|| Self::NotFound(name.to_owned()), Self::Found)
    }
}

/// A target ID with each feature once, as it is written last. One with more than [`MAX_PARTS`] stays as it is.
fn without_repetition(name: &str) -> String {
    let parts: Vec<_> = name.split(':').collect();
    if parts.len() > MAX_PARTS {
        return name.to_owned();
    }
    let name_of = |part: &'_ str| part.trim_end_matches(['+', '-']).len();
    let is_same = |one: &str, other: &str| one.get(..name_of(one)) == other.get(..name_of(other));
    let is_last = |(at, part): &(usize, &&str)| *at == 0 || !parts.iter().skip(at + 1).any(|it| is_same(it, part));
    let kept: Vec<_> = parts.iter().enumerate().filter(is_last).map(|(_, part)| *part).collect();
    kept.join(":")
}

/// Whether a target can be one of a GPU: all of their names have digits. Parts of a split have names without any.
fn is_processor(target: &TargetId) -> bool {
    target.is_spirv() || target.is_unknown() || target.processor().bytes().any(|byte| byte.is_ascii_digit())
}

/// The targets of a bundle's entries, in their order: the GPUs and modes for which runtimes find each of them.
#[derive(Default)]
pub(crate) struct EntryTargets {
    /// The names given so far.
    names: HashSet<TargetId>,
    /// How often a target was shadowed.
    counts: HashMap<TargetId, u32>,
    /// The entries that runtimes find, and whether they have code, by processor.
    found: HashMap<String, Vec<(TargetId, bool)>>,
}

impl EntryTargets {
    /// The target of the next entry; `None` for the host's. What no runtime finds has a name of its own
    /// ([`TargetId::unknown`]).
    pub(super) fn next(&mut self, id: &[u8], has_code: bool) -> Option<TargetId> {
        match EntryRole::of(id) {
            EntryRole::Host => None,
            EntryRole::NotFound(id) => Some(self.add(TargetId::unknown(&id), has_code)),
            EntryRole::Found(target) => Some(self.add(target, has_code)),
        }
    }

    /// The target of the next entry, which is called so.
    pub(crate) fn add(&mut self, target: TargetId, has_code: bool) -> TargetId {
        let mut name = self.remainder(target, has_code);
        // Entries may have such names themselves.
        while !self.names.insert(name.clone()) {
            name = TargetId::unknown(&name.to_string());
        }
        name
    }

    fn remainder(&mut self, target: TargetId, has_code: bool) -> TargetId {
        let earlier = self.found.entry(target.processor().to_owned()).or_default();
        if let Some(rest) = remainder(&target, earlier) {
            // Only modes limit what is compared. No device is in one that its processor lacks.
            let is_found = target.impossible_feature().is_none();
            if is_found && target.features().all(|feature| MODES.contains(&feature)) {
                earlier.push((target, has_code));
            }
            return rest;
        }
        let count = self.counts.entry(target.clone()).or_default();
        *count += 1;
        match *count {
            1 => TargetId::unknown(&target.to_string()),
            more => TargetId::unknown(&format!("{target}#{}", more + 1)),
        }
    }
}

/// The modes that GPUs have.
const MODES: [&str; 4] = ["sramecc+", "sramecc-", "xnack+", "xnack-"];

/// What earlier entries leave of a target: the modes in which none of them fits. `None` if there are none.
///
/// Compilers write no entries that fit the same mode ("conflicting target IDs"), but other tools do. Only a remainder that
/// a target ID can express is one. Less specific code behind specific code with the same features needs none: loaders
/// of archives prefer the specific code as well.
fn remainder(target: &TargetId, earlier: &[(TargetId, bool)]) -> Option<TargetId> {
    let mut rest = target.clone();
    let mut at = 0;
    while let Some((other, has_code)) = earlier.get(at) {
        at += 1;
        let has = |feature: &&str| rest.features().any(|own| own == *feature);
        let taken: Vec<_> = other.features().filter(|feature| !has(feature)).collect();
        let is_apart = taken.iter().any(|feature| has(&&*opposite(feature)));
        let is_preferred = *has_code && rest.features().all(|own| other.features().any(|feature| feature == own));
        match taken.as_slice() {
            _ if is_apart => {}
            [] => return None,
            [feature] if !is_preferred => {
                // The name of a processor without such a mode stays the same.
                let less = format!("{rest}:{}", opposite(feature)).parse().ok().filter(|less| *less != rest);
                if let Some(less) = less {
                    rest = less;
                    at = 0;
                }
            }
            _ => {}
        }
    }
    Some(rest)
}

fn opposite(feature: &str) -> String {
    let (name, sign) = feature.split_at(feature.len().saturating_sub(1));
    format!("{name}{}", if sign == "+" { "-" } else { "+" })
}

#[cfg(test)]
mod tests {
    use super::{EntryRole, EntryTargets};

    /// As COMGR 2.4 and 3.3 answer.
    #[test]
    fn runtimes_find_code_under_exact_ids() {
        for (id, target) in [
            ("hip-amdgcn-amd-amdhsa--gfx90a", "gfx90a"),
            ("hipv4-amdgcn-amd-amdhsa--gfx90a", "gfx90a"),
            ("hcc-amdgcn-amd-amdhsa--gfx90a", "gfx90a"),
            ("hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-:sramecc+", "gfx90a:sramecc+:xnack-"),
            ("hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-:xnack-", "gfx90a:xnack-"),
            ("hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+:xnack-", "gfx90a:xnack-"),
            ("hipv4-amdgcn-amd-amdhsa--gfx9-4-generic:xnack-", "gfx9-4-generic:xnack-"),
            ("hipv4-amdgcn-amd-amdhsa--gfx9999", "gfx9999"),
            ("hip-spirv64-amd-amdhsa--amdgcnspirv", "amdgcnspirv"),
            ("hipv4-spirv64-amd-amdhsa-unknown-amdgcnspirv", "amdgcnspirv"),
        ] {
            assert_eq!(EntryRole::of(id.as_bytes()), EntryRole::Found(target.parse().unwrap()), "{id}");
        }
        for id in [
            "hipv4-amdgcn-amd-amdhsa-gfx90a",
            "hipv4-amdgcn-amd-amdhsa-unknown-gfx90a",
            "hipv4-amdgcn-amd-amdhsa-llvm-gfx90a",
            "hipv4-amdgcn-amd-amdhsa-unknown--gfx90a",
            "hipv4-amdgcn--amdhsa--gfx90a",
            "hipv4--amdgcn-amd-amdhsa--gfx90a",
            "hipv4-amdgpu9.0a-amd-amdhsa--gfx90a",
            "hipv5-amdgcn-amd-amdhsa--gfx90a",
            "HIP-amdgcn-amd-amdhsa--gfx90a",
            "openmp-amdgcn-amd-amdhsa--gfx90a",
            "amdgcn-amd-amdhsa--gfx90a",
            "openmp-spirv64-amd-amdhsa--amdgcnspirv",
            "hip-spirv64-amd-amdhsa-amdgcnspirv",
            "hip-amdgcn-amd-amdhsa--amdgcnspirv",
            "hip-",
            "",
        ] {
            assert_eq!(EntryRole::of(id.as_bytes()), EntryRole::NotFound(id.to_owned()));
        }
        for target in [
            "",
            "GFX90A",
            "gfx90a ",
            "gfx90a:",
            "gfx90a:XNACK-",
            "gfx90a-xnack-",
            "gfx1030:xnack+",
            "gfx1250:xnack+",
            "x",
        ] {
            let id = format!("hipv4-amdgcn-amd-amdhsa--{target}");
            assert_eq!(EntryRole::of(id.as_bytes()), EntryRole::NotFound(target.to_owned()));
        }
        assert_eq!(EntryRole::of(b"host-x86_64-unknown-linux-gnu-"), EntryRole::Host);
    }

    /// "0" is an entry without code.
    #[test]
    fn the_first_entry_that_fits_is_found() {
        for (entries, names) in [
            (&["gfx90a", "gfx942", "gfx90a"][..], &["gfx90a", "gfx942", "unknown-gfx90a"][..]),
            (&["gfx90a", "gfx90a:xnack-"], &["gfx90a", "unknown-gfx90a.3axnack.2d"]),
            (&["gfx90a:xnack-", "gfx90a"], &["gfx90a:xnack-", "gfx90a"]),
            (&["gfx90a:xnack-", "gfx90a:xnack+"], &["gfx90a:xnack-", "gfx90a:xnack+"]),
            (&["gfx90a:xnack-", "gfx90a:sramecc+"], &["gfx90a:xnack-", "gfx90a:sramecc+:xnack+"]),
            (
                &["gfx90a:sramecc+:xnack+", "gfx90a:xnack-", "gfx90a:sramecc+"],
                &["gfx90a:sramecc+:xnack+", "gfx90a:xnack-", "unknown-gfx90a.3asramecc.2b"],
            ),
            (&["0gfx90a", "gfx90a"], &["gfx90a", "unknown-gfx90a"]),
            (&["0gfx90a:xnack-", "gfx90a"], &["gfx90a:xnack-", "gfx90a:xnack+"]),
            (&["gfx90a", "0gfx90a"], &["gfx90a", "unknown-gfx90a"]),
            (&["gfx9999:x+", "gfx9999:x+"], &["gfx9999:x+", "unknown-gfx9999.3ax.2b"]),
            (&["gfx90a"; 3], &["gfx90a", "unknown-gfx90a", "unknown-gfx90a.233"]),
            (&["0gfx1250:xnack-", "gfx1250"], &["gfx1250:xnack-", "gfx1250"]),
            (&["gfx1250:xnack-", "gfx1250:future+"], &["gfx1250:xnack-", "gfx1250:future+"]),
            (&["0gfx12-5-generic:xnack-", "gfx12-5-generic"], &["gfx12-5-generic:xnack-", "gfx12-5-generic"]),
        ] {
            let mut targets = EntryTargets::default();
            let next = |entry: &&str| {
                let id = format!("hip-amdgcn-amd-amdhsa--{}", entry.trim_start_matches('0'));
                targets.next(id.as_bytes(), !entry.starts_with('0')).unwrap().to_string()
            };
            assert_eq!(entries.iter().map(next).collect::<Vec<_>>(), names);
        }
    }
}
