//! The planner: decides where each entry of the input goes. It prints nothing and serves nothing.

mod archives;
mod binaries;
mod binary_code;
mod bundles;
mod claims;
mod content_code;
mod device_code;
mod file_digest;
mod held;
mod manifest;
mod manifest_text;
mod options;
mod parts;
mod plain;
mod plan;
mod roots;
mod scan;
mod selection;
mod signed;
mod split_id;
mod statement;
mod stems;
mod thin;
mod unserved;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use anyhow::bail;

use crate::database::{Arch, Handler};
use crate::gpu::TargetId;
use crate::join::Joined;
use crate::kpack::BundleJobs;
use crate::metrics::Progress;
use crate::resources::Resources;
use crate::source::{Entry, EntryPath, Input};

pub use bundles::targets_of_bundle_file;
pub(crate) use content_code::{unjoined_code, wrapped_damage};
pub use device_code::{CodeOfFile, Fate, device_code};
pub use file_digest::{FileDigest, FileSum, PassingSum};
pub(crate) use manifest::{ListItem, bounded};
pub use manifest::{PartManifest, StatedCode, StatedPartFile};
pub use manifest_text::{ManifestFile, ManifestFileKind, ManifestFiles, ManifestText};
pub use options::{Packaging, PlanOptions};
pub use parts::{DEVICE, FAT, FAT_WHEEL, HOST, MERGED, RESERVED, SIMPLE, SIMPLE_THIN, THIN, THIN_WHEELS, WHEELS};
pub use plan::{BundleFile, Destination, Plan, PlannedArchive, PlannedBinary};
use roots::Roots;
pub use selection::{Targets, join};
pub(crate) use split_id::NAMING;
pub use split_id::{FieldSum, ID_TEXT, InputFacts, InputId, SplitFacts, SplitId, hex};
pub(crate) use statement::are_device_parts;
pub use statement::{STATEMENT, Statement, component_of_statement, statement_of_component};
pub use thin::{FatBinaries, ThinBinary};

/// Number of files and directories in all views together. The largest ROCm wheels have some hundred thousand.
const MAX_SHOWN: usize = 8 << 20;

impl Plan {
    /// Examines the input and decides. `jobs` make the archives.
    pub fn make(
        input: &Input,
        options: &PlanOptions,
        jobs: &Arc<BundleJobs>,
        progress: &Progress,
    ) -> anyhow::Result<Self> {
        Self::of_joined(input, &Joined::default(), options, jobs, progress)
    }

    /// Like [`Plan::make`], for an input in which some binaries were joined with archives.
    pub fn of_joined(
        input: &Input,
        joined: &Joined,
        options: &PlanOptions,
        jobs: &Arc<BundleJobs>,
        progress: &Progress,
    ) -> anyhow::Result<Self> {
        claims::check_members(input)?;
        let resources = jobs.resources();
        let roots = Roots::new(input, options)?;
        let group = roots::group(input, options)?;
        let FoundDatabases { mut places, modes, generic, warnings } =
            database_places(input, &roots, options, resources);
        held::keep(input, &mut places, options)?;
        let mut plan = Self {
            places,
            archives: Vec::new(),
            binaries: Vec::new(),
            bundle_files: Vec::new(),
            modes,
            generic,
            keys: BTreeSet::new(),
            held: BTreeMap::new(),
            keeps_wheels: false,
            group,
            warnings: [&*input.warnings, &*joined.warnings, &warnings].concat(),
            options: options.clone(),
            jobs: Arc::clone(jobs),
            joined: joined.binaries.keys().cloned().collect(),
            made: BTreeSet::new(),
            unsplit: Vec::new(),
            of_wheels: BTreeSet::new(),
            searched: HashMap::new(),
            tables: Vec::new(),
        };
        let fat = scan::scan(input, joined, &mut plan, options, progress);
        let signed: Vec<_> = fat.iter().filter(|fat| fat.is_signed).map(|fat| fat.entry).collect();
        archives::assign(input, &joined.orphans, &mut plan, fat, &roots, options, resources);
        plan.warnings.extend(signed::warning(input, &plan, &signed));
        claims::check_archives(input, &plan, &roots)?;
        plan.bundle_files = bundles::bundle_files(input, &plan.places, resources);
        let unserved = unserved::warnings(&plan);
        plan.warnings.extend(unserved);
        let of_databases = plan.places.iter().filter_map(|place| match place {
            Destination::Device(key, _) => Some(key.clone()),
            Destination::Host | Destination::Rewritten { .. } | Destination::Held | Destination::Unwanted(..) => None,
        });
        plan.keys = of_databases.chain(plan.archives.iter().map(|archive| archive.key.clone())).collect();
        held::assign(input, &mut plan)?;
        let (keys, entries) = (plan.keys.len(), input.entries.len());
        if keys.saturating_mul(entries) > MAX_SHOWN {
            bail!(
                "{keys} targets and families with {entries} files and directories each are more than {MAX_SHOWN}; choose some with --gpu-targets"
            );
        }
        Ok(plan)
    }
}

/// The databases of an input.
struct FoundDatabases {
    /// The destination of each entry.
    places: Vec<Destination>,
    /// See [`Plan::modes`].
    modes: BTreeMap<EntryPath, TargetId>,
    /// See [`Plan::generic`].
    generic: BTreeMap<EntryPath, (TargetId, Handler)>,
    warnings: Vec<String>,
}

/// The destinations of databases, and warnings. Databases are recognised by name, or as code objects by their headers,
/// before binaries are examined: a library that is part of a database belongs to it even if it has device code.
fn database_places(input: &Input, roots: &Roots, options: &PlanOptions, resources: &Arc<Resources>) -> FoundDatabases {
    // Names inside of a prefix are those of an installation.
    let name = |entry: &Entry| match options.packaging {
        Packaging::Bundles => entry.path.clone(),
        Packaging::Processors => roots.installed(&entry.path),
    };
    let names: Vec<_> = input.entries.iter().map(name).collect();
    let files = input.entries.iter().zip(&names).filter_map(|(entry, name)| Some((name, entry.content()?)));
    let (databases, claims) = options.databases.claim(files, resources);
    let mut claims = claims.into_iter();
    let (mut modes, mut generic) = (BTreeMap::new(), BTreeMap::new());
    let place = |entry: &Entry| {
        let Some(found) = entry.content().and_then(|_| claims.next().flatten()) else { return Destination::Host };
        let key = options.packaging.key_of_database(&found.arch);
        let is_mode = |feature: &str| matches!(feature.trim_end_matches(['+', '-']), "sramecc" | "xnack");
        if let Arch::Target(target) = &found.arch
            && target.features().len() > 0
            && target.features().all(is_mode)
        {
            modes.insert(entry.path.clone(), target.clone());
        }
        if let Arch::Target(target) = &found.arch
            && target.is_generic()
        {
            generic.insert(entry.path.clone(), (target.clone(), found.handler));
        }
        if options.targets.contains(&key) {
            Destination::Device(key, found.handler)
        } else {
            Destination::Unwanted(key, found.handler)
        }
    };
    let places = input.entries.iter().map(place).collect();
    FoundDatabases { places, modes, generic, warnings: databases.warnings() }
}
