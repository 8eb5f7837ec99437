//! An input with its plan.

use std::path::PathBuf;
use std::sync::Arc;

use rayon::prelude::*;

use super::choices::{SplitChoices, Stages};
use crate::gpu::BundleKey;
use crate::join;
use crate::join::Joined;
use crate::kpack::BundleJobs;
use crate::memory::check_tables;
use crate::metrics::Progress;
use crate::opened::statement_in;
use crate::remote::check_remote;
use crate::resources::Resources;
use crate::rope::ReadError;
use crate::source::{Entry, Input, InputKind};
use crate::split::{Destination, HOST, Plan, SplitFacts, SplitId};
use crate::view::{ListedWheel, MadeTime, TreeManifest, part_manifests};
use crate::wheel::{Metadata, states_digests};
use crate::wheelparts::{PlannedInput, WheelPart, WheelSet};

/// An input with its plan.
pub(crate) struct Prepared {
    pub(crate) input: Input,
    /// The split binaries of the input.
    pub(crate) joined: Joined,
    pub(crate) plan: Plan,
    pub(crate) wheels: Option<WheelSet>,
    /// The ID of the split.
    pub(crate) split_id: SplitId,
    /// What the time of files depends on that a mount makes.
    pub(crate) made: MadeTime,
    pub(crate) resources: Arc<Resources>,
    /// Whether it is a device wheel without its host wheel. What such a wheel holds stays in it.
    pub(crate) is_device_alone: bool,
    /// What the user should know of the plan.
    pub(crate) warnings: Vec<String>,
}

impl Prepared {
    /// Plans the split of an input. `jobs` are those of all inputs of the command.
    pub(super) fn plan(
        mut input: Input,
        choices: &SplitChoices,
        share: Share,
        jobs: &Arc<BundleJobs>,
        resources: &Arc<Resources>,
        stages: &impl Stages,
    ) -> anyhow::Result<Self> {
        if share != Share::Collected && resources.policy.hash_members && states_digests(&input) {
            input.hash_members();
        }
        // Joining removes archives from the list.
        let made = choices.made.clone().and_input(&input.state());
        let mut joined = stages.stage("Joining", |progress| join::join(&mut input, resources, progress));
        if share == Share::Collected {
            joined.orphans.clear();
        }
        let plan = |progress: &_| Plan::of_joined(&input, &joined, &choices.plan, jobs, progress);
        let mut plan = stages.stage("Planning", plan)?;
        check_tables()?;
        check_remote(resources)?;
        let is_device_alone = share != Share::Collected && is_device_alone(&input, &plan);
        // An unpacked one is no file that could be shown.
        plan.keeps_wheels |= is_device_alone && matches!(input.kind, InputKind::Wheel(_));
        let is_whole = is_device_alone || plan.keeps_wheels || share == Share::Wheel && is_whole(&input, &plan);
        let wheels =
            (!is_whole).then(|| WheelSet::new(&input, &plan, &choices.wheels, resources)).transpose()?.flatten();
        let warnings = warnings(&input, &plan, wheels.as_ref(), share);
        let split_id = match &wheels {
            Some(wheels) => wheels.split_id.clone(),
            None => SplitFacts::of_tree(&input, &plan),
        };
        let made = wheels.iter().filter_map(|wheels| wheels.options).fold(made, |made, options| made.and(options.0));
        let resources = Arc::clone(resources);
        Ok(Self { input, joined, plan, wheels, split_id, made, resources, is_device_alone, warnings })
    }

    /// Whether the input has neither device code nor kernel databases, whatever is selected of it.
    pub(crate) fn has_nothing_to_split(&self) -> bool {
        let plan = &self.plan;
        plan.keys.is_empty() && plan.unsplit.is_empty() && plan.keys_of_input().is_empty()
    }

    /// The wheels of an index: those that are made, or else the wheels of the input as they are. Fails for a tree.
    pub(crate) fn listed(&self) -> anyhow::Result<Vec<ListedWheel>> {
        match (&self.wheels, self.input.host_wheel()) {
            (Some(wheels), _) => Ok(ListedWheel::of_split(&self.input, wheels)?),
            (None, Some(host)) => {
                let devices = host.devices.iter().map(|device| &device.location);
                let open = |path: &PathBuf| -> anyhow::Result<ListedWheel> {
                    let input = Input::open(path, &self.resources)?;
                    ListedWheel::whole(&input)
                };
                std::iter::once(&self.input.location).chain(devices).map(open).collect()
            }
            (None, None) => Ok(vec![ListedWheel::whole(&self.input)?]),
        }
    }

    pub(crate) fn planned(&self) -> PlannedInput<'_> {
        PlannedInput { input: &self.input, plan: &self.plan, wheels: self.wheels.as_ref() }
    }

    /// The wheels of the parts, except the fat one.
    pub(crate) fn parts(&self) -> Vec<Arc<WheelPart>> {
        let wheels = self.wheels.iter();
        wheels.flat_map(|wheels| wheels.hosts.iter().chain(wheels.devices.values())).cloned().collect()
    }

    /// The manifests of the parts of a tree, by their names. Those of a wheel's parts are in their dist-info.
    pub(crate) fn manifests(&self) -> Vec<(String, TreeManifest)> {
        match (self.plan.options.manifests, &self.wheels) {
            (Some(digest), None) if !self.plan.keeps_wheels => {
                part_manifests(&self.input, &self.plan, &self.split_id, digest, str::to_owned)
            }
            _ => Vec::new(),
        }
    }

    /// Compares the members of a wheel with its RECORD, so that neither wrong digests nor damaged files are copied.
    pub(crate) fn check_claims(&self, progress: &Progress) -> Result<(), ReadError> {
        let Some(wheels) = &self.wheels else { return Ok(()) };
        progress.expect(self.input.entries.iter().map(Entry::size).sum());
        self.remember_damage(wheels.check_claims(&progress.done))?;
        self.check_members(|_| true)
    }

    /// Compares members of a wheel with their CRC-32, unless a pass has done that before: those of the host part, and
    /// databases of these keys.
    pub(crate) fn check_members(&self, is_wanted: impl Fn(&BundleKey) -> bool + Sync) -> Result<(), ReadError> {
        let members = self.input.entries.par_iter().zip(&self.plan.places);
        let checked = members.with_max_len(1).try_for_each(|(entry, place)| match (entry.content(), place) {
            (None, _) | (_, Destination::Unwanted(..)) => Ok(()),
            (_, Destination::Device(key, _)) if !is_wanted(key) => Ok(()),
            (Some(content), _) => content.check(),
        });
        self.remember_damage(checked)
    }

    /// Saves the index if a command fails, so that later sessions know of damage at once. The damage is what is reported
    /// then, not whether it could be saved.
    fn remember_damage(&self, checked: Result<(), ReadError>) -> Result<(), ReadError> {
        checked.inspect_err(|_| {
            self.resources.index.save().ok();
            self.resources.store.finish();
        })
    }
}

/// What an input is of those of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    /// The only one.
    All,
    /// What was collected from it. Code of libraries that are not collected is left out.
    Collected,
    /// One wheel of several, which messages name.
    Wheel,
}

fn warnings(input: &Input, plan: &Plan, wheels: Option<&WheelSet>, share: Share) -> Vec<String> {
    let all = plan.warnings.iter().chain(wheels.iter().flat_map(|wheels| &wheels.warnings));
    let name = input.location.file_name().unwrap_or_default().to_string_lossy();
    let of_share = |warning: &String| match share {
        Share::All | Share::Collected => warning.clone(),
        Share::Wheel => format!("{name}: {warning}"),
    };
    all.map(of_share).collect()
}

/// Whether an input is a device wheel without its host wheel: its statement says so, or, of other tools, its name ends with a device part,
/// it requires another distribution in its own version, and no library in it has device code.
fn is_device_alone(input: &Input, plan: &Plan) -> bool {
    let Some(dist_info) = input.dist_info() else { return false };
    if let Some(part) = statement_in(input, dist_info).and_then(|statement| statement.part) {
        return part != HOST;
    }
    let is_rewritten = |place: &Destination| matches!(place, Destination::Rewritten { .. });
    let has_code = !plan.joined.is_empty() || !plan.unsplit.is_empty() || plan.places.iter().any(is_rewritten);
    !has_code && Metadata::read(input).is_ok_and(|metadata| metadata.is_of_device_part())
}

/// Whether a wheel has no device code that could be moved, so that a release has it as it is.
fn is_whole(input: &Input, plan: &Plan) -> bool {
    let is_wheel = matches!(input.kind, InputKind::Wheel(_)) && plan.joined.is_empty();
    let is_unsplit = plan.keys.is_empty() && !plan.unsplit.is_empty();
    is_wheel && (is_unsplit || plan.keys_of_input().is_empty())
}
