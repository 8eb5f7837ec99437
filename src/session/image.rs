//! An image whose root file system is planned.

use super::choices::Stages;
use super::opening::Session;
use super::prepared::Prepared;
use crate::gpu::TargetId;
use crate::image::{DeviceParts, Image, ImageReference, LayeredImage};
use crate::report::LayerSummary;
use crate::view::gpus_of;

/// An image, the plan of its root file system, and its device parts.
pub(crate) struct PreparedImage {
    pub(crate) image: LayeredImage,
    pub(crate) prepared: Prepared,
    pub(crate) parts: DeviceParts,
}

impl PreparedImage {
    /// Plans the split of an image's root file system.
    pub(crate) fn open<S: Stages>(reference: &ImageReference, session: &Session<'_, S>) -> anyhow::Result<Self> {
        let resources = session.resources;
        let image = LayeredImage::open(Image::open(reference, resources)?, resources)?;
        let prepared = session.plan_alone(image.root_input()?)?;
        // Joining has removed archives from the input of the plan.
        let parts = DeviceParts::find(&image.root_input()?, &prepared.plan.options.databases);
        Ok(Self { image, prepared, parts })
    }

    /// What the layers have.
    pub(crate) fn layers(&self) -> anyhow::Result<Vec<LayerSummary>> {
        let Prepared { input, plan, .. } = &self.prepared;
        let gpus: Vec<TargetId> = gpus_of(plan).iter().map(|gpu| gpu.first().clone()).collect();
        let usages = self.image.usage(input, plan, &self.parts)?;
        Ok(usages.into_iter().map(|usage| LayerSummary::of(usage, &gpus)).collect())
    }
}
