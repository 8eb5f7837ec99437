//! An image whose root file system is planned.

use super::options::SplitOptions;
use super::prepare::{Prepared, plan_alone, resources};
use crate::gpu::TargetId;
use crate::image::{DeviceParts, Image, ImageReference, LayeredImage};
use crate::report::LayerSummary;
use crate::view::gpus_of;

/// An image, the plan of its root file system, and its device parts.
pub(super) struct PreparedImage {
    pub(super) image: LayeredImage,
    pub(super) prepared: Prepared,
    pub(super) parts: DeviceParts,
}

impl PreparedImage {
    /// Plans the split of an image's root file system, and prints warnings on stderr.
    pub(super) fn open(reference: &ImageReference, options: &SplitOptions) -> anyhow::Result<Self> {
        // First, since the documents of the layout count towards the limit on memory that this sets.
        let resources = resources(&reference.directory, options)?;
        let image = LayeredImage::open(Image::open(reference)?, &resources)?;
        let prepared = plan_alone(image.root_input(&resources)?, options, &resources)?;
        // Joining has removed archives from the input of the plan.
        let parts = DeviceParts::find(&image.root_input(&resources)?, &prepared.plan.databases);
        Ok(Self { image, prepared, parts })
    }

    /// What the layers have.
    pub(super) fn layers(&self) -> anyhow::Result<Vec<LayerSummary>> {
        let Prepared { input, plan, .. } = &self.prepared;
        let gpus: Vec<TargetId> = gpus_of(plan).iter().map(|gpu| gpu.first().clone()).collect();
        let usages = self.image.usage(input, plan, &self.parts)?;
        Ok(usages.iter().map(|usage| LayerSummary::of(usage, &gpus)).collect())
    }
}
