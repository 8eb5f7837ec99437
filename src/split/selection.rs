//! Which device parts are wanted.

use std::collections::BTreeSet;

use anyhow::bail;

use crate::gpu::{BundleKey, doubt};

/// The targets of a split. A generic ISA is wanted or excluded together with its family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Targets {
    /// Those to keep; all if `None`. Code and databases of others are omitted.
    pub wanted: Option<Vec<BundleKey>>,
    /// Targets and families to omit.
    pub excluded: Vec<BundleKey>,
}

/// A list of targets for messages.
pub fn join<'a>(keys: impl IntoIterator<Item = &'a BundleKey>) -> String {
    keys.into_iter().map(BundleKey::as_str).collect::<Vec<_>>().join(", ")
}

fn is_excluded(key: &BundleKey, excluded: &[BundleKey]) -> bool {
    !excluded.is_empty() && key.family_of_generic().packaging_chain().iter().any(|key| excluded.contains(key))
}

fn is_among(key: &BundleKey, wanted: &[BundleKey]) -> bool {
    key.family_of_generic().is_wanted_for(wanted)
}

impl Targets {
    /// Whether a device part is made, and files for this key are shown.
    pub fn contains(&self, key: &BundleKey) -> bool {
        !is_excluded(key, &self.excluded) && self.wanted.as_deref().is_none_or(|wanted| is_among(key, wanted))
    }

    /// Whether no target is left out.
    pub fn are_all(&self) -> bool {
        self.wanted.is_none() && self.excluded.is_empty()
    }

    /// Refuses a selection of targets for which the inputs have nothing. They are probably misspelt. `existing` are the
    /// device parts if all targets were wanted.
    pub fn check(&self, existing: &BTreeSet<BundleKey>) -> anyhow::Result<()> {
        let refuse = |option, wanted: &BundleKey| {
            let there = match join(existing) {
                none if none.is_empty() => {
                    "there is nothing to split in it; `kpackfs inspect` says what code it has".to_owned()
                }
                keys => format!("it has code for {keys}"),
            };
            bail!("{option} {wanted}: the input has nothing for it{}; {there}", doubt(wanted.as_str()))
        };
        let is_nothing = |is: fn(&BundleKey, &[BundleKey]) -> bool, target: &&BundleKey| {
            !existing.iter().any(|key| is(key, std::slice::from_ref(*target)))
        };
        if let Some(target) = self.wanted.iter().flatten().find(|target| is_nothing(is_among, target)) {
            return refuse("--gpu-targets", target);
        }
        match self.excluded.iter().find(|target| is_nothing(is_excluded, target)) {
            Some(target) => refuse("--exclude-targets", target),
            None => Ok(()),
        }
    }
}
