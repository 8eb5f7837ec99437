//! The planner: which entry of the input goes where. It decides; it prints nothing and serves nothing.

mod archives;
mod roots;
mod scan;
mod summary;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::binary::Rewritten;
use crate::database::{Databases, Handler};
use crate::index::Resources;
use crate::kpack::{Archive, Compression};
use crate::source::{Attributes, EntryKind, EntryPath, Input};
use crate::target::{BundleKey, TargetId};

pub use roots::GroupError;
pub use summary::{ArchiveSummary, BinarySummary, DatabaseSummary, DeviceSummary, Summary};

/// Names that a split uses itself, so that no target may have them.
pub const RESERVED: [&str; 4] = [HOST, DEVICE, MERGED, WHEELS];
/// The host part.
pub const HOST: &str = "host";
/// Links to the device parts.
pub const DEVICE: &str = "device";
/// What installations look like.
pub const MERGED: &str = "merged";
/// Wheels made of the parts.
pub const WHEELS: &str = "wheels";

/// What a user can choose.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The databases that leave the host part.
    pub databases: Databases,
    /// The targets that are wanted; all if `None`. What belongs to others appears nowhere.
    pub gpu_targets: Option<Vec<BundleKey>>,
    /// Directories that hold a `.kpack` directory each. If `None`, every top-level package of a wheel that has device
    /// code has one, and an install tree has one at its root.
    pub overlay_roots: Option<Vec<EntryPath>>,
    /// First part of the archives' names. If `None`, the name of the wheel, or `rocm` for an install tree.
    pub group: Option<String>,
    /// How code objects are stored.
    pub compression: Compression,
}

/// The decision about a whole input.
#[derive(Debug)]
pub struct Plan {
    /// One for each entry of the input, in the same order.
    pub places: Vec<Place>,
    /// The archives, sorted by path.
    pub archives: Vec<PlannedArchive>,
    /// The binaries that were rewritten, sorted by path.
    pub binaries: Vec<SplitBinary>,
    /// Every bundle key that has an archive or a database.
    pub keys: BTreeSet<BundleKey>,
    /// First part of the archives' names.
    pub group: String,
    /// What the user should know: what could not be split, and why.
    pub warnings: Vec<String>,
}

/// Where an entry of the input goes.
#[derive(Clone, Debug)]
pub enum Place {
    /// Into the host part, as it is.
    Host,
    /// Into the host part, without its device code.
    Rewritten {
        /// What it becomes.
        content: Arc<Rewritten>,
        /// Entries with the same number are hard links to one file.
        link_group: Option<u64>,
    },
    /// Into the device part of a key: a database.
    Device(BundleKey, Handler),
    /// Nowhere: a database of a target that is not wanted.
    Unwanted(BundleKey, Handler),
}

/// An archive that the split makes.
#[derive(Debug)]
pub struct PlannedArchive {
    /// Where it is, in the device part and in whatever it overlays.
    pub path: EntryPath,
    /// The device part that it belongs to.
    pub key: BundleKey,
    /// Its content.
    pub archive: Arc<Archive>,
    /// Its attributes; the time is that of the youngest binary in it.
    pub attributes: Attributes,
}

/// A binary that is split.
#[derive(Debug)]
pub struct SplitBinary {
    /// Where it is.
    pub path: EntryPath,
    /// Its name in archives: its path below the overlay root.
    pub kernel_name: String,
    /// Bytes in the input.
    pub size: u64,
    /// Bytes without device code.
    pub host_size: u64,
    /// For each wrapper, the targets it has code for and the sizes of the code objects.
    pub wrappers: Vec<Vec<(TargetId, u64)>>,
}

/// How far planning is, for a progress bar.
#[derive(Debug, Default)]
pub struct Progress {
    /// Bytes of the files that have to be looked at.
    pub total: AtomicU64,
    /// Bytes of those that have been.
    pub done: AtomicU64,
}

/// Why an input cannot be split at all.
#[derive(Debug, thiserror::Error)]
pub enum SplitError {
    /// An overlay root is no directory of the input.
    #[error("--overlay-root {0}: there is no such directory in the input")]
    NoSuchRoot(EntryPath),
    /// The group cannot be a part of a file name.
    #[error(transparent)]
    Group(#[from] GroupError),
}

impl Plan {
    /// Looks through the input and decides.
    pub fn make(
        input: &Input,
        options: &Options,
        resources: &Arc<Resources>,
        progress: &Progress,
    ) -> Result<Self, SplitError> {
        let roots = roots::Roots::new(input, options)?;
        let group = roots::group(input, options)?;
        let mut plan = Self {
            places: input.entries.iter().map(|entry| database_place(&entry.path, &entry.kind, options)).collect(),
            archives: Vec::new(),
            binaries: Vec::new(),
            keys: BTreeSet::new(),
            group,
            warnings: input.warnings.clone(),
        };
        let fat = scan::scan(input, &mut plan, options, resources, progress);
        archives::assign(input, &mut plan, fat, &roots, options, resources);
        let of_databases = plan.places.iter().filter_map(|place| match place {
            Place::Device(key, _) => Some(key.clone()),
            Place::Host | Place::Rewritten { .. } | Place::Unwanted(..) => None,
        });
        plan.keys = of_databases.chain(plan.archives.iter().map(|archive| archive.key.clone())).collect();
        Ok(plan)
    }
}

/// Databases are told by name, before anything is read: a library that a database consists of belongs to it even if it
/// holds device code.
fn database_place(path: &EntryPath, kind: &EntryKind, options: &Options) -> Place {
    if !matches!(kind, EntryKind::File { .. }) {
        return Place::Host;
    }
    match options.databases.classify(path) {
        Some(found) if is_wanted(&found.arch.key(), options) => Place::Device(found.arch.key(), found.handler),
        Some(found) => Place::Unwanted(found.arch.key(), found.handler),
        None => Place::Host,
    }
}

fn is_wanted(key: &BundleKey, options: &Options) -> bool {
    options.gpu_targets.as_ref().is_none_or(|wanted| key.is_wanted_for(wanted))
}
