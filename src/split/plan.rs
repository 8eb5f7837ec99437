//! The plan: the user's choices, and the decisions about an input, with the device parts that are wanted, and paths that two files claim, one of which an installer
//! would silently overwrite.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::content_code::ContentCode;
use super::error::SplitError;
use super::file_digest::FileDigest;
use super::roots::Roots;
use crate::binary::Rewritten;
use crate::database::{Arch, Databases, Handler};
use crate::fatbin::Compressed;
use crate::gpu::{BundleKey, TargetId};
use crate::kpack::{ArchiveRope, BundleJobs, Compression};
use crate::loader::DOT_KPACK;
use crate::memory::ParserMemory;
use crate::source::{Attributes, Entry, EntryKind, EntryPath, Input};
use crate::wheel;

/// The decisions about a whole input.
#[derive(Debug)]
pub struct Plan {
    /// The destination of each entry of the input, in the same order.
    pub places: Vec<Destination>,
    /// The archives, sorted by path.
    pub archives: Vec<PlannedArchive>,
    /// The binaries that were rewritten, sorted by path.
    pub binaries: Vec<PlannedBinary>,
    /// Bundle files with code for several targets.
    pub bundle_files: Vec<BundleFile>,
    /// The targets of databases for some modes of a GPU only, such as `gfx90a:xnack+`, by path in the input.
    pub modes: BTreeMap<EntryPath, TargetId>,
    /// The targets of databases for generic processors, such as `gfx9-4-generic`, by path in the input. Their part is that of
    /// a family, of which not all GPUs may run the code.
    pub generic: BTreeMap<EntryPath, (TargetId, Handler)>,
    /// Every bundle key that has an archive or a database, or a device wheel in the input.
    pub keys: BTreeSet<BundleKey>,
    /// Files that device parts have because the device wheels of the input have them, sorted by path.
    pub held: BTreeMap<BundleKey, Vec<Entry>>,
    /// Whether the input is a host wheel with device wheels in which there is nothing to split, so that all of them stay
    /// as they are.
    pub keeps_wheels: bool,
    /// First part of the archives' names.
    pub group: String,
    /// Warnings for the user: what could not be split, and why.
    pub warnings: Vec<String>,
    /// The targets of the plan.
    pub targets: Targets,
    /// How device parts are divided.
    pub packaging: Packaging,
    /// The databases that are moved out of the host part.
    pub databases: Databases,
    /// See [`PlanOptions::manifests`](super::PlanOptions::manifests).
    pub manifests: Option<FileDigest>,
    /// Makes compressed code objects and bundles.
    pub jobs: Arc<BundleJobs>,
    /// Binaries that were joined with their archives.
    pub joined: BTreeSet<EntryPath>,
    /// Entries of the input that are made, and no files of it: the statement of what was collected.
    pub made: BTreeSet<EntryPath>,
    /// Binaries that keep their device code because they cannot be split. `warnings` has the reasons.
    pub unsplit: Vec<EntryPath>,
    /// The parts that have device wheels in the input, also those that are not wanted.
    pub(super) of_wheels: BTreeSet<BundleKey>,
    /// The device code that scanning found in entries, by their positions in the input; `None` if there is none.
    pub(super) searched: HashMap<usize, Option<Box<ContentCode>>>,
    /// The memory of what was read of the input's bundles.
    pub(super) tables: Vec<ParserMemory>,
}

/// The destination of an entry of the input.
#[derive(Clone, Debug)]
pub enum Destination {
    /// The host part, unchanged.
    Host,
    /// The host part, without device code.
    Rewritten {
        /// The rewritten binary.
        content: Arc<Rewritten>,
        /// Its compressed offload bundles.
        bundles: Arc<[Arc<Compressed>]>,
        /// Number of its wrappers.
        wrappers: usize,
        /// Entries with the same number are hard links to one file.
        link_group: Option<u64>,
    },
    /// The device part of a key: a database.
    Device(BundleKey, Handler),
    /// The device parts of the wheels that hold it in the input: see [`Plan::held`].
    Held,
    /// None: a database of a target that is not wanted.
    Unwanted(BundleKey, Handler),
}

/// A new archive.
#[derive(Debug)]
pub struct PlannedArchive {
    /// Its path, in the device part and in trees that the part is overlaid on.
    pub path: EntryPath,
    /// The device part that it belongs to.
    pub key: BundleKey,
    /// Its content.
    pub archive: Arc<ArchiveRope>,
    /// Its attributes. The time is that of the newest binary in it.
    pub attributes: Attributes,
}

/// A binary that is split.
#[derive(Debug)]
pub struct PlannedBinary {
    /// Its path.
    pub path: EntryPath,
    /// Its name in archives: its path below the overlay root.
    pub kernel_name: String,
    /// Where its archives are installed: their overlay root, and the first part of their names.
    pub archives: (EntryPath, String),
    /// Bytes in the input.
    pub size: u64,
    /// Bytes without device code.
    pub host_size: u64,
    /// For each wrapper, the targets for which it has code and the sizes of the code objects in bytes.
    pub wrappers: Vec<Vec<(TargetId, u64)>>,
    /// The number and the bytes of all code objects for each target.
    pub code: BTreeMap<TargetId, (u64, u64)>,
    /// For each wrapper, the first wrapper that leads to the same bundle.
    pub(super) sharing: Vec<usize>,
}

impl PlannedBinary {
    /// Like `wrappers`, for each bundle. Wrappers may share one.
    pub fn bundles(&self) -> impl Iterator<Item = &[(TargetId, u64)]> {
        let wrappers = self.wrappers.iter().zip(&self.sharing).enumerate();
        wrappers.filter(|(number, (_, first))| number == *first).map(|(_, (code, _))| code.as_slice())
    }
}

/// A file that is a bundle with code for several targets.
#[derive(Debug)]
pub struct BundleFile {
    /// Its path in the input.
    pub path: EntryPath,
    /// The targets for which it has code.
    pub targets: BTreeSet<TargetId>,
}

impl Plan {
    /// Records that a binary stays unchanged.
    pub(super) fn refuse(&mut self, path: &EntryPath, reason: &dyn std::fmt::Display) {
        let (name, reason) = (path.to_string(), reason.to_string());
        // Read errors name the file themselves.
        let reason = reason.strip_prefix(&name).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(&reason);
        self.warnings.push(format!("{name}: not split: {reason}"));
        self.unsplit.push(path.clone());
    }
}

/// Refuses a wheel in which two different members are installed at one path.
pub(super) fn check_members(input: &Input) -> Result<(), SplitError> {
    let is_moved = |entry: &&Entry| wheel::installed(&entry.path) != entry.path;
    if input.dist_info().is_none() || !input.entries.iter().any(|entry| is_moved(&entry)) {
        return Ok(());
    }
    let mut existing = BTreeMap::<EntryPath, &Entry>::new();
    for entry in &input.entries {
        let installed = wheel::installed(&entry.path);
        if let Some(first) = existing.get(&installed)
            && let Some(reason) = first.kind.difference(&entry.kind)?
        {
            let (first, second) = (first.path.clone(), entry.path.clone());
            return Err(SplitError::OnePath { first, second, installed, reason });
        }
        existing.insert(installed, entry);
    }
    Ok(())
}

/// Refuses archives if the input has anything but directories on their paths.
pub(super) fn check_archives(input: &Input, plan: &Plan, roots: &Roots) -> Result<(), SplitError> {
    let is_near = |entry: &&Entry| {
        !matches!(entry.kind, EntryKind::Directory) && entry.path.components().any(|name| name == DOT_KPACK.as_bytes())
    };
    let existing: BTreeMap<_, _> =
        input.entries.iter().filter(is_near).map(|entry| (roots.installed(&entry.path), &entry.path)).collect();
    for planned in &plan.archives {
        let archive = roots.installed(&planned.path);
        let mut above = std::iter::successors(Some(archive), EntryPath::parent);
        if let Some(path) = above.find_map(|path| existing.get(&path)) {
            return Err(SplitError::Blocked { path: (*path).clone(), archive: planned.path.clone() });
        }
    }
    Ok(())
}

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

/// The user's choices.
#[derive(Clone, Debug, Default)]
pub struct PlanOptions {
    /// The databases that are moved out of the host part.
    pub databases: Databases,
    /// The wanted targets; all if `None`. Code and databases of other targets are omitted.
    pub gpu_targets: Option<Vec<BundleKey>>,
    /// Targets and families to omit.
    pub exclude_targets: Vec<BundleKey>,
    /// How device parts are divided.
    pub packaging: Packaging,
    /// Directories that contain a `.kpack` directory each. If `None`, these are the top-level packages of a wheel that
    /// have device code, or the root of an install tree; in `usr` and `opt` of a tree, the directories of binaries.
    pub overlay_roots: Option<Vec<EntryPath>>,
    /// First part of the archives' names. If `None`, the name of the wheel, or `rocm` for an install tree; in its `usr` and
    /// `opt`, the name of the binary.
    pub group: Option<String>,
    /// The compression of code objects.
    pub compression: Compression,
    /// How the digests in the manifests of trees and artifacts are computed; `None` if there are no manifests.
    pub manifests: Option<FileDigest>,
}

/// How device parts are divided, and where archives are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Packaging {
    /// As in wheels: a part for each bundle key, and an archive in each overlay root.
    #[default]
    Bundles,
    /// As in artifacts: a part for each processor. The overlay roots are prefixes that an installation lays over each
    /// other. So there is one archive for each target, in the first prefix that has code for it, and binaries are named
    /// by their whole path.
    Processors,
}

impl Packaging {
    /// The device part for code for `target`.
    pub fn key_of(self, target: &TargetId) -> BundleKey {
        match self {
            Self::Bundles => BundleKey::of(target),
            Self::Processors => BundleKey::of_processor(target),
        }
    }

    /// The device part for a database file.
    pub fn key_of_database(self, arch: &Arch) -> BundleKey {
        match arch {
            Arch::Target(target) => self.key_of(target),
            Arch::Bundle(key) => key.clone(),
        }
    }
}
