//! The planner: decides where each entry of the input goes. It prints nothing and serves nothing.

mod archives;
mod bundles;
mod claims;
mod embedded;
mod plain;
mod roots;
mod scan;
mod selection;
mod statement;
mod thin;
mod unserved;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::binary::Rewritten;
use crate::database::{Arch, Databases, Handler};
use crate::fatbin::Compressed;
use crate::gpu::{BundleKey, TargetId};
use crate::join::Joined;
use crate::kpack::{ArchiveRope, BundleJobs, Compression};
use crate::metrics::Progress;
use crate::resources::Resources;
use crate::rope::ReadError;
use crate::source::{Attributes, Entry, EntryKind, EntryPath, Input};

use roots::Roots;

pub use bundles::{BundleFile, targets_of_bundle_file};
pub use embedded::{Embedded, embedded};
pub use roots::GroupError;
pub use selection::{Targets, is_wanted};
pub use statement::{STATEMENT, Statement, StatementError, component_of_statement, statement_of_component};
pub use thin::{FatBinaries, ThinBinary};

/// Names of directories that a split uses itself, so that no target may have them.
pub const RESERVED: [&str; 8] = [HOST, DEVICE, MERGED, WHEELS, THIN, THIN_WHEELS, FAT, FAT_WHEEL];
/// The host part.
pub const HOST: &str = "host";
/// Links to the device parts.
pub const DEVICE: &str = "device";
/// Trees as installed for one target.
pub const MERGED: &str = "merged";
/// Wheels of the parts.
pub const WHEELS: &str = "wheels";
/// Trees as installed for some GPUs, with device code in binaries.
pub const THIN: &str = "thin";
/// The fat binaries from which split ones were made.
pub const FAT: &str = "fat";
/// A wheel for each thin view.
pub const THIN_WHEELS: &str = "thin-wheels";
/// The wheel before it was split.
pub const FAT_WHEEL: &str = "fat-wheel";

/// The most files and directories in all views together. The largest ROCm wheels have some hundred thousand.
const MOST_SHOWN: usize = 8 << 20;

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
    /// have device code, or the root of an install tree.
    pub overlay_roots: Option<Vec<EntryPath>>,
    /// First part of the archives' names. If `None`, the name of the wheel, or `rocm` for an install tree.
    pub group: Option<String>,
    /// The compression of code objects.
    pub compression: Compression,
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
    /// Every bundle key that has an archive or a database.
    pub keys: BTreeSet<BundleKey>,
    /// First part of the archives' names.
    pub group: String,
    /// Warnings for the user: what could not be split, and why.
    pub warnings: Vec<String>,
    /// The targets of the plan.
    pub targets: Targets,
    /// Makes compressed code objects and bundles.
    pub jobs: Arc<BundleJobs>,
    /// Binaries that were joined with their archives.
    pub joined: BTreeSet<EntryPath>,
    /// Binaries that keep their device code because they cannot be split. `warnings` has the reasons.
    pub unsplit: Vec<EntryPath>,
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
        /// Entries with the same number are hard links to one file.
        link_group: Option<u64>,
    },
    /// The device part of a key: a database.
    Device(BundleKey, Handler),
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
    /// Bytes in the input.
    pub size: u64,
    /// Bytes without device code.
    pub host_size: u64,
    /// For each wrapper, the targets for which it has code and the sizes of the code objects in bytes.
    pub wrappers: Vec<Vec<(TargetId, u64)>>,
}

/// Why an input cannot be split at all.
#[derive(Debug, thiserror::Error)]
pub enum SplitError {
    /// An overlay root is not a directory of the input.
    #[error("--overlay-root {0}: there is no such directory in the input")]
    NoSuchRoot(EntryPath),
    /// The group cannot be a part of a file name.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// The input has nothing for a target that an option names.
    #[error("{option} {wanted}: the input has nothing for it; it has code for {}", join(.there))]
    NoSuchTarget {
        /// The option.
        option: &'static str,
        /// The target.
        wanted: BundleKey,
        /// The targets of the input.
        there: Vec<BundleKey>,
    },
    /// Two members of a wheel are installed at one path.
    #[error(
        "{first:?} and {second:?}: both are installed as {installed:?}, and {reason}, so that one of them would be lost; \
         remove or rename one"
    )]
    OnePath {
        /// A member.
        first: EntryPath,
        /// Another one.
        second: EntryPath,
        /// Where both are installed.
        installed: EntryPath,
        /// The difference.
        reason: &'static str,
    },
    /// An entry of the input is in the way of an archive.
    #[error(
        "{path:?} of the input and the archive {archive:?} of the split: both cannot be there; rename the first, or choose \
         another name or place for archives (--group, --overlay-root)"
    )]
    Blocked {
        /// The entry of the input.
        path: EntryPath,
        /// The archive.
        archive: EntryPath,
    },
    /// A file of the input cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The views would be too large: each target has a view of all files.
    #[error(
        "{keys} targets and families with {entries} files and directories each are more than {MOST_SHOWN}; choose some with --gpu-targets"
    )]
    TooManyTargets {
        /// Number of parts.
        keys: usize,
        /// Number of entries of the input.
        entries: usize,
    },
}

/// A list of targets for messages.
pub fn join(keys: &[BundleKey]) -> String {
    let names: Vec<_> = keys.iter().map(BundleKey::as_str).collect();
    if names.is_empty() { "no GPU at all".to_owned() } else { names.join(", ") }
}

impl Plan {
    /// Examines the input and decides. `jobs` make the archives.
    pub fn make(
        input: &Input,
        options: &PlanOptions,
        jobs: &Arc<BundleJobs>,
        progress: &Progress,
    ) -> Result<Self, SplitError> {
        Self::of_joined(input, &Joined::default(), options, jobs, progress)
    }

    /// Like [`Plan::make`], for an input in which some binaries were joined with archives.
    pub fn of_joined(
        input: &Input,
        joined: &Joined,
        options: &PlanOptions,
        jobs: &Arc<BundleJobs>,
        progress: &Progress,
    ) -> Result<Self, SplitError> {
        claims::check_members(input)?;
        let resources = jobs.resources();
        let roots = Roots::new(input, options)?;
        let group = roots::group(input, options)?;
        let (places, warnings) = database_places(input, &roots, options, resources);
        let mut plan = Self {
            places,
            archives: Vec::new(),
            binaries: Vec::new(),
            bundle_files: Vec::new(),
            keys: BTreeSet::new(),
            group,
            warnings: [&*input.warnings, &*joined.warnings, &warnings].concat(),
            targets: Targets::of(options),
            jobs: Arc::clone(jobs),
            joined: joined.binaries.keys().cloned().collect(),
            unsplit: Vec::new(),
        };
        let fat = scan::scan(input, joined, &mut plan, options, progress);
        archives::assign(input, &joined.orphans, &mut plan, fat, &roots, options, resources);
        claims::check_archives(input, &plan, &roots)?;
        plan.bundle_files = bundles::bundle_files(input, &plan.places, resources);
        let unserved = unserved::warnings(&plan);
        plan.warnings.extend(unserved);
        let of_databases = plan.places.iter().filter_map(|place| match place {
            Destination::Device(key, _) => Some(key.clone()),
            Destination::Host | Destination::Rewritten { .. } | Destination::Unwanted(..) => None,
        });
        plan.keys = of_databases.chain(plan.archives.iter().map(|archive| archive.key.clone())).collect();
        let (keys, entries) = (plan.keys.len(), input.entries.len());
        if keys.saturating_mul(entries) > MOST_SHOWN {
            return Err(SplitError::TooManyTargets { keys, entries });
        }
        Ok(plan)
    }

    /// Records that a binary stays unchanged.
    fn refuse(&mut self, path: &EntryPath, reason: &dyn std::fmt::Display) {
        let (name, reason) = (path.to_string(), reason.to_string());
        // Read errors name the file themselves.
        let reason = reason.strip_prefix(&name).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(&reason);
        self.warnings.push(format!("{name}: not split: {reason}"));
        self.unsplit.push(path.clone());
    }
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

/// The destinations of databases, and warnings. Databases are recognised by name, or as code objects by their headers,
/// before binaries are examined: a library that is part of a database belongs to it even if it has device code.
fn database_places(
    input: &Input,
    roots: &Roots,
    options: &PlanOptions,
    resources: &Arc<Resources>,
) -> (Vec<Destination>, Vec<String>) {
    // Names inside of a prefix are those of an installation.
    let name = |entry: &Entry| match options.packaging {
        Packaging::Bundles => entry.path.clone(),
        Packaging::Processors => roots.installed(&entry.path),
    };
    let names: Vec<_> = input.entries.iter().map(name).collect();
    let files = input.entries.iter().zip(&names).filter_map(|(entry, name)| match &entry.kind {
        EntryKind::File { content, .. } => Some((name, content)),
        EntryKind::Directory | EntryKind::Symlink(_) => None,
    });
    let databases = options.databases.of(files, resources);
    let place = |(entry, name): (&Entry, &EntryPath)| {
        let is_file = matches!(entry.kind, EntryKind::File { .. });
        let Some(found) = databases.classify(name).filter(|_| is_file) else { return Destination::Host };
        let key = options.packaging.key_of_database(&found.arch);
        if options.wants(&key) {
            Destination::Device(key, found.handler)
        } else {
            Destination::Unwanted(key, found.handler)
        }
    };
    (input.entries.iter().zip(&names).map(place).collect(), databases.warnings().to_vec())
}
