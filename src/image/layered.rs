//! An image whose layers are listed.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
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
    pub(crate) layers: Vec<Arc<Layer>>,
}

impl LayeredImage {
    /// Reads the headers of all layers. One blob may be several layers.
    pub(crate) fn open(image: Image, resources: &Arc<Resources>) -> Result<Self, ImageError> {
        let (mut layers, mut read) = (Vec::new(), HashMap::new());
        for descriptor in image.layers() {
            let blob = (descriptor.digest().to_string(), descriptor.media_type().to_string(), descriptor.size());
            let layer = match read.entry(blob) {
                Entry::Occupied(same) => Arc::clone(same.get()),
                Entry::Vacant(new) => Arc::clone(new.insert(Arc::new(image.layer(descriptor, resources)?))),
            };
            layers.push(layer);
        }
        Ok(Self { image, layers })
    }

    /// The layers laid over each other.
    pub(super) fn root(&self) -> Result<RootFiles, ImageError> {
        let mut root = RootFiles::default();
        self.layers.iter().enumerate().try_for_each(|(number, layer)| root.apply(number, layer))?;
        root.leave_no_gpu();
        Ok(root)
    }

    /// The root file system, as an input.
    pub(crate) fn root_input(&self) -> Result<Input, ImageError> {
        self.root()?.into_input(&self.image)
    }

    /// A member, with its layer.
    pub(super) fn member(&self, id: MemberId) -> Option<(&Layer, &LayerMember)> {
        let layer = self.layers.get(id.layer as usize)?;
        Some((layer, layer.members.get(id.member as usize)?))
    }

    /// All members of a layer.
    pub(super) fn members(&self, layer: usize) -> impl Iterator<Item = (MemberId, &LayerMember)> {
        let members = self.layers.get(layer).map_or(&[][..], |layer| layer.members.as_slice());
        members.iter().enumerate().map(move |(number, member)| (MemberId::new(layer, number), member))
    }
}
