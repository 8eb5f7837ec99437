//! Several wheels that do not belong together: each with its own plan, and the resources of all.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use once_cell::sync::OnceCell;

use super::options::SplitOptions;
use super::prepare::{List, Prepared, Share, announced, given_wheels, plan, plan_alone, prepare_with, resources};
use super::terminal::message;
use crate::join::{self, GivenWheels, SeveralWheels, WheelsError};
use crate::kpack::BundleJobs;
use crate::mount;
use crate::resources::Resources;
use crate::simple::PackageIndex;
use crate::source::{Attributes, Input};
use crate::split::Packaging;
use crate::view::{ListedWheel, PackageIndexes, ThinWheelOfView};
use crate::wheel::{WheelName, states_digests};

/// Several wheels.
pub(super) struct Release {
    pub(super) wheels: Vec<ReleasedWheel>,
    pub(super) resources: Arc<Resources>,
}

/// One of several wheels, or a host wheel with its device wheels.
pub(super) struct ReleasedWheel {
    pub(super) prepared: Prepared,
    /// What an index lists for it.
    listed: OnceCell<Vec<ListedWheel>>,
}

/// The inputs of a command.
pub(super) enum OpenedInputs {
    /// One input, or several wheels that belong together.
    One(Box<Prepared>),
    /// Several wheels that do not.
    Several(Release),
}

/// Plans one input, or each of several wheels.
pub(super) fn open(inputs: &[PathBuf], options: &SplitOptions, list: List) -> anyhow::Result<OpenedInputs> {
    let several = GivenWheels::of(inputs)?.filter(|given| given.wheels.len() > 1);
    let Some(wheels) = several.map(announced) else {
        return Ok(OpenedInputs::One(Box::new(prepare_with(inputs, options, list)?)));
    };
    let resources = shared_resources(inputs, options)?;
    Ok(match join::open_several(&wheels, &resources)? {
        SeveralWheels::Together(input) => OpenedInputs::One(Box::new(plan_alone(*input, options, &resources)?)),
        SeveralWheels::Apart(inputs) => OpenedInputs::Several(planned(inputs, options, &resources)?),
    })
}

/// The resources of all inputs, of which each may keep files open.
fn shared_resources(inputs: &[PathBuf], options: &SplitOptions) -> anyhow::Result<Arc<Resources>> {
    mount::raise_open_files().context("RLIMIT_NOFILE")?;
    resources(inputs.first().map_or(Path::new(""), PathBuf::as_path), options)
}

/// Lists wheels for a release, and plans the split of each.
pub(super) fn release(inputs: &[PathBuf], options: &SplitOptions) -> anyhow::Result<Release> {
    let resources = shared_resources(inputs, options)?;
    let listed = match (given_wheels(inputs)?, inputs) {
        (Some(wheels), _) => join::open_apart(&wheels, &resources)?,
        (None, [input]) => vec![Input::open(input, &resources)?],
        (None, _) => return Err(not_a_wheel(inputs).into()),
    };
    planned(listed, options, &resources)
}

/// The first input that is neither a wheel nor a directory of wheels.
fn not_a_wheel(inputs: &[PathBuf]) -> WheelsError {
    let is_other = |path: &&PathBuf| !matches!(GivenWheels::of(std::slice::from_ref(path)), Ok(Some(_)));
    WheelsError::NotAWheel(inputs.iter().find(is_other).cloned().unwrap_or_default())
}

/// Plans the split of each of these inputs.
fn planned(inputs: Vec<Input>, options: &SplitOptions, resources: &Arc<Resources>) -> anyhow::Result<Release> {
    let jobs = BundleJobs::new(resources);
    let mut wheels = Vec::with_capacity(inputs.len());
    for input in inputs {
        if resources.policy.hash_members && states_digests(&input) {
            input.hash_members();
        }
        let path = input.location.clone();
        let prepared =
            plan(input, options, resources, Share::Wheel(&jobs)).with_context(|| path.display().to_string())?;
        wheels.push(ReleasedWheel { prepared, listed: OnceCell::new() });
    }
    let choices = options.to_options(Packaging::Bundles)?;
    let keys = wheels.iter().map(|wheel| wheel.prepared.plan.keys_of_input(choices.packaging));
    choices.check_selection(&keys.flatten().collect::<BTreeSet<_>>())?;
    let release = Release { wheels, resources: Arc::clone(resources) };
    for warning in release.wheels.iter().flat_map(ReleasedWheel::warnings) {
        eprintln!("kpackfs: warning: {}", message(&warning));
    }
    Ok(release)
}

impl Release {
    /// The wheels of an index, without their digests. Fails if an installer could not tell two of them apart.
    pub(super) fn listed(&self) -> anyhow::Result<Vec<ListedWheel>> {
        let mut listed = Vec::new();
        for wheel in &self.wheels {
            listed.extend_from_slice(wheel.listed().with_context(|| wheel.path().display().to_string())?);
        }
        PackageIndex::new(listed.iter().map(|wheel| wheel.indexed.clone()))?;
        Ok(listed)
    }

    /// The attributes of directories: those of the newest input.
    pub(super) fn root(&self) -> Option<Attributes> {
        let roots = self.wheels.iter().map(|wheel| wheel.prepared.input.root);
        let newest = roots.max_by_key(|root| (root.mtime, root.mtime_nanoseconds))?;
        Some(Attributes { mode: 0o755, ..newest })
    }
}

impl ReleasedWheel {
    /// Its path.
    pub(super) fn path(&self) -> &Path {
        &self.prepared.input.location
    }

    /// The wheels that an index lists for it.
    pub(super) fn listed(&self) -> anyhow::Result<&[ListedWheel]> {
        Ok(self.listed.get_or_try_init(|| self.prepared.listed())?)
    }

    /// Adds its wheels to the indexes of a mount.
    pub(super) fn add_to(&self, indexes: &mut PackageIndexes, thin: &[ThinWheelOfView]) -> anyhow::Result<()> {
        let made = self.prepared.made.seconds();
        match &self.prepared.wheels {
            Some(wheels) => indexes.add_split((&self.prepared.input, wheels), thin, made)?,
            None => self.listed()?.iter().for_each(|wheel| indexes.add_whole(wheel.clone().dated(made))),
        }
        Ok(())
    }

    /// The name of the wheel, or of the host wheel.
    pub(super) fn name(&self) -> anyhow::Result<WheelName> {
        let host = self.prepared.wheels.as_ref().and_then(|wheels| wheels.hosts.first());
        let file = match host {
            Some(host) => host.file_name()?,
            None => self.path().file_name().unwrap_or_default().to_string_lossy().into_owned(),
        };
        Ok(WheelName::parse(&file)?)
    }

    /// Why installers refuse wheels that are listed as they are, and which of their signatures are not listed.
    fn warnings(&self) -> Vec<String> {
        let Some(listed) = self.listed().ok().filter(|_| self.prepared.wheels.is_none()) else { return Vec::new() };
        listed.iter().flat_map(ListedWheel::warnings).collect()
    }
}
