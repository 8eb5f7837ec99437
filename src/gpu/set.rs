//! The GPUs of a thin view, and which code they can run.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use super::{BundleKey, TargetId, TargetIdError};

/// One or more GPUs, sorted and without duplicates: `gfx942`, `gfx1100+gfx1036`, `gfx90a:xnack-`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Debug)]
#[debug("{:?}", self.to_string())]
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

    /// Whether files of a database for `target`, such as `gfx90a:xnack+`, are for a mode that one of the GPUs can be in.
    pub fn has_modes_of(&self, target: &TargetId) -> bool {
        let key = BundleKey::of(target);
        self.0.iter().any(|gpu| BundleKey::of(gpu).packaging_chain().contains(&key) && !gpu.contradicts(target))
    }

    /// Whether a database for `target` belongs to a part of these GPUs, but to a mode that none of them can be in.
    pub(crate) fn lacks_modes_of(&self, target: &TargetId) -> bool {
        self.keys().contains(&BundleKey::of(target)) && !self.has_modes_of(target)
    }

    /// Which of the targets in a bundle are kept when it is reduced to these GPUs. The result has one value for each of
    /// `present`.
    ///
    /// For each name by which runtimes may call a GPU, one for each mode (xnack and sramecc on or off), these are the
    /// targets that a HIP runtime finds first: native code, else code for the generic target of its processor, else
    /// SPIR-V. So generic code is dropped only if there is native code for every mode. An environment variable decides
    /// whether runtimes say gfx1250-strict or gfx1250, so either of them keeps the code for both.
    pub fn keeps(&self, present: &[&TargetId]) -> Vec<bool> {
        let mut kept = vec![false; present.len()];
        for device in self.0.iter().flat_map(TargetId::device_names) {
            for (kept, hit) in kept.iter_mut().zip(device.finds(present)) {
                *kept |= hit;
            }
        }
        kept
    }
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
        // A runtime that says gfx1250 takes no strict code.
        let strict = ["gfx1250-strict", "gfx12-5-generic", "gfx1250:xnack-"];
        assert_eq!(kept("gfx1250", &strict), ["gfx1250-strict", "gfx12-5-generic"]);
        assert_eq!(kept("gfx1251", &["gfx12-5-generic"]), Vec::<String>::new());
        assert_eq!(kept("gfx1170", &["gfx11-7-generic"]), Vec::<String>::new());
        assert_eq!(
            kept("gfx90c", &["gfx90c:xnack-", "gfx90c:xnack+", "gfx9-generic"]),
            ["gfx90c:xnack-", "gfx90c:xnack+", "gfx9-generic"]
        );
        assert_eq!(kept("gfx1030", &["gfx1100"]), Vec::<String>::new());
        assert_eq!(kept("gfx9-4-generic", &native), ["gfx9-4-generic"]);
        assert_eq!(kept("gfx9", &["gfx9-4-generic", "gfx906"]), Vec::<String>::new());
        assert_eq!(kept("gfx1100+gfx1036", &["gfx1100", "gfx10-3-generic", "gfx906"]), ["gfx1100", "gfx10-3-generic"]);
    }

    #[test]
    fn files_of_a_database_are_for_the_modes_in_their_names() {
        for (gpus, target, expected) in [
            ("gfx90a:xnack-", "gfx90a:xnack+", false),
            ("gfx90a:xnack-", "gfx90a:xnack-", true),
            ("gfx90a:xnack-", "gfx90a:sramecc+", true),
            ("gfx90a:sramecc-:xnack-", "gfx90a:sramecc+:xnack-", false),
            ("gfx90a", "gfx90a:xnack+", true),
            ("gfx90a:xnack-+gfx90a:xnack+", "gfx90a:xnack+", true),
            // The other GPU has files of its own.
            ("gfx90a:xnack-+gfx942", "gfx90a:xnack+", false),
            ("gfx942:xnack-", "gfx9-4-generic:xnack+", false),
        ] {
            let (gpus, target) = (gpus.parse::<GpuSet>().unwrap(), target.parse().unwrap());
            assert_eq!(gpus.has_modes_of(&target), expected, "{gpus} {target}");
        }
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
