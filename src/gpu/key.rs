//! Bundle keys, which name device directories and device packages.

use std::borrow::Cow;
use std::str::FromStr;
use std::sync::Arc;

use super::hierarchy::{canonical_key, find_bundle, find_target};
use super::{Level, TargetId, TargetIdError};

/// The key of code whose target is not understood, and the beginning of the names of its targets.
pub const UNKNOWN: &str = "unknown";

/// The unit in which device code is packaged: a processor, a sub-family or a family. A name that the hierarchy does not
/// know is a key of its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Display)]
pub struct BundleKey(Arc<str>);

impl BundleKey {
    /// The key whose package has the code for `target`. Features and the strictness of gfx1250-strict make no
    /// difference. Code for a generic ISA belongs to the smallest family that contains all its processors. All code whose
    /// target is not understood belongs together.
    pub fn of(target: &TargetId) -> Self {
        if target.is_unknown() {
            return Self(UNKNOWN.into());
        }
        Self(canonical_key(target.processor()).into())
    }

    /// The key of the processor alone, which artifacts are named after: they keep generic ISAs and gfx1250-strict apart.
    pub fn of_processor(target: &TargetId) -> Self {
        Self(if target.is_unknown() { UNKNOWN } else { target.processor() }.into())
    }

    /// The family of the processors that run a generic ISA, if this key is one; otherwise the key itself.
    #[must_use]
    pub fn family_of_generic(&self) -> Self {
        let generic = self.0.parse().ok().filter(TargetId::is_generic);
        generic.map_or_else(|| self.clone(), |generic| Self::of(&generic))
    }

    /// The key as text: `gfx12_0`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a name is that of a key that the hierarchy knows.
    pub fn is_name(name: &str) -> bool {
        name.parse().is_ok_and(|key: Self| key.is_known())
    }

    /// Whether the hierarchy knows it.
    pub fn is_known(&self) -> bool {
        find_bundle(self.as_str()).is_some() || find_target(self.as_str()).is_some()
    }

    /// Its tier. A key that the hierarchy does not know counts as a target, except that of code whose target is not
    /// understood: no GPU needs it.
    pub fn level(&self) -> Level {
        let of_unknown = if self.as_str() == UNKNOWN { Level::Family } else { Level::Target };
        find_bundle(self.as_str()).map_or(of_unknown, |bundle| bundle.level)
    }

    /// The bundles that an installation for this key consists of, from this key upwards: target, sub-family, family.
    pub fn packaging_chain(&self) -> Vec<Self> {
        let sub_family = find_target(self.as_str()).map(|target| target.sub_family);
        let family = find_bundle(sub_family.unwrap_or(self.as_str())).and_then(|bundle| bundle.family);
        let parents = [sub_family, family].into_iter().flatten().map(|key| Self(key.into()));
        std::iter::once(self.clone()).chain(parents).collect()
    }

    /// Its display name: `RDNA3`, or the key itself for targets.
    pub fn display_name(&self) -> &str {
        find_bundle(self.as_str()).map_or(self.as_str(), |bundle| bundle.display_name)
    }

    /// Its form in the name of a Python distribution: `gfx12-0`.
    pub fn distribution_part(&self) -> Cow<'_, str> {
        if self.0.contains('_') { self.0.replace('_', "-").into() } else { self.as_str().into() }
    }

    /// Whether this bundle is needed when the GPU targets are restricted to `requested`: it is one of them, one of
    /// their parents, or a member of one of them.
    pub fn is_wanted_for(&self, requested: &[Self]) -> bool {
        let members_of = self.packaging_chain();
        requested.iter().any(|key| members_of.contains(key) || key.packaging_chain().contains(self))
    }
}

/// Accepts any name that users, archives and databases write: a target with or without features, a generic ISA, a key,
/// or an alias of one.
impl FromStr for BundleKey {
    type Err = TargetIdError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Ok(Self::of(&name.parse()?))
    }
}

#[cfg(test)]
mod tests {
    use super::BundleKey;
    use crate::gpu::Level;

    fn key(name: &str) -> BundleKey {
        name.parse().unwrap()
    }

    #[test]
    fn every_name_has_a_key() {
        for (name, expected) in [
            ("gfx90a:sramecc+:xnack-", "gfx90a"),
            ("gfx1250-strict", "gfx1250"),
            ("gfx1250-strict:xnack+", "gfx1250"),
            ("gfx9-generic", "gfx9_0"),
            ("gfx10-1-generic:xnack-", "gfx10_1"),
            ("gfx10-3-generic", "gfx10_3"),
            ("gfx11-generic", "gfx11"),
            ("gfx12-generic", "gfx12_0"),
            ("gfx12-5-generic", "gfx12_5"),
            ("gfx11_0", "gfx110x"),
            ("gfx11_5", "gfx115x"),
            ("gfx12_0", "gfx12_0"),
            ("gfx11", "gfx11"),
        ] {
            assert_eq!(key(name).as_str(), expected);
            assert!(key(name).is_known());
        }
        for name in [
            "gfx803",
            "gfx940",
            "amdgcnspirv",
            "gfx9999",
            "gfx11-7-generic",
            "gfx1170",
            "gfx13-generic",
            "gfx12-0",
            "gfx11xx",
        ] {
            let key = key(name);
            assert_eq!((key.as_str(), key.is_known(), key.level()), (name, false, Level::Target));
            assert_eq!((key.display_name(), key.packaging_chain()), (name, vec![key.clone()]));
        }
        assert!("../x".parse::<BundleKey>().is_err());
    }

    #[test]
    fn generic_code_reaches_every_processor_that_runs_it() {
        for target in crate::gpu::TARGETS {
            let chain = key(target.name).packaging_chain();
            for candidate in target.name.parse::<crate::gpu::TargetId>().unwrap().candidates() {
                assert!(chain.contains(&BundleKey::of(&candidate)), "{candidate} for {}", target.name);
            }
        }
        assert_eq!(key("gfx9-4-generic").as_str(), "gfx9");
    }

    #[test]
    fn chains_lead_upwards() {
        for (name, chain, level) in [
            ("gfx1100", &["gfx1100", "gfx110x", "gfx11"][..], Level::Target),
            ("gfx1250-strict", &["gfx1250", "gfx12_5", "gfx12"], Level::Target),
            ("gfx110x", &["gfx110x", "gfx11"], Level::SubFamily),
            ("gfx11", &["gfx11"], Level::Family),
        ] {
            let key = key(name);
            assert_eq!(key.packaging_chain().iter().map(BundleKey::as_str).collect::<Vec<_>>(), chain);
            assert_eq!(key.level(), level);
        }
    }

    #[test]
    fn names_for_people_and_for_distributions() {
        assert_eq!((key("gfx12_0").display_name(), &*key("gfx12_0").distribution_part()), ("RDNA4", "gfx12-0"));
        assert_eq!((key("gfx110x").display_name(), &*key("gfx110x").distribution_part()), ("RDNA3", "gfx110x"));
        assert_eq!((key("gfx942").display_name(), &*key("gfx942").distribution_part()), ("gfx942", "gfx942"));
    }

    #[test]
    fn requested_targets_keep_their_parents_and_families_their_members() {
        let wanted = |name: &str, requested: &[&str]| {
            key(name).is_wanted_for(&requested.iter().map(|name| key(name)).collect::<Vec<_>>())
        };
        for name in ["gfx1100", "gfx110x", "gfx11", "gfx11-generic"] {
            assert!(wanted(name, &["gfx942", "gfx1100"]), "{name}");
        }
        for name in ["gfx1101", "gfx115x", "gfx12", "gfx803", "amdgcnspirv"] {
            assert!(!wanted(name, &["gfx942", "gfx1100"]), "{name}");
        }
        for name in ["gfx1100", "gfx1153", "gfx115x", "gfx11"] {
            assert!(wanted(name, &["gfx11"]), "{name}");
        }
        assert!(wanted("gfx942:sramecc+:xnack-", &["gfx942"]) && wanted("gfx942", &["gfx942:xnack+"]));
        assert!(wanted("gfx803", &["gfx803"]) && wanted("gfx1250-strict", &["gfx1250"]));
        assert!(wanted("gfx11", &["gfx11_0"]) && !wanted("gfx1150", &["gfx11_0"]));
        assert!(!wanted("gfx942", &[]));
    }
}
