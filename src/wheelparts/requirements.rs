//! Requirements with extras for GPUs in the wheels of a split: METADATA of each wheel, and what the user should know.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::Wheels;
use crate::gpu::{BundleKey, GpuSet, Level, UNKNOWN};
use crate::wheel::{
    GpuRequirement, KnownExtras, Metadata, PartExtra, Requirements, TARGET, WheelError, normalise, required_name,
};

impl Wheels {
    fn known(&self) -> Option<&KnownExtras> {
        match &self.options.requirements {
            Requirements::Keep => None,
            Requirements::Split(known) => Some(known),
        }
    }

    /// Whether parts have different requirements.
    pub(super) fn splits_requirements(&self) -> bool {
        self.known().is_some()
    }

    /// METADATA of host wheels without the lines that a split adds.
    pub(super) fn host_metadata(&self) -> Result<Cow<'_, Metadata>, WheelError> {
        let Some(_) = self.known() else { return Ok(Cow::Borrowed(&self.fat.metadata)) };
        Ok(Cow::Owned(self.fat.metadata.for_host()?))
    }

    /// METADATA of a thin wheel for these GPUs, or of the fat wheel.
    pub(super) fn whole_metadata(&self, gpus: Option<&GpuSet>) -> Result<Cow<'_, Metadata>, WheelError> {
        let Some((gpus, known)) = gpus.zip(self.known()) else { return Ok(Cow::Borrowed(&self.fat.metadata)) };
        Ok(Cow::Owned(self.fat.metadata.for_gpus(gpus, known)?))
    }

    /// What the device wheel of a key requires instead of the host wheel, and what that of the input requires.
    pub(super) fn requirements_of(&self, key: &BundleKey) -> Vec<String> {
        let mut all = self.known().map(|known| self.fat.metadata.device_requirements(key, known)).unwrap_or_default();
        // Those on distributions with extras for GPUs are made again.
        let made: BTreeSet<_> = self.fat.metadata.gpu_requirements().map(|it| normalise(it.name)).collect();
        let given = self.options.device_requires.iter().map(|it| it.trim().replace(TARGET, key.as_str()));
        let given: BTreeSet<_> = given.collect();
        let own = self.required.get(key).into_iter().flatten();
        let own = own.filter(|it| !given.contains(*it) && !made.contains(&normalise(required_name(it))));
        all.extend(own.cloned());
        all
    }

    /// The fields of METADATA that host wheels have in another form, as they are in the fat wheel.
    pub(super) fn replaced_requirements(&self) -> Vec<String> {
        self.known().map(|_| self.fat.metadata.replaced_fields()).unwrap_or_default()
    }

    /// Requirements that some parts lack, or that cannot be split.
    pub(super) fn requirement_warnings(&self) -> Vec<String> {
        let (metadata, Some(known)) = (&self.fat.metadata, self.known()) else { return Vec::new() };
        let of_one = |requirement: GpuRequirement<'_>| {
            let text = requirement.original(metadata);
            if requirement.depends_on_extra() {
                return Some(format!(
                    "METADATA: {text}: kept in the host wheel, since device wheels cannot depend on its extras"
                ));
            }
            let without = self.keys_without(&requirement, known);
            let list = without.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            (!without.is_empty()).then(|| {
                format!(
                    "METADATA: {text}: there is no extra of {} for {list}, whose wheels do not require it",
                    requirement.name
                )
            })
        };
        metadata.gpu_requirements().filter_map(of_one).collect()
    }

    /// The keys for which no wheel requires an extra.
    fn keys_without(&self, requirement: &GpuRequirement<'_>, known: &KnownExtras) -> BTreeSet<BundleKey> {
        // The wheel of a family needs no extra if each of its users also has the wheel of a target.
        let has_target = |key: &BundleKey| self.devices.targets().any(|target| target.packaging_chain().contains(key));
        let is_without = |key: &&BundleKey| match requirement.extra(key, known) {
            Some(PartExtra::Missing(_)) => true,
            Some(PartExtra::Known(_) | PartExtra::Unchecked(_)) => false,
            None => key.level() != Level::Target && key.as_str() != UNKNOWN && !has_target(key),
        };
        self.devices.keys().filter(is_without).cloned().collect()
    }

    /// What the split of requirements did, or would do.
    pub(super) fn requirement_notes(&self) -> Vec<String> {
        let metadata = &self.fat.metadata;
        let is_wanted = |it: &GpuRequirement<'_>| it.has_several_gpus() || self.splits_requirements();
        let split = metadata.split_requirements().filter(is_wanted).map(|requirement| {
            let (text, name) = (requirement.original(metadata), requirement.name);
            let Some(known) = self.known() else {
                return format!(
                    "METADATA: {text}: every installation fetches what all of these GPUs need of {name}; with \
                     --requirements split, each device wheel and each thin wheel requires the extra of its own GPU"
                );
            };
            let unchecked = self.devices.keys().filter_map(|key| match requirement.extra(key, known)? {
                PartExtra::Unchecked(name) => Some(name),
                PartExtra::Known(_) | PartExtra::Missing(_) => None,
            });
            let unchecked = unchecked.collect::<Vec<_>>().join(", ");
            let host = requirement.of_host();
            let of_file = known.source(name).map(|file| format!(", which {file} declares")).unwrap_or_default();
            let done = format!(
                "METADATA: {text}: the host wheel requires {host}, other wheels the extras of their GPUs{of_file}"
            );
            if unchecked.is_empty() {
                return done;
            }
            format!(
                "{done}; unchecked, since the extras of {name} are not known: {unchecked} (state them with \
                 --requirements {name}=LIST)"
            )
        });
        split.collect()
    }
}
