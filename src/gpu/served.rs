//! Which code a runtime finds for a GPU, and in which of its modes.

use std::collections::BTreeSet;

use serde::Serialize;

use super::TargetId;
use super::processors::ModeSupport;

/// The kind of code that a runtime finds, the preferred kind first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CodeKind {
    /// Code for the processor itself.
    Native,
    /// Code for its generic processor.
    Generic,
    /// SPIR-V, which is compiled when it is loaded.
    Spirv,
}

/// What a runtime finds for a GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundCode {
    /// The kind of code if no mode was changed; `None` if there is none.
    pub kind: Option<CodeKind>,
    /// The code that is found then: positions in the list of what is present.
    pub found: Vec<usize>,
    /// Changes of modes after which code is found: `xnack+`.
    pub modes_with: Vec<String>,
    /// Changes of modes after which none is found.
    pub modes_without: Vec<String>,
}

impl TargetId {
    /// What a runtime finds among `present` for a GPU of this target. Modes that this target does not name are in their
    /// default state: ECC on, XNACK off.
    pub fn served_by(&self, present: &[&Self]) -> FoundCode {
        let default = self.default_device(false);
        let hits = default.finds(present);
        let found: Vec<_> = hits.iter().enumerate().filter(|(_, is_hit)| **is_hit).map(|(at, _)| at).collect();
        let kind = found.first().and_then(|&at| present.get(at)).map(|code| self.kind_of(code));
        let mut others = Vec::new();
        for name in self.device_names().into_iter().filter(|name| name.processor() == self.processor()) {
            let changed: Vec<_> =
                name.features().filter(|mode| default.features().all(|it| it != *mode)).map(str::to_owned).collect();
            if !changed.is_empty() {
                others.push((changed, name.finds(present).contains(&true)));
            }
        }
        let modes = |is_found: bool| smallest(others.iter().filter(|(_, it)| *it == is_found).map(|(modes, _)| modes));
        FoundCode { kind, found, modes_with: modes(true), modes_without: modes(false) }
    }

    /// Whether a runtime gives `code`, which is one of `present`, to a GPU of this target.
    pub fn takes(&self, code: &Self, present: &[&Self]) -> bool {
        self.served_by(present).found.iter().any(|&at| present.get(at).is_some_and(|found| *found == code))
    }

    /// The names of the devices that may be given code for this target: its own name, and one for each mode of each GPU
    /// that takes it. No device is called so if it is SPIR-V, or if its target is not understood; then it is the name alone.
    pub fn devices(&self) -> BTreeSet<Self> {
        let of_processor = |name: &str| Self::bare(name).device_names();
        let processors = super::fallback::processors_of(self.processor()).unwrap_or_default();
        let names = std::iter::once(self.processor()).chain(processors.iter().copied()).flat_map(of_processor);
        let takes = |name: &Self| name.candidates().iter().any(|candidate| candidate == self);
        let is_device = !self.is_spirv() && !self.is_unknown() && self.impossible_feature().is_none();
        names.filter(|name| is_device && takes(name)).chain([self.clone()]).collect()
    }

    /// The position of the code that a runtime loads for a device of exactly this name, of `present` in the order of their
    /// bundle. SPIR-V is loaded if it is asked for by name.
    pub fn loads(&self, present: &[&Self]) -> Option<usize> {
        if self.impossible_feature().is_some() {
            return present.iter().position(|code| *code == self);
        }
        let found = self.finds(present).iter().position(|is_found| *is_found);
        found.filter(|&at| self.is_spirv() || present.get(at).is_some_and(|code| !code.is_spirv()))
    }

    /// The kind of code that a GPU of this target runs.
    fn kind_of(&self, code: &Self) -> CodeKind {
        if code.is_spirv() {
            CodeKind::Spirv
        } else if code.processor() == self.processor() {
            CodeKind::Native
        } else {
            CodeKind::Generic
        }
    }

    /// The name of a GPU of this target with its modes in their default state, or with XNACK on. Modes that this target
    /// names stay; those that target IDs cannot name, or that runtimes do not, are not a part of it.
    #[must_use]
    pub fn default_device(&self, wants_xnack: bool) -> Self {
        let selectable = [("sramecc", "sramecc+"), ("xnack", if wants_xnack { "xnack+" } else { "xnack-" })]
            .into_iter()
            .filter(|(feature, _)| self.mode(feature) == Some(ModeSupport::Selectable));
        selectable.fold(self.clone(), |name, (feature, default)| name.with_default(feature, default))
    }
}

/// Changes of modes, without those that contain another one.
fn smallest<'a>(changes: impl Iterator<Item = &'a Vec<String>>) -> Vec<String> {
    let changes: Vec<_> = changes.collect();
    let contains =
        |one: &[String], other: &[String]| one.len() > other.len() && other.iter().all(|it| one.contains(it));
    let is_smallest = |one: &&&Vec<String>| !changes.iter().any(|other| contains(one, other));
    changes.iter().filter(is_smallest).map(|modes| modes.join(":")).collect()
}

#[cfg(test)]
mod tests {
    use super::{CodeKind, FoundCode, TargetId};

    fn served(gpu: &str, present: &[&str]) -> FoundCode {
        let present: Vec<TargetId> = present.iter().map(|target| target.parse().unwrap()).collect();
        gpu.parse::<TargetId>().unwrap().served_by(&present.iter().collect::<Vec<_>>())
    }

    #[test]
    fn devices_are_asked_for_in_each_mode() {
        let devices = |target: &str| {
            let names: Vec<_> = target.parse::<TargetId>().unwrap().devices().iter().map(ToString::to_string).collect();
            names.join(" ")
        };
        for (target, names) in [
            ("gfx90a:xnack-", "gfx90a:sramecc+:xnack- gfx90a:sramecc-:xnack- gfx90a:xnack-"),
            ("gfx1100", "gfx1100"),
            ("gfx1250", "gfx1250"),
            ("gfx12-generic", "gfx12-generic gfx1200 gfx1201"),
            ("gfx1250:xnack-", "gfx1250:xnack-"),
            ("amdgcnspirv", "amdgcnspirv"),
            ("unknown-gfx90a", "unknown-gfx90a"),
        ] {
            assert_eq!(devices(target), names);
        }
        let loads = |device: &str, present: &[&str]| {
            let present: Vec<TargetId> = present.iter().map(|target| target.parse().unwrap()).collect();
            device.parse::<TargetId>().unwrap().loads(&present.iter().collect::<Vec<_>>())
        };
        assert_eq!(loads("gfx90a:sramecc+:xnack-", &["gfx90a", "gfx90a:xnack-"]), Some(0));
        assert_eq!(loads("gfx942:sramecc+:xnack-", &["amdgcnspirv", "gfx9-4-generic", "gfx942:xnack+"]), Some(1));
        assert_eq!(loads("gfx1100", &["amdgcnspirv"]), None);
        assert_eq!(loads("amdgcnspirv", &["gfx1100", "amdgcnspirv"]), Some(1));
        assert_eq!(loads("gfx1250:xnack-", &["gfx1250", "gfx1250:xnack-"]), Some(1));
    }

    /// The modes of a processor that is not known.
    const BOTH: [&str; 4] = ["sramecc+:xnack+", "sramecc+:xnack-", "sramecc-:xnack+", "sramecc-:xnack-"];

    #[test]
    fn what_a_runtime_finds_in_each_mode() {
        use CodeKind::{Generic, Native, Spirv};
        let none: &[&str] = &[];
        for (gpu, present, kind, found, with, without) in [
            ("gfx942", &["gfx90a", "gfx942"][..], Some(Native), &[1][..], &["sramecc-", "xnack+"][..], none),
            ("gfx942", &["gfx90a"], None, &[], none, &["sramecc-", "xnack+"]),
            ("gfx942", &["gfx942:xnack+"], None, &[], &["xnack+"], &["sramecc-"]),
            ("gfx942", &["gfx942:xnack-"], Some(Native), &[0], &["sramecc-"], &["xnack+"]),
            ("gfx942", &["gfx942:sramecc-:xnack+"], None, &[], &["sramecc-:xnack+"], &["sramecc-", "xnack+"]),
            ("gfx942:xnack+", &["gfx942:xnack+"], Some(Native), &[0], &["sramecc-"], none),
            ("gfx942:xnack+", &["gfx942:xnack-"], None, &[], none, &["sramecc-"]),
            ("gfx942", &["gfx942:xnack+", "gfx9-4-generic"], Some(Generic), &[1], &["sramecc-", "xnack+"], none),
            ("gfx1100", &["gfx1101", "gfx11-generic", "amdgcnspirv"], Some(Generic), &[1], none, none),
            ("gfx1100", &["gfx1101", "amdgcnspirv"], Some(Spirv), &[1], none, none),
            ("gfx1100", &["gfx1100", "gfx11-generic"], Some(Native), &[0], none, none),
            ("gfx1250", &["gfx1250-strict"], None, &[], none, none),
            ("gfx1250", &["gfx1250:xnack-"], None, &[], none, none),
            ("gfx1251", &["gfx12-5-generic"], None, &[], none, none),
            ("gfx90c", &["gfx90c:xnack-"], None, &[], &["xnack-"], &["xnack+"]),
            ("gfx11-generic", &["gfx11-generic"], Some(Native), &[0], none, none),
            ("gfx9999", &["gfx9999"], Some(Native), &[0], &BOTH, none),
            ("gfx942", &[], None, &[], none, &["sramecc-", "xnack+"]),
        ] {
            let mut it = served(gpu, present);
            it.modes_with.sort();
            it.modes_without.sort();
            let mut expected = with.to_vec();
            expected.sort_unstable();
            assert_eq!((it.kind, &*it.found), (kind, found), "{gpu} {present:?}");
            assert_eq!(
                (it.modes_with, it.modes_without),
                (expected.iter().map(ToString::to_string).collect(), without.iter().map(ToString::to_string).collect()),
                "{gpu} {present:?}"
            );
        }
    }
}
