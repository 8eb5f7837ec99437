//! Listing an input and planning its split, with a progress bar.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;

use super::options::SplitOptions;
use super::progress::show_bytes;
use crate::index::{Memory, Resources};
use crate::source::Input;
use crate::split::{Packaging, Plan, Progress, Statement};
use crate::view::WheelSet;

/// An input with its plan.
pub(super) struct Prepared {
    pub(super) input: Input,
    pub(super) plan: Plan,
    pub(super) wheels: Option<WheelSet>,
    /// What the split is restricted to.
    pub(super) statement: Statement,
    pub(super) resources: Arc<Resources>,
}

/// Has as many threads plan and compress as the user wants.
pub(super) fn set_jobs(jobs: Option<u16>) -> anyhow::Result<()> {
    let Some(jobs) = jobs else { return Ok(()) };
    rayon::ThreadPoolBuilder::new().num_threads(jobs.into()).build_global().context("--jobs")
}

/// What all work shares, with as many threads and as much memory as the user wants.
pub(super) fn resources(input: &Path, options: &SplitOptions) -> anyhow::Result<Arc<Resources>> {
    set_jobs(options.jobs)?;
    let directory = options.cache.directory();
    let memory = directory.map_or_else(Memory::default, |directory| Memory::open(&directory, input));
    Ok(Resources::with_store(options.memory << 20, memory, options.frame_store(input)))
}

/// Plans, and tells on stderr what could not be split.
pub(super) fn prepare(input: &Path, options: &SplitOptions) -> anyhow::Result<Prepared> {
    let choices = options.to_options(Packaging::Bundles)?;
    let resources = resources(input, options)?;
    let input = Input::open(input, &resources)?;
    let progress = Progress::default();
    let plan = show_bytes("Planning", &progress.done, &progress.total, || {
        Plan::make(&input, &choices, &resources, &progress)
    })?;
    let wheels = WheelSet::new(&input, &plan, &options.to_wheel_options()?, &resources)?;
    let of_wheels = wheels.iter().flat_map(|wheels| &wheels.warnings);
    for warning in plan.warnings.iter().chain(of_wheels) {
        eprintln!("kpackfs: warning: {warning}");
    }
    plan.check_selection(&choices)?;
    Ok(Prepared { input, plan, wheels, statement: Statement::of(&choices), resources })
}

/// Keeps what was learnt. Without it the next run takes longer, no more.
pub(super) fn keep_learnt(resources: &Resources) {
    if let Err(error) = resources.memory.save() {
        eprintln!("kpackfs: warning: what was learnt about the input cannot be kept: {error}");
    }
    resources.store.finish();
}
