//! Container images: OCI image layouts (OCI Image Format Specification 1.1), in directories and tar archives, as input
//! and output.
//!
//! A layer is a tar archive, so it is read as one: its files are ranges of it. The root file system is the layers laid
//! over each other, and is an input like any tree.

mod choose;
mod device_parts;
mod division;
mod error;
mod hidden;
mod layer;
mod layered;
mod layout;
mod member_header;
mod new_image;
mod new_layer;
mod reference;
mod root;
mod usage;

use std::sync::Arc;

use crate::gpu::GpuSet;
use crate::resources::Resources;
use crate::source::Input;

pub(crate) use choose::{Image, MAX_NAMED};
pub(crate) use device_parts::DeviceParts;
pub(crate) use division::{Division, DivisionForm};
pub use error::ImageError;
pub(crate) use layer::Layer;
pub(crate) use layered::LayeredImage;
pub(crate) use layout::{BLOBS, INDEX, Layout, MARK, is_layout};
pub(crate) use new_image::{ImageRecipe, LayerPart, ListedLayer, WrittenBlob, index_with, mark};
pub(crate) use new_layer::MadeLayer;
pub use reference::{ImageReference, LayoutForm};
pub(crate) use usage::LayerUsage;

/// The GPUs that an image is for, if a split made it.
pub fn gpus_of(reference: &ImageReference, resources: &Arc<Resources>) -> Result<Option<GpuSet>, ImageError> {
    Ok(new_image::gpus_of(&Image::open(reference, resources)?))
}

/// The root file system of an image.
pub fn open_root(reference: &ImageReference, resources: &Arc<Resources>) -> Result<Input, ImageError> {
    LayeredImage::open(Image::open(reference, resources)?, resources)?.root_input()
}
