//! An image whose layers are listed.

use std::sync::Arc;

use super::layer::{Layer, LayerMember};
use super::root::{MemberId, RootFiles};
use super::{Image, ImageError};
use crate::resources::Resources;
use crate::source::Input;

/// An image, and the members of its layers.
#[derive(Debug)]
pub(crate) struct LayeredImage {
    pub(crate) image: Image,
    pub(crate) layers: Vec<Layer>,
}

impl LayeredImage {
    /// Reads the headers of all layers.
    pub(crate) fn open(image: Image, resources: &Arc<Resources>) -> Result<Self, ImageError> {
        let layers =
            (0..image.layers().len()).map(|number| image.layer(number, resources)).collect::<Result<_, _>>()?;
        Ok(Self { image, layers })
    }

    /// The layers laid over each other.
    pub(super) fn root(&self) -> Result<RootFiles, ImageError> {
        let mut root = RootFiles::default();
        self.layers.iter().enumerate().try_for_each(|(number, layer)| root.apply(number, layer))?;
        Ok(root)
    }

    /// The root file system, as an input.
    pub(crate) fn root_input(&self, resources: &Arc<Resources>) -> Result<Input, ImageError> {
        self.root()?.into_input(&self.image, resources)
    }

    /// A member, with its layer.
    pub(super) fn member(&self, id: MemberId) -> Option<(&Layer, &LayerMember)> {
        let layer = self.layers.get(id.layer as usize)?;
        Some((layer, layer.members.get(id.member as usize)?))
    }

    /// All members of a layer.
    pub(super) fn members(&self, layer: usize) -> impl Iterator<Item = (MemberId, &LayerMember)> {
        let members = self.layers.get(layer).map_or(&[][..], |layer| &layer.members);
        members.iter().enumerate().map(move |(number, member)| (MemberId::new(layer, number), member))
    }
}
