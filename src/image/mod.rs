//! Container images: OCI image layouts (OCI Image Format Specification 1.1) as input and output.
//!
//! A layer is a tar archive, so it is read as one: its files are ranges of it. The root file system is the layers laid over
//! each other, and is an input like any tree.

mod choose;
mod error;
mod layer;
mod layout;
mod reference;
mod root;

use std::sync::Arc;

use crate::resources::Resources;
use crate::source::Input;

pub(crate) use choose::Image;
pub use error::ImageError;
pub(crate) use layer::Layer;
pub(crate) use layout::Layout;
pub use reference::ImageReference;
pub(crate) use root::RootFiles;

/// The root file system of an image.
pub fn open_root(reference: &ImageReference, resources: &Arc<Resources>) -> Result<Input, ImageError> {
    let image = Image::open(reference)?;
    let mut root = RootFiles::default();
    for number in 0..image.layers().len() {
        root.apply(&image.layer(number, resources)?)?;
    }
    root.into_input(&image, resources)
}
