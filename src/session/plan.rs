//! Planning the split of an input that has been opened.

use std::sync::Arc;

use super::choices::{SplitChoices, Stages};
use super::error::SessionError;
use super::prepared::Prepared;
use crate::join;
use crate::kpack::BundleJobs;
use crate::memory::check_tables;
use crate::remote::check_remote;
use crate::resources::Resources;
use crate::source::{Input, InputKind};
use crate::split::{Packaging, Plan, SplitFacts, Statement};
use crate::wheel::states_digests;
use crate::wheelparts::WheelSet;

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

/// Plans the split of an input. `jobs` are those of all inputs of the command.
pub(super) fn plan(
    mut input: Input,
    choices: &SplitChoices,
    (share, jobs): (Share, &Arc<BundleJobs>),
    resources: &Arc<Resources>,
    stages: &impl Stages,
) -> Result<Prepared, SessionError> {
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
    let plan = stages.stage("Planning", plan)?;
    check_tables()?;
    check_remote(resources)?;
    let is_whole = plan.keeps_wheels || share == Share::Wheel && is_whole(&input, &plan);
    let wheels = (!is_whole).then(|| WheelSet::new(&input, &plan, &choices.wheels, resources)).transpose()?.flatten();
    let warnings = warnings(&input, &plan, wheels.as_ref(), share);
    let split_id = match &wheels {
        Some(wheels) => wheels.split_id.clone(),
        None => SplitFacts::of_tree(&input, &plan),
    };
    let made = wheels.iter().filter_map(|wheels| wheels.options).fold(made, |made, options| made.and(options.0));
    let (statement, resources) = (Statement::of(&choices.plan), Arc::clone(resources));
    Ok(Prepared { input, joined, plan, wheels, statement, split_id, made, resources, warnings })
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

/// Whether a wheel has no device code that could be moved, so that a release has it as it is.
fn is_whole(input: &Input, plan: &Plan) -> bool {
    let is_wheel = matches!(input.kind, InputKind::Wheel(_)) && plan.joined.is_empty();
    let is_unsplit = plan.keys.is_empty() && !plan.unsplit.is_empty();
    is_wheel && (is_unsplit || plan.keys_of_input(Packaging::Bundles).is_empty())
}
