//! Opening and planning what the user named: one input, an image with its root file system, or several wheels that do not belong together,
//! each with its own plan.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use once_cell::sync::OnceCell;

use super::choices::{SplitChoices, Stages};
use super::error::SessionError;
use super::prepared::{Prepared, Share, plan};
use crate::gpu::TargetId;
use crate::image::{DeviceParts, Image, ImageReference, LayeredImage};
use crate::kpack::BundleJobs;
use crate::opened::{self, NamedPath, OpenedError, OpenedInputs, OpenedResult, check_elsewhere};
use crate::report::LayerSummary;
use crate::resources::Resources;
use crate::simple::PackageIndex;
use crate::source::{Attributes, Input};
use crate::view::{ListedWheel, PackageIndexes, ThinWheelOfView, gpus_of};
use crate::wheel::WheelName;

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
    pub(crate) fn open(&self, named: &[NamedPath]) -> Result<SessionInputs, SessionError> {
        Ok(match self.list(named)? {
            OpenedInputs::One(input) => SessionInputs::One(Box::new(self.plan_alone(*input)?)),
            OpenedInputs::Several(inputs, _) => SessionInputs::Several(Release::plan(inputs, self)?),
        })
    }

    /// Opens and plans wheels, of which only host wheels and their device wheels belong together.
    pub(crate) fn open_apart(&self, named: &[NamedPath]) -> Result<Release, SessionError> {
        Release::plan(self.opened(named, || opened::open_apart(named, self.resources))?, self)
    }

    /// Opens and plans what the user named as one input.
    pub(crate) fn open_together(&self, named: &[NamedPath]) -> Result<Prepared, SessionError> {
        self.plan_alone(self.list(named)?.into_one()?)
    }

    /// Opens all that the user named, as [`opened::open_all`] does.
    pub(crate) fn list_all(&self, named: &NamedPath) -> Result<Vec<Input>, SessionError> {
        Ok(self.opened(std::slice::from_ref(named), || opened::open_all(named, self.resources))?)
    }

    /// Opens what the user named.
    pub(crate) fn list(&self, named: &[NamedPath]) -> Result<OpenedInputs, SessionError> {
        Ok(self.opened(named, || opened::open(named, self.resources))?)
    }

    /// Opens inputs. Says what else there is.
    fn opened<I: Send>(
        &self,
        named: &[NamedPath],
        open: impl FnOnce() -> Result<OpenedResult<I>, OpenedError> + Send,
    ) -> Result<I, OpenedError> {
        let paths: Vec<_> = named.iter().map(|it| it.path.clone()).collect();
        let OpenedResult { inputs, notes, warnings } = self.stages.opening(&paths, self.resources, open)?;
        (self.say)(&notes, &warnings);
        Ok(inputs)
    }

    /// Plans the split of the only input of a command.
    pub(crate) fn plan_alone(&self, input: Input) -> Result<Prepared, SessionError> {
        let prepared = self.plan(input, Share::All)?;
        prepared.plan.check_selection(&self.choices.plan)?;
        if prepared.has_nothing_to_split() {
            opened::check_elsewhere(&prepared.input)?;
        }
        Ok(prepared)
    }

    /// Plans the split of an input. It is no error if there is none for a target.
    pub(crate) fn plan(&self, input: Input, share: Share) -> Result<Prepared, SessionError> {
        let prepared = self.plan_with(input, share, &BundleJobs::new(self.resources))?;
        let is_without_wheels = prepared.wheels.is_none() && !prepared.plan.keeps_wheels;
        match self.choices.of_wheels.first().filter(|_| is_without_wheels) {
            Some(option) => Err(SessionError::NotOfWheels { path: prepared.input.location, option }),
            None => Ok(prepared),
        }
    }

    /// Plans the split of an input, with the jobs of all inputs.
    pub(super) fn plan_with(
        &self,
        input: Input,
        share: Share,
        jobs: &Arc<BundleJobs>,
    ) -> Result<Prepared, SessionError> {
        let prepared = plan(input, self.choices, (share, jobs), self.resources, &self.stages)?;
        (self.say)(&[], &prepared.warnings);
        Ok(prepared)
    }
}

/// Several wheels.
pub(crate) struct Release {
    pub(crate) wheels: Vec<ReleasedWheel>,
    pub(crate) resources: Arc<Resources>,
}

/// One of several wheels, or a host wheel with its device wheels.
pub(crate) struct ReleasedWheel {
    pub(crate) prepared: Prepared,
    /// What an index lists for it.
    listed: OnceCell<Vec<ListedWheel>>,
}

impl Release {
    /// Plans the split of each of these inputs.
    pub(super) fn plan<S: Stages>(inputs: Vec<Input>, session: &Session<'_, S>) -> Result<Self, SessionError> {
        let jobs = BundleJobs::new(session.resources);
        let mut wheels = Vec::with_capacity(inputs.len());
        for input in inputs {
            let path = input.location.clone();
            let prepared = session.plan_with(input, Share::Wheel, &jobs).map_err(|error| error.of_wheel(path))?;
            wheels.push(ReleasedWheel { prepared, listed: OnceCell::new() });
        }
        let choices = &session.choices.plan;
        let keys = wheels.iter().map(|wheel| wheel.prepared.plan.keys_of_input(choices.packaging));
        choices.check_selection(&keys.flatten().collect::<BTreeSet<_>>())?;
        let warnings: Vec<_> = wheels.iter().flat_map(ReleasedWheel::warnings).collect();
        (session.say)(&[], &warnings);
        Ok(Self { wheels, resources: Arc::clone(session.resources) })
    }

    /// The wheels of an index, without their digests. Fails if an installer could not tell two of them apart.
    pub(crate) fn listed(&self) -> Result<Vec<ListedWheel>, SessionError> {
        let mut listed = Vec::new();
        for wheel in &self.wheels {
            let found = wheel.listed();
            if found.is_err() && wheel.prepared.has_nothing_to_split() {
                check_elsewhere(&wheel.prepared.input)?;
            }
            listed.extend_from_slice(found.map_err(|error| error.of_wheel(wheel.path().to_owned()))?);
        }
        PackageIndex::new(listed.iter().map(|wheel| wheel.indexed.clone()))?;
        Ok(listed)
    }

    /// The attributes of directories: those of the newest input.
    pub(crate) fn root(&self) -> Option<Attributes> {
        let roots = self.wheels.iter().map(|wheel| wheel.prepared.input.root);
        let newest = roots.max_by_key(|root| (root.mtime, root.mtime_nanoseconds))?;
        Some(Attributes { mode: 0o755, ..newest })
    }
}

impl ReleasedWheel {
    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.prepared.input.location
    }

    /// The wheels that an index lists for it.
    pub(crate) fn listed(&self) -> Result<&[ListedWheel], SessionError> {
        Ok(self.listed.get_or_try_init(|| self.prepared.listed())?)
    }

    /// Adds its wheels to the indexes of a mount.
    pub(crate) fn add_to(&self, indexes: &mut PackageIndexes, thin: &[ThinWheelOfView]) -> Result<(), SessionError> {
        let made = self.prepared.made.seconds();
        match &self.prepared.wheels {
            Some(wheels) => indexes.add_split((&self.prepared.input, wheels), thin, made)?,
            None => self.listed()?.iter().for_each(|wheel| indexes.add_whole(wheel.clone().dated(made))),
        }
        Ok(())
    }

    /// The name of the wheel, or of the host wheel.
    pub(crate) fn name(&self) -> Result<WheelName, SessionError> {
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

/// An image, the plan of its root file system, and its device parts.
pub(crate) struct PreparedImage {
    pub(crate) image: LayeredImage,
    pub(crate) prepared: Prepared,
    pub(crate) parts: DeviceParts,
}

impl PreparedImage {
    /// Plans the split of an image's root file system.
    pub(crate) fn open<S: Stages>(reference: &ImageReference, session: &Session<'_, S>) -> Result<Self, SessionError> {
        let resources = session.resources;
        let image = Image::open(reference, resources).and_then(|image| LayeredImage::open(image, resources));
        let image = image.map_err(OpenedError::from)?;
        let root = || image.root_input().map_err(OpenedError::from);
        let prepared = session.plan_alone(root()?)?;
        // Joining has removed archives from the input of the plan.
        let parts = DeviceParts::find(&root()?, &prepared.plan.databases);
        Ok(Self { image, prepared, parts })
    }

    /// What the layers have.
    pub(crate) fn layers(&self) -> Result<Vec<LayerSummary>, SessionError> {
        let Prepared { input, plan, .. } = &self.prepared;
        let gpus: Vec<TargetId> = gpus_of(plan).iter().map(|gpu| gpu.first().clone()).collect();
        let usages = self.image.usage(input, plan, &self.parts).map_err(OpenedError::from)?;
        Ok(usages.iter().map(|usage| LayerSummary::of(usage, &gpus)).collect())
    }
}
