//! Opening and planning what the user named.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::{Context, bail};

use super::choices::{SplitChoices, Stages};
use super::prepared::{Prepared, Share};
use super::release::{Release, ReleasedWheel};
use crate::kpack::BundleJobs;
use crate::opened::{self, NamedPath, OpenedInputs, OpenedResult};
use crate::resources::Resources;
use crate::source::Input;

/// What the inputs of a command share: choices, resources, and how progress is shown.
pub(crate) struct Session<'a, S> {
    pub(crate) choices: &'a SplitChoices,
    pub(crate) resources: &'a Arc<Resources>,
    pub(crate) stages: S,
    /// Receives what is to be said of the inputs: notes, then warnings.
    pub(crate) say: fn(&[String], &[String]),
}

/// The planned inputs of a command.
pub(crate) enum SessionInputs {
    /// One input, or several wheels or parts that belong together.
    One(Box<Prepared>),
    /// Several wheels that do not.
    Several(Release),
}

impl<S: Stages> Session<'_, S> {
    /// Opens and plans what the user named.
    pub(crate) fn open(&self, named: &[NamedPath]) -> anyhow::Result<SessionInputs> {
        Ok(match self.list(named)? {
            OpenedInputs::One(input) => SessionInputs::One(Box::new(self.plan_alone(*input)?)),
            OpenedInputs::Several(inputs, _) => SessionInputs::Several(self.plan_each(inputs)?),
        })
    }

    /// Opens and plans wheels, of which only host wheels and their device wheels belong together.
    pub(crate) fn open_apart(&self, named: &[NamedPath]) -> anyhow::Result<Release> {
        self.plan_each(self.opened(named, || opened::open_apart(named, self.resources))?)
    }

    /// Opens and plans what the user named as one input.
    pub(crate) fn open_together(&self, named: &[NamedPath]) -> anyhow::Result<Prepared> {
        self.plan_alone(self.list(named)?.into_one()?)
    }

    /// Opens all that the user named, as [`opened::open_all`] does.
    pub(crate) fn list_all(&self, named: &NamedPath) -> anyhow::Result<Vec<Input>> {
        self.opened(std::slice::from_ref(named), || opened::open_all(named, self.resources))
    }

    /// Opens what the user named.
    pub(crate) fn list(&self, named: &[NamedPath]) -> anyhow::Result<OpenedInputs> {
        self.opened(named, || opened::open(named, self.resources))
    }

    /// Opens inputs. Says what else there is.
    fn opened<I: Send>(
        &self,
        named: &[NamedPath],
        open: impl FnOnce() -> anyhow::Result<OpenedResult<I>> + Send,
    ) -> anyhow::Result<I> {
        let paths: Vec<_> = named.iter().map(|it| it.path.clone()).collect();
        let OpenedResult { inputs, notes, warnings } = self.stages.opening(&paths, self.resources, open)?;
        (self.say)(&notes, &warnings);
        Ok(inputs)
    }

    /// Plans the split of the only input of a command.
    pub(crate) fn plan_alone(&self, input: Input) -> anyhow::Result<Prepared> {
        let prepared = self.plan(input, Share::All)?;
        prepared.plan.check_selection()?;
        if prepared.has_nothing_to_split() {
            opened::check_elsewhere(&prepared.input, self.resources)?;
            opened::check_sites(&prepared.input)?;
        }
        Ok(prepared)
    }

    /// Plans the split of an input. It is no error if there is none for a target.
    pub(crate) fn plan(&self, input: Input, share: Share) -> anyhow::Result<Prepared> {
        let prepared = self.plan_with(input, share, &BundleJobs::new(self.resources))?;
        let is_without_wheels = prepared.wheels.is_none() && !prepared.plan.keeps_wheels;
        match self.choices.of_wheels.first().filter(|_| is_without_wheels) {
            Some(option) => {
                let input = prepared.input.location.display();
                bail!("{input}: {option} is about wheels, and no wheel is made of this; leave the option out")
            }
            None => Ok(prepared),
        }
    }

    /// Plans the split of each of several wheels.
    fn plan_each(&self, inputs: Vec<Input>) -> anyhow::Result<Release> {
        let jobs = BundleJobs::new(self.resources);
        let mut wheels = Vec::with_capacity(inputs.len());
        for input in inputs {
            let place = input.location.display().to_string();
            wheels.push(ReleasedWheel::new(self.plan_with(input, Share::Wheel, &jobs).context(place)?));
        }
        let keys = wheels.iter().map(|wheel| wheel.prepared.plan.keys_of_input());
        self.choices.plan.targets.check(&keys.flatten().collect::<BTreeSet<_>>())?;
        let release = Release { wheels, resources: Arc::clone(self.resources) };
        (self.say)(&[], &release.warnings());
        Ok(release)
    }

    /// Plans the split of an input, with the jobs of all inputs.
    fn plan_with(&self, input: Input, share: Share, jobs: &Arc<BundleJobs>) -> anyhow::Result<Prepared> {
        let prepared = Prepared::plan(input, self.choices, share, jobs, self.resources, &self.stages)?;
        (self.say)(&[], &prepared.warnings);
        Ok(prepared)
    }
}
