//! Which device parts are wanted.

use std::collections::{BTreeMap, BTreeSet};

use super::error::SplitError;
use super::options::{Packaging, PlanOptions};
use super::plan::{Destination, Plan};
use crate::database::Handler;
use crate::gpu::{BundleKey, TargetId};
use crate::source::Input;

/// Whether a device part is made, if `wanted` lists the targets to keep (all if `None`) and `excluded` those to omit.
pub fn is_wanted(key: &BundleKey, wanted: Option<&[BundleKey]>, excluded: &[BundleKey]) -> bool {
    !is_excluded(key, excluded) && is_among(key, wanted)
}

// A generic ISA is wanted or excluded together with its family.

fn is_excluded(key: &BundleKey, excluded: &[BundleKey]) -> bool {
    !excluded.is_empty() && key.family_of_generic().packaging_chain().iter().any(|key| excluded.contains(key))
}

fn is_among(key: &BundleKey, wanted: Option<&[BundleKey]>) -> bool {
    wanted.is_none_or(|wanted| key.family_of_generic().is_wanted_for(wanted))
}

/// The targets of a plan.
#[derive(Clone, Debug, Default)]
pub struct Targets {
    wanted: Option<Vec<BundleKey>>,
    excluded: Vec<BundleKey>,
}

impl Targets {
    pub(super) fn of(options: &PlanOptions) -> Self {
        Self { wanted: options.gpu_targets.clone(), excluded: options.exclude_targets.clone() }
    }

    /// Whether files for this key are shown.
    pub fn contains(&self, key: &BundleKey) -> bool {
        is_wanted(key, self.wanted.as_deref(), &self.excluded)
    }
}

impl PlanOptions {
    /// Whether a device part is made.
    pub fn wants(&self, key: &BundleKey) -> bool {
        is_wanted(key, self.gpu_targets.as_deref(), &self.exclude_targets)
    }
}

impl PlanOptions {
    /// Refuses a selection of targets for which the inputs have nothing. They are probably misspelt. `existing` are the
    /// device parts if all targets were wanted.
    pub fn check_selection(&self, existing: &BTreeSet<BundleKey>) -> Result<(), SplitError> {
        let refuse = |option, wanted: &BundleKey| {
            let (wanted, existing) = (wanted.clone(), existing.iter().cloned().collect());
            Err(SplitError::NoSuchTarget { option, wanted, existing })
        };
        let exists = |is: &dyn Fn(&BundleKey) -> bool| existing.iter().any(is);
        for target in self.gpu_targets.iter().flatten() {
            if !exists(&|key| is_among(key, Some(std::slice::from_ref(target)))) {
                return refuse("--gpu-targets", target);
            }
        }
        for target in &self.exclude_targets {
            if !exists(&|key| is_excluded(key, std::slice::from_ref(target))) {
                return refuse("--exclude-targets", target);
            }
        }
        Ok(())
    }
}

impl Plan {
    /// The number and the bytes of the database files of each handler and key.
    pub(crate) fn database_files(&self, input: &Input) -> BTreeMap<(Handler, &BundleKey), (usize, u64)> {
        let mut databases = BTreeMap::<_, (usize, u64)>::new();
        for (entry, place) in input.entries.iter().zip(&self.places) {
            if let Destination::Device(key, handler) = place {
                let (files, size) = databases.entry((*handler, key)).or_default();
                (*files, *size) = (*files + 1, *size + entry.size());
            }
        }
        databases
    }

    /// Fails like [`PlanOptions::check_selection`].
    pub fn check_selection(&self, options: &PlanOptions) -> Result<(), SplitError> {
        let is_all = options.gpu_targets.is_none() && options.exclude_targets.is_empty();
        if is_all { Ok(()) } else { options.check_selection(&self.keys_of_input(options.packaging)) }
    }

    /// The device parts if all targets were wanted.
    pub fn keys_of_input(&self, packaging: Packaging) -> BTreeSet<BundleKey> {
        let of_databases = self.places.iter().filter_map(|place| match place {
            Destination::Device(key, _) | Destination::Unwanted(key, _) => Some(key.clone()),
            Destination::Host | Destination::Rewritten { .. } | Destination::Held => None,
        });
        let of_code = self.targets_of_code().into_iter().map(|target| packaging.key_of(target));
        of_databases.chain(of_code).chain(self.of_wheels.iter().cloned()).collect()
    }

    /// The targets for which binaries have code.
    pub fn targets_of_code(&self) -> BTreeSet<&TargetId> {
        self.binaries.iter().flat_map(|binary| binary.code.keys()).collect()
    }
}
