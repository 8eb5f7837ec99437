//! The GPUs that a plan serves: by parts of their own, by code for their generic processor, by what their family shares, or by
//! SPIR-V.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::database::Handler;
use crate::gpu::{BundleKey, GpuSet, Level, TARGETS, TargetId};
use crate::source::EntryPath;
use crate::split::{Destination, MERGED, Plan, Targets};

/// The most listed views, since a crafted input may name thousands of targets. Others can be looked up by name.
const MAX_LISTED: usize = 256;

/// The GPUs for which the input has code or databases.
pub(super) struct ServedGpus {
    /// The targets for which the input has code.
    code: Vec<TargetId>,
    /// The parts that have databases.
    databases: BTreeSet<BundleKey>,
    /// The targets of databases for some modes only.
    modes: BTreeSet<TargetId>,
    targets: Targets,
    /// The GPUs with a merged view.
    pub(super) merged: BTreeSet<BundleKey>,
    /// The sets of GPUs with a listed view: those that the input has something for, and those that can run its generic
    /// code, that of their family, or SPIR-V.
    pub(super) listed: Vec<GpuSet>,
}

/// Whether there is a thin view for a GPU: the plan has code or databases for it.
pub fn serves(plan: &Plan, gpu: &TargetId) -> bool {
    GpuSet::new([gpu.clone()]).is_some_and(|gpus| ServedGpus::new(plan).serves(&gpus))
}

/// How a GPU gets code of a split, the best one first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ServedBy {
    /// It has a part of its own.
    Own,
    /// By code for its generic processor.
    Generic,
    /// By what all GPUs of its family share.
    Family,
}

/// The GPUs for which there is an installation of the parts of a plan.
pub fn users_of(plan: &Plan) -> BTreeMap<BundleKey, ServedBy> {
    let served = ServedGpus::new(plan);
    let own = plan.keys.iter().filter(|key| key.level() == Level::Target).cloned();
    let users = own.chain(served.merged.iter().cloned());
    let how = |key: &BundleKey| {
        let gpu = key.as_str().parse::<TargetId>().ok();
        let is_generic = |gpu: &TargetId| served.code.iter().any(|code| code.is_generic() && is_given(gpu, code));
        match gpu {
            _ if plan.keys.contains(key) => ServedBy::Own,
            Some(gpu) if is_generic(&gpu) => ServedBy::Generic,
            _ => ServedBy::Family,
        }
    };
    users.map(|key| (key.clone(), how(&key))).collect()
}

/// The merged views of GPUs for which only databases have files.
pub fn views_without_code(plan: &Plan) -> impl Iterator<Item = String> {
    let has_archive = |key: &BundleKey| {
        let chain = key.packaging_chain();
        plan.archives.iter().any(|archive| chain.contains(&archive.key))
    };
    users_of(plan).into_keys().filter(move |key| !has_archive(key)).map(|key| format!("{MERGED}/{key}"))
}

/// The GPUs with a listed thin view: those that a plan has code or databases for.
pub fn gpus_of(plan: &Plan) -> Vec<GpuSet> {
    ServedGpus::new(plan).listed
}

impl ServedGpus {
    pub(super) fn new(plan: &Plan) -> Self {
        let of_files = plan.bundle_files.iter().flat_map(|file| &file.targets);
        let targets = plan.options.targets.clone();
        let is_wanted = |target: &&TargetId| targets.contains(&BundleKey::of(target));
        // Libraries ask for caches by the names of GPUs only.
        let is_cache = |path: &EntryPath, handler: Handler| handler.kind(path).is_none();
        let generic = plan.generic.iter().filter(|(path, (_, handler))| !is_cache(path, *handler));
        let generic = generic.map(|(_, (target, _))| target).filter(is_wanted);
        let code: BTreeSet<&TargetId> = plan.targets_of_code().into_iter().chain(of_files).chain(generic).collect();
        let code = code.into_iter().cloned().collect();
        let modes = plan.modes.values().filter(is_wanted).cloned().collect();
        let (merged, listed) = (BTreeSet::new(), Vec::new());
        let mut served = Self { code, databases: databases(plan), modes, targets, merged, listed };
        let gpus = served.gpus();
        served.merged = gpus.iter().map(BundleKey::of).collect();
        // Loaders do not look for SPIR-V in archives, but thin binaries have it.
        let is_portable = gpus.is_empty() && served.code.iter().any(TargetId::is_spirv);
        let gpus = if is_portable { all_gpus().collect() } else { gpus };
        // There may be code that no GPU runs.
        let sets = gpus.into_iter().filter_map(|gpu| GpuSet::new([gpu])).filter(|gpus| served.serves(gpus));
        served.listed = sets.take(MAX_LISTED).collect();
        served
    }

    /// The GPUs that the input is for: those with code or databases of their own, or for their generic processor, and those
    /// of families that have nothing but what they share. All of them are wanted.
    fn gpus(&self) -> BTreeSet<TargetId> {
        let native = self.code.iter().filter(|code| BundleKey::of(code).level() == Level::Target && !code.is_generic());
        let native = native.map(TargetId::without_features).filter(|code| code.to_string().starts_with("gfx"));
        let generic = all_gpus().filter(|gpu| self.code.iter().any(|code| code.is_generic() && is_given(gpu, code)));
        let of_databases = self.databases.iter().cloned().chain(self.modes.iter().map(BundleKey::of));
        let (own, shared): (Vec<_>, Vec<_>) = of_databases.partition(|key| key.level() == Level::Target);
        let own = own.iter().filter_map(|key| key.as_str().parse().ok());
        // GPUs that share a package share a view: gfx1250-strict is a revision of gfx1250.
        let has_view = |gpu: &TargetId| BundleKey::of(gpu).as_str() == gpu.processor();
        let mut gpus: BTreeSet<TargetId> = native.chain(generic).chain(own).filter(has_view).collect();
        let members = |key: &BundleKey| -> Vec<TargetId> {
            all_gpus().filter(|gpu| BundleKey::of(gpu).packaging_chain().contains(key)).collect()
        };
        let families: Vec<_> = shared.iter().map(members).collect();
        let alone = families.into_iter().filter(|members| !members.iter().any(|gpu| gpus.contains(gpu)));
        let alone: Vec<_> = alone.flatten().filter(has_view).collect();
        gpus.extend(alone);
        gpus.retain(|gpu| self.targets.contains(&BundleKey::of(gpu)));
        gpus
    }

    /// Whether the input has code or databases for each of the GPUs. `false` for families.
    pub(super) fn serves(&self, gpus: &GpuSet) -> bool {
        let chain = |gpu: &TargetId| BundleKey::of(gpu).packaging_chain();
        let has_code = |gpu: &TargetId| self.code.iter().any(|code| is_given(gpu, code));
        let has_modes = |gpu: &TargetId| {
            GpuSet::new([gpu.clone()]).is_some_and(|gpu| self.modes.iter().any(|target| gpu.has_modes_of(target)))
        };
        let has_databases = |gpu: &TargetId| {
            !gpu.is_generic() && (chain(gpu).iter().any(|key| self.databases.contains(key)) || has_modes(gpu))
        };
        let is_family = |gpu: &TargetId| !gpu.is_generic() && BundleKey::of(gpu).level() != Level::Target;
        let is_wanted = |gpu: &TargetId| self.targets.contains(&BundleKey::of(gpu));
        gpus.targets().iter().all(|gpu| !is_family(gpu) && is_wanted(gpu) && (has_code(gpu) || has_databases(gpu)))
    }
}

/// All GPUs for which packages exist.
fn all_gpus() -> impl Iterator<Item = TargetId> {
    TARGETS.iter().filter_map(|target| target.name.parse().ok())
}

/// The parts that have databases for all modes of a GPU, or what device wheels hold. Those for generic processors do not
/// count.
fn databases(plan: &Plan) -> BTreeSet<BundleKey> {
    let mut files = BTreeMap::<_, usize>::new();
    for place in &plan.places {
        if let Destination::Device(key, _) = place {
            *files.entry(key.clone()).or_default() += 1;
        }
    }
    let held: BTreeSet<_> = plan.held.values().flatten().map(|entry| &entry.path).collect();
    let generic = plan.generic.iter().map(|(path, (target, _))| (path, target));
    for (_, target) in plan.modes.iter().chain(generic).filter(|(path, _)| !held.contains(path)) {
        files.entry(plan.options.packaging.key_of(target)).and_modify(|count| *count = count.saturating_sub(1));
    }
    let of_files = files.into_iter().filter(|(_, count)| *count > 0).map(|(key, _)| key);
    of_files.chain(plan.held.keys().cloned()).collect()
}

/// Whether a GPU can run this code.
fn is_given(gpu: &TargetId, code: &TargetId) -> bool {
    GpuSet::new([gpu.clone()]).is_some_and(|gpus| gpus.keeps(&[code]) == [true])
}
