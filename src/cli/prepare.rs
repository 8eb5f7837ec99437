//! Listing an input and planning its split, with a progress bar.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;

use super::options::SplitOptions;
use super::progress::show_bytes;
use super::terminal::{message, warn};
use crate::gpu::BundleKey;
use crate::image::{self, ImageReference};
use crate::index::Index;
use crate::join::{self, GivenWheels, Joined};
use crate::kpack::BundleJobs;
use crate::memory::check_tables;
use crate::metrics::Counters;
use crate::packages::InstalledComponent;
use crate::resources::Resources;
use crate::source::{Entry, EntryKind, Input, InputKind, SourceError};
use crate::split::{Destination, Packaging, Plan, SplitFacts, SplitId, Statement};
use crate::threads;
use crate::view::{ListedWheel, MadeTime, TreeManifest, part_manifests};
use crate::wheel::states_digests;
use crate::wheelparts::{WheelPart, WheelSet};

/// An input with its plan.
pub(super) struct Prepared {
    pub(super) input: Input,
    /// The split binaries of the input.
    pub(super) joined: Joined,
    pub(super) plan: Plan,
    pub(super) wheels: Option<WheelSet>,
    /// The restrictions of the split.
    pub(super) statement: Statement,
    /// The ID of the split.
    pub(super) split_id: SplitId,
    /// What the time of files depends on that a mount makes.
    pub(super) made: MadeTime,
    pub(super) resources: Arc<Resources>,
}

impl Prepared {
    /// Whether the input has neither device code nor kernel databases, whatever is selected of it.
    pub(super) fn has_nothing_to_split(&self) -> bool {
        let plan = &self.plan;
        plan.keys.is_empty() && plan.unsplit.is_empty() && plan.keys_of_input(Packaging::Bundles).is_empty()
    }

    /// The wheels of an index: those that are made, or else the wheels of the input as they are. Fails for a tree.
    pub(super) fn listed(&self) -> anyhow::Result<Vec<ListedWheel>> {
        match (&self.wheels, self.input.host_wheel()) {
            (Some(wheels), _) => Ok(ListedWheel::of_split(&self.input, wheels)?),
            (None, Some(host)) => {
                let devices = host.devices.iter().map(|device| &device.location);
                let open = |path: &PathBuf| Ok(ListedWheel::whole(&Input::open(path, &self.resources)?)?);
                std::iter::once(&self.input.location).chain(devices).map(open).collect()
            }
            (None, None) => Ok(vec![ListedWheel::whole(&self.input)?]),
        }
    }

    /// The wheels of the parts, except the fat one.
    pub(super) fn parts(&self) -> Vec<Arc<WheelPart>> {
        let wheels = self.wheels.iter();
        wheels.flat_map(|wheels| wheels.hosts.iter().chain(wheels.devices.values())).cloned().collect()
    }

    /// The manifests of the parts of a tree, by their names. Those of a wheel's parts are in their dist-info.
    pub(super) fn manifests(&self) -> Vec<(String, TreeManifest)> {
        match (self.plan.manifests, &self.wheels) {
            (Some(digest), None) if !self.plan.keeps_wheels => {
                part_manifests(&self.input, &self.plan, &self.split_id, digest, str::to_owned)
            }
            _ => Vec::new(),
        }
    }

    /// Compares the members of a wheel with its RECORD, so that neither wrong digests nor damaged files are copied.
    pub(super) fn check_claims(&self) -> anyhow::Result<()> {
        let Some(wheels) = &self.wheels else { return Ok(()) };
        self.remember_damage(self.compare_claims(wheels))?;
        self.check_members(|_| true)
    }

    /// Compares members of a wheel with their CRC-32, unless a pass has done that before: those of the host part, and
    /// databases of these keys.
    pub(super) fn check_members(&self, is_wanted: impl Fn(&BundleKey) -> bool + Sync) -> anyhow::Result<()> {
        let members = self.input.entries.par_iter().zip(&self.plan.places);
        let checked = members.with_max_len(1).try_for_each(|(entry, place)| match (&entry.kind, place) {
            (EntryKind::Directory | EntryKind::Symlink(_), _) | (_, Destination::Unwanted(..)) => Ok(()),
            (_, Destination::Device(key, _)) if !is_wanted(key) => Ok(()),
            (EntryKind::File { content, .. }, _) => content.check(),
        });
        self.remember_damage(checked.map_err(anyhow::Error::from))
    }

    /// Saves the index if a command fails, so that later sessions know of damage at once.
    fn remember_damage(&self, checked: anyhow::Result<()>) -> anyhow::Result<()> {
        if checked.is_err() {
            save_index(&self.resources);
        }
        checked
    }

    fn compare_claims(&self, wheels: &WheelSet) -> anyhow::Result<()> {
        let size = |entry: &Entry| match &entry.kind {
            EntryKind::File { content, .. } => content.size(),
            EntryKind::Directory | EntryKind::Symlink(_) => 0,
        };
        Ok(show_bytes("Comparing with RECORD", |progress| {
            progress.expect(self.input.entries.iter().map(size).sum());
            wheels.check_claims(&progress.done)
        })?)
    }
}

/// The file or directory that an input is in: for an image, its layout.
pub(super) fn place_of(input: &Path) -> PathBuf {
    ImageReference::parse(input).map_or_else(|| input.to_owned(), |image| image.directory)
}

/// The resources, with the user's limits on threads and memory.
pub(super) fn resources(input: &Path, options: &SplitOptions) -> anyhow::Result<Arc<Resources>> {
    let memory = options.memory.limit()?;
    threads::start_pool(options.jobs)?;
    options.note_ignored();
    let cache = options.cache.safe_directory();
    let index = cache.as_ref().map_or_else(Index::default, |directory| Index::open(directory, input));
    Ok(Resources::with_store(memory, index, options.frame_store(cache.as_deref(), input), options.policy))
}

/// Plans a split, and prints warnings on stderr.
pub(super) fn prepare(inputs: &[PathBuf], options: &SplitOptions) -> anyhow::Result<Prepared> {
    prepare_with(inputs, options, Input::open)
}

/// A function that lists an input.
pub(super) type List = fn(&Path, &Arc<Resources>) -> Result<Input, SourceError>;

pub(super) fn prepare_with(inputs: &[PathBuf], options: &SplitOptions, list: List) -> anyhow::Result<Prepared> {
    let first = inputs.first().map_or(Path::new(""), PathBuf::as_path);
    let resources = resources(&place_of(first), options)?;
    let input = open_input(inputs, list, &resources)?;
    plan_alone(input, options, &resources)
}

/// Plans the split of the only input of a command.
pub(super) fn plan_alone(input: Input, options: &SplitOptions, resources: &Arc<Resources>) -> anyhow::Result<Prepared> {
    if resources.policy.hash_members && states_digests(&input) {
        input.hash_members();
    }
    let prepared = plan(input, options, resources, Share::All(&BundleJobs::new(resources)))?;
    prepared.plan.check_selection(&options.to_options(Packaging::Bundles)?)?;
    Ok(prepared)
}

/// The wheels that these inputs are or contain; `None` if one is neither a wheel nor a directory of wheels. Says what else
/// is in these directories.
pub(super) fn given_wheels(inputs: &[PathBuf]) -> Result<Option<Vec<PathBuf>>, SourceError> {
    Ok(GivenWheels::of(inputs)?.map(announced))
}

/// The wheels. Says what else is in their directories.
pub(super) fn announced(GivenWheels { wheels, notes, warnings }: GivenWheels) -> Vec<PathBuf> {
    for note in &notes {
        eprintln!("kpackfs: note: {}", message(note));
    }
    for warning in &warnings {
        warn(warning);
    }
    wheels
}

/// Lists an input: several wheels are one, and so are the layers of an image.
pub(super) fn open_input(inputs: &[PathBuf], list: List, resources: &Arc<Resources>) -> anyhow::Result<Input> {
    if let [input] = inputs
        && let Some(image) = ImageReference::parse(input)
    {
        return Ok(image::open_root(&image, resources)?);
    }
    Ok(match inputs {
        [input] => match given_wheels(inputs)?.as_deref() {
            None => list(input, resources)?,
            // What is said of a wheel holds for a directory of one.
            Some([wheel]) => list(wheel, resources)?,
            Some(wheels) => join::open_wheels(wheels, resources)?,
        },
        several => join::open_wheels(several, resources)?,
    })
}

/// Plans the split of what was collected. Code of libraries that are not collected is left out, and it is no error if there
/// is none for a target.
pub(super) fn plan_collected(
    input: Input,
    options: &SplitOptions,
    resources: &Arc<Resources>,
) -> anyhow::Result<Prepared> {
    let prepared = plan(input, options, resources, Share::Collected(&BundleJobs::new(resources)))?;
    Ok(prepared)
}

/// Plans the split of artifacts that are installed together.
pub(super) fn plan_component(
    component: &InstalledComponent,
    options: &SplitOptions,
    resources: &Arc<Resources>,
) -> anyhow::Result<Prepared> {
    plan(component.open(resources)?, options, resources, Share::All(&BundleJobs::new(resources)))
}

/// What an input is of those of a command, with the jobs of all.
#[derive(Clone, Copy)]
pub(super) enum Share<'a> {
    /// The only one.
    All(&'a Arc<BundleJobs>),
    /// What was collected from it.
    Collected(&'a Arc<BundleJobs>),
    /// One wheel of several, which messages name.
    Wheel(&'a Arc<BundleJobs>),
}

/// Plans the split of an input, and prints warnings on stderr.
pub(super) fn plan(
    mut input: Input,
    options: &SplitOptions,
    resources: &Arc<Resources>,
    share: Share<'_>,
) -> anyhow::Result<Prepared> {
    let (Share::All(jobs) | Share::Collected(jobs) | Share::Wheel(jobs)) = share;
    let choices = options.to_options(Packaging::Bundles)?;
    // Joining removes archives from the list.
    let made = options.made_time()?.and_input(&input.state());
    let mut joined = show_bytes("Joining", |progress| join::join(&mut input, resources, progress));
    if let Share::Collected(_) = share {
        joined.orphans.clear();
    }
    let plan = show_bytes("Planning", |progress| Plan::of_joined(&input, &joined, &choices, jobs, progress))?;
    check_tables()?;
    let is_whole = plan.keeps_wheels || matches!(share, Share::Wheel(_)) && is_whole(&input, &plan);
    let options = (!is_whole).then(|| options.to_wheel_options()).transpose()?;
    let wheels = options.map(|options| WheelSet::new(&input, &plan, &options, resources)).transpose()?.flatten();
    let of_wheels = wheels.iter().flat_map(|wheels| &wheels.warnings);
    for warning in plan.warnings.iter().chain(of_wheels) {
        match share {
            Share::All(_) | Share::Collected(_) => eprintln!("kpackfs: warning: {}", message(warning)),
            Share::Wheel(_) => {
                let name = input.location.file_name().unwrap_or_default().to_string_lossy();
                eprintln!("kpackfs: warning: {}", message(&format!("{name}: {warning}")));
            }
        }
    }
    let split_id = match &wheels {
        Some(wheels) => wheels.split_id.clone(),
        None => SplitFacts::of_tree(&input, &plan),
    };
    let made = wheels.iter().filter_map(|wheels| wheels.options).fold(made, |made, options| made.and(options.0));
    let (statement, resources) = (Statement::of(&choices), Arc::clone(resources));
    Ok(Prepared { input, joined, plan, wheels, statement, split_id, made, resources })
}

/// Whether a wheel has no device code that could be moved, so that a release has it as it is.
fn is_whole(input: &Input, plan: &Plan) -> bool {
    let is_wheel = matches!(input.kind, InputKind::Wheel(_)) && plan.joined.is_empty();
    let is_unsplit = plan.keys.is_empty() && !plan.unsplit.is_empty();
    is_wheel && (is_unsplit || plan.keys_of_input(Packaging::Bundles).is_empty())
}

/// Saves the index. Without it the next run takes longer, but is not wrong.
pub(super) fn save_index(resources: &Resources) {
    log_work(&resources.counters);
    if let Err(error) = resources.index.save() {
        eprintln!("kpackfs: warning: the index of the input cannot be saved: {error}");
    }
    resources.store.finish();
}

/// Logs what was done.
fn log_work(counters: &Counters) {
    tracing::debug!(
        bytes_read = counters.bytes_read.get(),
        bytes_inflated = counters.bytes_inflated.get(),
        bytes_deflated = counters.bytes_deflated.get(),
        bytes_decompressed = counters.bytes_decompressed.get(),
        bytes_compressed = counters.bytes_compressed.get(),
        bytes_hashed = counters.bytes_hashed.get(),
        "work"
    );
}
