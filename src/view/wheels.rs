//! The wheels of a split, and the dist-info that makes each part's directory the unpacked form of its wheel.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;

use super::payload::{device_payload, fat_payload, host_payload};
use super::wheel_part::WheelPart;
use crate::gpu::{BundleKey, GpuSet};
use crate::kpack::make_archives;
use crate::resources::Resources;
use crate::rope::ReadError;
use crate::source::{Entry, EntryKind, Input, InputKind};
use crate::split::{Destination, Plan, Statement};
use crate::wheel::{
    AssemblyOptions, Digest, DosTime, FatWheel, Paths, SplitWheel, VariantLabel, WheelError, Wheels, normalise,
};

/// What a user can choose about wheels.
#[derive(Clone, Debug, Default)]
pub struct WheelOptions {
    /// How device wheels are called and what they require.
    pub names: AssemblyOptions,
    /// The label of the variant wheel, if there is to be one.
    pub variant: Option<VariantLabel>,
    /// What host wheels say of the split's restrictions, if there are any. Thin wheels name their GPUs as well.
    pub statement: Statement,
    /// Whether the versions of thin wheels name the GPUs.
    pub has_local_versions: bool,
    /// The time that all files in the wheels have.
    pub stamp: DosTime,
    /// Differs when options differ that the wheels depend on. It becomes a part of their time of change, because uv takes
    /// a wheel of the same path and time for the same wheel.
    pub fingerprint: u32,
}

/// All wheels of a split.
#[derive(Debug)]
pub struct WheelSet {
    /// The host wheel, and the variant wheel if there is one.
    pub hosts: Vec<Arc<WheelPart>>,
    /// The device wheels.
    pub devices: BTreeMap<BundleKey, Arc<WheelPart>>,
    /// The wheel as it was before it was split, if the input is split.
    pub fat: Option<Arc<WheelPart>>,
    /// The name and text of the file that has to lie next to a variant wheel.
    pub variants_index: Option<(String, String)>,
    /// What the user should know.
    pub warnings: Vec<String>,
    /// Whether the wheels lack symlinks that the input has; `warnings` name them.
    pub has_symlinks: bool,
    /// See [`WheelOptions::has_local_versions`].
    pub has_local_versions: bool,
    /// See [`WheelOptions::fingerprint`].
    pub fingerprint: u32,
    pub(super) statement: Statement,
    wheels: Arc<Wheels>,
    /// Of the rewritten binaries as the input has them.
    originals: Vec<Digest>,
}

impl WheelSet {
    /// The wheels that a wheel is split into; `None` if the input is no wheel.
    pub fn new(
        input: &Input,
        plan: &Plan,
        options: &WheelOptions,
        resources: &Arc<Resources>,
    ) -> Result<Option<Self>, WheelError> {
        if input.dist_info().is_none() {
            return Ok(None);
        }
        let is_split = matches!(input.kind, InputKind::Wheels(_)) || !plan.joined.is_empty();
        let fat = FatWheel::joined(input, is_split.then_some(&plan.joined), resources)?;
        let wheels = Wheels::new(fat, plan.keys.iter().cloned(), &options.names)?;
        let statement = options.statement.is_restricted().then(|| options.statement.to_json());
        let mut wheels = wheels.with_statement(statement);
        let host = host_payload(input, plan, &wheels)?;
        let variant = options.variant.as_ref().map(|label| (SplitWheel::Variant(label.clone()), host.clone()));
        let variants_index = options.variant.as_ref().map(|label| wheels.variants_index(label)).transpose()?;
        let mut contents = vec![(SplitWheel::Host, host)];
        contents.extend(variant);
        for key in &plan.keys {
            contents.push((SplitWheel::Device(key.clone()), device_payload(input, plan, &wheels, key)?));
        }
        if is_split {
            contents.push((SplitWheel::Fat, fat_payload(input, plan, &wheels)?));
        }
        let contents = contents.into_iter().map(|(part, payload)| {
            let paths = wheels.paths(&part)?;
            let dist_info = wheels.dist_info(&part, payload.iter().filter_map(|payload| payload.path(&paths)))?;
            Ok((part, payload, dist_info))
        });
        let contents = contents.collect::<Result<Vec<_>, WheelError>>()?;
        let places = input.entries.iter().zip(&plan.places);
        let rewritten = places.filter(|(_, place)| matches!(place, Destination::Rewritten { .. }));
        let originals = rewritten.filter_map(|(entry, _)| wheels.claimed(entry)).collect();
        wheels.forget_claims();
        let wheels = Arc::new(wheels);
        let (mut hosts, mut devices, mut fat) = (Vec::new(), BTreeMap::new(), None);
        for (part, payload, dist_info) in contents {
            let part = WheelPart::new(part, &wheels, payload, dist_info, options.stamp, resources);
            match part.part() {
                SplitWheel::Device(key) => drop(devices.insert(key.clone(), part)),
                SplitWheel::Fat => fat = Some(part),
                SplitWheel::Host | SplitWheel::Variant(_) | SplitWheel::Thin { .. } => hosts.push(part),
            }
        }
        let mut warnings = wheels.warnings();
        if let Some(host) = hosts.first() {
            warnings.extend(host.warnings()?);
        }
        let links = symlinks(input);
        let has_symlinks = !links.is_empty();
        warnings.extend(links.into_iter().map(|link| {
            format!("{link}: in no wheel, which cannot hold symlinks; it leads to no file of the input to put a copy of there")
        }));
        let fingerprint = options.fingerprint;
        let has_local_versions = options.has_local_versions;
        Ok(Some(Self {
            hosts,
            devices,
            fat,
            variants_index,
            warnings,
            has_symlinks,
            has_local_versions,
            fingerprint,
            statement: options.statement.clone(),
            wheels,
            originals,
        }))
    }

    /// Compares all files of the input with what its RECORD claims of them. What differs is said in the log, and not passed
    /// on. Fails if one of those that are taken over cannot be read: the bytes of a member are copied as they are stored, so
    /// nothing else would notice. Adds the bytes that are compared to `done`.
    pub fn check_claims(&self, done: &AtomicU64) -> Result<(), ReadError> {
        let parts = self.hosts.iter().take(1).chain(self.devices.values());
        let taken_over: Vec<_> = parts.flat_map(|part| part.taken_over()).collect();
        let mut digests: Vec<_> = self.originals.iter().chain(taken_over.iter().map(|digest| &**digest)).collect();
        digests.sort_by_key(|digest| Reverse(digest.content().size()));
        digests.par_iter().with_max_len(1).try_for_each(|digest| {
            digest.check_claim()?;
            done.fetch_add(digest.content().size(), Ordering::Relaxed);
            Ok(())
        })?;
        for part in self.hosts.iter().chain(self.devices.values()) {
            part.forget_record();
        }
        Ok(())
    }

    /// The device distributions that the METADATA of a wheel which was split names, and that are none of these wheels.
    pub fn missing_devices(&self) -> Vec<&str> {
        let there: Vec<_> = self.wheels.devices().all().into_iter().map(normalise).collect();
        self.wheels.named_devices().filter(|&name| !there.iter().any(|there| there == name)).collect()
    }

    /// The file name of the thin wheel for some GPUs.
    pub fn thin_file_name(&self, gpus: &GpuSet) -> Result<String, WheelError> {
        let part = SplitWheel::Thin { gpus: gpus.clone(), has_local_version: self.has_local_versions };
        Ok(self.wheels.name(&part)?.to_string())
    }

    /// Makes on all cores what reading these wheels needs: archives, for which each bundle is decompressed once, and
    /// digests. Adds the bytes that are compressed to `done`.
    pub fn make(parts: &[Arc<WheelPart>], done: &AtomicU64) -> Result<(), ReadError> {
        make_archives(&parts.iter().flat_map(|part| part.archives()).collect::<Vec<_>>(), done)?;
        let mut digests = Vec::new();
        for part in parts {
            digests.extend(part.assembled()?.unknown_digests());
        }
        digests.sort_by_cached_key(|digest| Reverse(digest.content().size()));
        digests.par_iter().with_max_len(1).try_for_each(|digest| digest.sums().map(drop))
    }

    /// Where paths of the input are in a part.
    pub(super) fn paths(&self, part: &SplitWheel) -> Result<Paths<'_>, WheelError> {
        self.wheels.paths(part)
    }
}

/// The symlinks of the input, with what they lead to.
fn symlinks(input: &Input) -> Vec<String> {
    let link = |entry: &Entry| match &entry.kind {
        EntryKind::Symlink(target) => Some(format!("{:?} -> {:?}", entry.path, String::from_utf8_lossy(target))),
        EntryKind::Directory | EntryKind::File { .. } => None,
    };
    input.entries.iter().filter_map(link).collect()
}
