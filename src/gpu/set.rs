//! The GPUs of a thin view, and which code they can run.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use super::hierarchy::{canonical_key, generic_isa_of};
use super::{BundleKey, TargetId, TargetIdError};

/// Features that can be switched at run time, so that a fat binary may have code for each setting (LLVM, "User Guide
/// for AMDGPU Backend", target features).
const SWITCHES: [&str; 2] = ["xnack", "sramecc"];

/// One or more GPUs, sorted and without duplicates: `gfx942`, `gfx1100+gfx1036`, `gfx90a:xnack-`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GpuSet(Vec<TargetId>);

impl GpuSet {
    /// These targets; `None` if there are none.
    pub fn new(targets: impl IntoIterator<Item = TargetId>) -> Option<Self> {
        let mut targets: Vec<_> = targets.into_iter().collect();
        targets.sort();
        targets.dedup();
        (!targets.is_empty()).then_some(Self(targets))
    }

    /// The targets.
    pub fn targets(&self) -> &[TargetId] {
        &self.0
    }

    /// The parts that an installation for these GPUs consists of.
    pub fn keys(&self) -> BTreeSet<BundleKey> {
        self.0.iter().flat_map(|target| BundleKey::of(target).packaging_chain()).collect()
    }

    /// The first target.
    #[expect(clippy::indexing_slicing, reason = "a set without any target is never made")]
    pub fn first(&self) -> &TargetId {
        &self.0[0]
    }

    /// Which of the targets in a bundle are kept when it is reduced to these GPUs. The result has one value for each of
    /// `present`.
    ///
    /// For each mode that a GPU can be in (xnack and sramecc on or off), these are the targets that a HIP runtime finds
    /// first: native code, else code for the generic target of its processor, else SPIR-V. So generic code is dropped
    /// only if there is native code for every mode. `gfx1250-strict` is code for gfx1250.
    pub fn keeps(&self, present: &[&TargetId]) -> Vec<bool> {
        let mut kept = vec![false; present.len()];
        for wanted in &self.0 {
            for mode in modes(wanted) {
                let found = [Fallback::Native, Fallback::Generic, Fallback::Spirv].into_iter().find_map(|step| {
                    let hits: Vec<_> = present.iter().map(|code| step.accepts(code, wanted, &mode)).collect();
                    hits.contains(&true).then_some(hits)
                });
                for (kept, hit) in kept.iter_mut().zip(found.into_iter().flatten()) {
                    *kept |= hit;
                }
            }
        }
        kept
    }
}

/// Kinds of code in the order of a runtime's preference.
#[derive(Clone, Copy)]
enum Fallback {
    Native,
    Generic,
    Spirv,
}

impl Fallback {
    /// Whether the runtime accepts `code` of this kind for a GPU `wanted` in a mode.
    fn accepts(self, code: &TargetId, wanted: &TargetId, mode: &[String]) -> bool {
        let is_processor = match self {
            Self::Native if wanted.is_generic() => code.processor() == wanted.processor(),
            Self::Native => canonical_key(code.processor()) == canonical_key(wanted.processor()) && !code.is_generic(),
            Self::Generic => generic_isa_of(wanted.processor()) == Some(code.processor()),
            Self::Spirv => return code.is_spirv(),
        };
        is_processor && code.features().all(|feature| mode.iter().any(|set| set == feature))
    }
}

/// Every setting of the switchable features. Features that the target ID names are fixed.
fn modes(wanted: &TargetId) -> Vec<Vec<String>> {
    let fixed: Vec<_> = wanted.features().map(str::to_owned).collect();
    let is_fixed = |name: &str| fixed.iter().any(|feature| feature.strip_suffix(['+', '-']) == Some(name));
    let free: Vec<_> = SWITCHES.into_iter().filter(|name| !is_fixed(name)).collect();
    (0..1_u32 << free.len())
        .map(|bits| {
            let sign = |position: usize| if bits >> position & 1 == 1 { '+' } else { '-' };
            let switched = free.iter().enumerate().map(|(position, name)| format!("{name}{}", sign(position)));
            fixed.iter().cloned().chain(switched).collect()
        })
        .collect()
}

impl FromStr for GpuSet {
    type Err = TargetIdError;

    /// Targets are separated by `+`. A feature that is on ends with `+`, too: `gfx90a:xnack++gfx1100`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut targets = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find("+gfx") {
            let (first, others) = rest.split_at(at);
            targets.push(first.parse()?);
            rest = others.get(1..).unwrap_or_default();
        }
        targets.push(rest.parse()?);
        Self::new(targets).ok_or_else(|| TargetIdError::Processor(text.to_owned()))
    }
}

impl fmt::Display for GpuSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, target) in self.0.iter().enumerate() {
            write!(formatter, "{}{target}", if number == 0 { "" } else { "+" })?;
        }
        Ok(())
    }
}

impl fmt::Debug for GpuSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}", self.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(wanted: &str, present: &[&str]) -> Vec<String> {
        let targets: Vec<TargetId> = present.iter().map(|target| target.parse().unwrap()).collect();
        let keeps = wanted.parse::<GpuSet>().unwrap().keeps(&targets.iter().collect::<Vec<_>>());
        present.iter().zip(keeps).filter(|(_, kept)| *kept).map(|(target, _)| (*target).to_owned()).collect()
    }

    #[test]
    fn what_a_runtime_finds_first_in_each_mode_stays() {
        let native = ["gfx90a:xnack-", "gfx90a:xnack+", "gfx942", "gfx9-4-generic", "amdgcnspirv"];
        assert_eq!(kept("gfx942", &native), ["gfx942"]);
        assert_eq!(kept("gfx90a", &native), ["gfx90a:xnack-", "gfx90a:xnack+"]);
        assert_eq!(kept("gfx90a:xnack-", &native), ["gfx90a:xnack-"]);
        assert_eq!(kept("gfx950", &native), ["gfx9-4-generic"]);
        assert_eq!(kept("gfx1100", &native), ["amdgcnspirv"]);
        // A GPU in xnack- mode has no native code here.
        let half = ["gfx942:xnack+", "gfx9-4-generic:xnack-", "gfx9-4-generic:xnack+", "amdgcnspirv"];
        assert_eq!(kept("gfx942", &half), ["gfx942:xnack+", "gfx9-4-generic:xnack-"]);
        assert_eq!(kept("gfx942:xnack+", &half), ["gfx942:xnack+"]);
        assert_eq!(kept("gfx942", &["gfx942:xnack+", "amdgcnspirv"]), ["gfx942:xnack+", "amdgcnspirv"]);
        // Bare code runs in both modes, and the runtime may choose either.
        assert_eq!(kept("gfx90a", &["gfx90a", "gfx90a:sramecc+:xnack-"]), ["gfx90a", "gfx90a:sramecc+:xnack-"]);
        assert_eq!(kept("gfx1250", &["gfx1250", "gfx1250-strict", "gfx1251"]), ["gfx1250", "gfx1250-strict"]);
        assert_eq!(kept("gfx1030", &["gfx1100"]), Vec::<String>::new());
        assert_eq!(kept("gfx9-4-generic", &native), ["gfx9-4-generic"]);
        assert_eq!(kept("gfx9", &["gfx9-4-generic", "gfx906"]), Vec::<String>::new());
        assert_eq!(kept("gfx1100+gfx1036", &["gfx1100", "gfx10-3-generic", "gfx906"]), ["gfx1100", "gfx10-3-generic"]);
    }

    #[test]
    fn names_are_sorted_and_need_no_escape() {
        let canonical = |text: &str| text.parse::<GpuSet>().map(|set| set.to_string());
        assert_eq!(canonical("gfx1100+gfx1036").unwrap(), "gfx1036+gfx1100");
        assert_eq!(canonical("gfx90a:xnack++gfx1100+gfx1100").unwrap(), "gfx1100+gfx90a:xnack+");
        assert_eq!(canonical("gfx90a:xnack+").unwrap(), "gfx90a:xnack+");
        for wrong in ["", "+", "gfx90a+", "+gfx90a", "gfx90a:xnack+gfx1100", "gfx90a++gfx1100", "../gfx90a", "GFX90A"] {
            assert!(canonical(wrong).is_err(), "{wrong}");
        }
    }
}
