//! The plan: the decisions about an input.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::content_code::ContentCode;
use super::options::PlanOptions;
use crate::binary::Rewritten;
use crate::database::Handler;
use crate::fatbin::Compressed;
use crate::gpu::{BundleKey, TargetId};
use crate::kpack::{ArchiveRope, BundleJobs};
use crate::memory::ParserMemory;
use crate::source::{Attributes, Entry, EntryPath, Input};

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
    /// What the user chose.
    pub options: PlanOptions,
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

    /// Fails like [`Targets::check`].
    pub fn check_selection(&self) -> anyhow::Result<()> {
        let targets = &self.options.targets;
        if targets.are_all() { Ok(()) } else { targets.check(&self.keys_of_input()) }
    }

    /// The device parts if all targets were wanted.
    pub fn keys_of_input(&self) -> BTreeSet<BundleKey> {
        let of_databases = self.places.iter().filter_map(|place| match place {
            Destination::Device(key, _) | Destination::Unwanted(key, _) => Some(key.clone()),
            Destination::Host | Destination::Rewritten { .. } | Destination::Held => None,
        });
        let of_code = self.targets_of_code().into_iter().map(|target| self.options.packaging.key_of(target));
        of_databases.chain(of_code).chain(self.of_wheels.iter().cloned()).collect()
    }

    /// The targets for which binaries have code.
    pub fn targets_of_code(&self) -> BTreeSet<&TargetId> {
        self.binaries.iter().flat_map(|binary| binary.code.keys()).collect()
    }
}
