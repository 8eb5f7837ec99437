//! Writes images for one GPU each into an OCI image layout.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use oci_spec::image::Descriptor;

use super::blobs::{BlobWriter, LayerCompression};
use super::error::{ExportError, Warn, at};
use super::inputs::Inputs;
use super::output::{Output, Replace};
use super::sharing::Reflink;
use super::unfinished::create_directory;
use crate::disk::Durability;
use crate::gpu::GpuSet;
use crate::image::{
    BLOBS, Division, INDEX, ImageError, ImageRecipe, LayerPart, Layout, LayoutForm, ListedLayer, MARK, MadeLayer,
    index_with, mark,
};
use crate::metrics::Progress;
use crate::resources::Resources;

/// Why images cannot be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ImageWriteError {
    /// The image cannot be read.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The layout cannot be written.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// A layer is larger than allowed. These are all that are known by then, with the sizes of their blobs.
    #[error("a layer is too large")]
    TooLarge(Vec<(LayerPart, u64)>),
    /// There is an image of this name.
    #[error("{}: there is an image {tag} in it; --force replaces it", layout.display())]
    Tag { layout: PathBuf, tag: String },
}

/// Where images are written to.
pub(crate) enum ImageLayout<'a> {
    /// A new layout.
    New(&'a Path),
    /// One that is there.
    Existing(&'a Path),
}

/// What is written, and how.
pub(crate) struct ImagesToWrite<'a> {
    pub(crate) recipe: ImageRecipe<'a>,
    pub(crate) division: &'a Division<'a>,
    /// The GPUs of each image, and its tag.
    pub(crate) gpus: &'a [(Arc<GpuSet>, String)],
    pub(crate) compression: LayerCompression,
    pub(crate) reflink: Reflink,
    pub(crate) durability: Durability,
    pub(crate) may_replace: bool,
    /// The largest size of a layer.
    pub(crate) max_layer: Option<u64>,
}

/// Numbers of layers, for messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LayerCounts {
    /// Layers that stay as they are.
    pub(crate) unchanged: usize,
    /// Layers that were made.
    pub(crate) written: usize,
    /// Layers that were there.
    pub(crate) found: usize,
}

/// What was written.
#[derive(Debug)]
pub(crate) struct WrittenImages {
    pub(crate) counts: LayerCounts,
    pub(crate) images: Vec<WrittenImage>,
    /// Bytes of all layers. Images share some.
    pub(crate) size: u64,
}

/// An image of it.
#[derive(Debug)]
pub(crate) struct WrittenImage {
    pub(crate) tag: String,
    /// That of its manifest.
    pub(crate) digest: String,
    /// Bytes of its layers.
    pub(crate) size: u64,
}

impl WrittenImages {
    fn of(counts: LayerCounts, images: &[ImageLayers], entries: &[Descriptor], tags: &[(Arc<GpuSet>, String)]) -> Self {
        let layers = |image: &ImageLayers| {
            let blob = |(_, layer): &(LayerPart, ListedLayer)| {
                (layer.descriptor.digest().to_string(), layer.descriptor.size())
            };
            image.iter().map(blob).collect::<HashMap<_, _>>()
        };
        let written = images.iter().zip(entries).zip(tags).map(|((image, entry), (_, tag))| WrittenImage {
            tag: tag.clone(),
            digest: entry.digest().to_string(),
            size: layers(image).values().sum(),
        });
        let all: HashMap<_, _> = images.iter().flat_map(layers).collect();
        Self { counts, images: written.collect(), size: all.values().sum() }
    }
}

impl ImageLayout<'_> {
    pub(crate) fn directory(&self) -> &Path {
        match self {
            Self::New(directory) | Self::Existing(directory) => directory,
        }
    }

    /// The layout that is there.
    fn existing(&self, resources: &Arc<Resources>) -> Result<Option<Layout>, ImageError> {
        match self {
            Self::New(_) => Ok(None),
            Self::Existing(directory) => Layout::open(directory, LayoutForm::Directory, resources).map(Some),
        }
    }

    /// Fails if there are images with the tags of new ones.
    fn check_tags(&self, to_write: &ImagesToWrite<'_>, existing: Option<&Layout>) -> Result<(), ImageWriteError> {
        let Some(existing) = existing.map(Layout::tags).transpose()? else { return Ok(()) };
        match to_write.gpus.iter().find(|(_, tag)| existing.contains(tag)) {
            Some((_, tag)) if !to_write.may_replace => {
                Err(ImageWriteError::Tag { layout: self.directory().to_owned(), tag: tag.clone() })
            }
            _ => Ok(()),
        }
    }

    fn prepare(
        &self,
        to_write: &ImagesToWrite<'_>,
        inputs: &Inputs,
        resources: &Resources,
        warn: Warn,
    ) -> Result<Output, ExportError> {
        let place = self.directory();
        let part = |name: &str| place.join(name);
        match self {
            Self::New(_) => {
                // The index comes last: without it there is no image.
                let parts = ["blobs", MARK, INDEX].map(part);
                Output::prepare(place, &parts, &[], &Replace::all(to_write.may_replace), inputs, &resources.store, warn)
            }
            Self::Existing(_) => {
                // Any blob stands for all: a symlink may lead to those of an input.
                inputs.check_all([part(INDEX), part(BLOBS).join("blob")].iter().map(PathBuf::as_path))?;
                Output::prepare(place, &[], &[], &Replace::all(false), inputs, &resources.store, warn)
            }
        }
    }
}

impl ImagesToWrite<'_> {
    /// What new layers may be parts of.
    fn parts(&self) -> impl Iterator<Item = LayerPart> {
        let numbers = 0..self.recipe.image.layers().len();
        numbers.flat_map(|number| {
            let of_gpus = self.gpus.iter().map(|(gpus, _)| Some((**gpus).clone()));
            std::iter::once(None).chain(of_gpus).map(move |gpus| LayerPart { number, gpus })
        })
    }

    /// The layers that stay as they are, with the sizes of their blobs.
    fn unchanged(&self) -> impl Iterator<Item = (LayerPart, u64)> {
        let layers = self.recipe.image.layers().iter().enumerate();
        let unchanged = layers.filter(|(number, _)| !self.division.is_divided(*number));
        unchanged.map(|(number, layer)| (LayerPart { number, gpus: None }, layer.size()))
    }

    /// About how many bytes are written or compressed: with the code for one GPU, files have about a quarter of their size.
    fn estimate(&self) -> u64 {
        let divided = self.parts().filter(|part| self.division.is_divided(part.number)).map(|part| {
            let size = self.division.files(&part).map(|(_, size)| size).fold(0, u64::saturating_add);
            if part.gpus.is_some() { size / 4 } else { size }
        });
        divided.chain(self.unchanged().map(|(_, size)| size)).fold(0, u64::saturating_add)
    }

    /// Fails if one of these layers is too large.
    fn check(&self, layers: impl Iterator<Item = (LayerPart, u64)>) -> Result<(), ImageWriteError> {
        let Some(max) = self.max_layer else { return Ok(()) };
        let layers: Vec<_> = layers.collect();
        if layers.iter().any(|(_, size)| *size > max) { Err(ImageWriteError::TooLarge(layers)) } else { Ok(()) }
    }

    /// The layers of new images that are in a layout. Images that cannot be used have none.
    fn layers_in(&self, layout: &Layout, warn: Warn) -> Result<HashMap<LayerPart, ListedLayer>, ImageError> {
        let (layers, unusable) = self.recipe.find_all(self.parts(), layout)?;
        if let Some(first) = unusable.first {
            let more = match unusable.count.saturating_sub(1) {
                0 => String::new(),
                more => format!("; further damaged images: {more}"),
            };
            warn(&format!("{first}; layers of this image are made again{more}"));
        }
        Ok(layers)
    }

    /// Writes all images, or nothing.
    pub(crate) fn write(
        &self,
        layout: &ImageLayout<'_>,
        inputs: &Inputs,
        resources: &Arc<Resources>,
        progress: &Progress,
        warn: Warn,
    ) -> Result<WrittenImages, ImageWriteError> {
        let existing = layout.existing(resources)?;
        let layers = existing.as_ref().map(|layout| self.layers_in(layout, warn)).transpose()?.unwrap_or_default();
        layout.check_tags(self, existing.as_ref())?;
        self.check(self.unchanged())?;
        let mut output = layout.prepare(self, inputs, resources, warn)?;
        progress.foresee(|| self.estimate());
        let directory = output.staged(&layout.directory().join(BLOBS));
        create_directory(&directory).map_err(at(&directory))?;
        let (compression, reflink) = (self.compression, self.reflink);
        let blobs = BlobWriter { directory, existing, compression, reflink, resources, progress };
        let mut writing = LayerWriter { to_write: self, blobs, existing: layers, counts: LayerCounts::default(), warn };
        let images = writing.images()?;
        self.check(images.iter().flatten().map(|(part, layer)| (part.clone(), layer.descriptor.size())))?;
        let entries = images.iter().zip(self.gpus).map(|(layers, (_, tag))| writing.entry(layers, tag));
        let entries = entries.collect::<Result<Vec<_>, _>>()?;
        let (blobs, counts, place) = (writing.blobs.directory, writing.counts, layout.directory());
        output.sync(self.durability)?;
        let lock = output.lock()?;
        // Another process may have added images meanwhile.
        let existing = layout.existing(resources)?;
        layout.check_tags(self, existing.as_ref())?;
        match layout {
            ImageLayout::New(_) => output.write_file(&place.join(MARK), &mark(), Durability::Synced)?,
            ImageLayout::Existing(_) => add_blobs(&mut output, &blobs, &place.join(BLOBS))?,
        }
        let index = existing.as_ref().map(Layout::index).transpose()?;
        output.write_file(&place.join(INDEX), &index_with(index, &entries), Durability::Synced)?;
        output.publish_locked(lock)?;
        Ok(WrittenImages::of(counts, &images, &entries, self.gpus))
    }
}

/// Adds the new blobs to those of a layout. They replace damaged ones.
fn add_blobs(output: &mut Output, staged: &Path, place: &Path) -> Result<(), ExportError> {
    for entry in fs::read_dir(staged).map_err(at(staged))? {
        let entry = entry.map_err(at(staged))?;
        output.add(&place.join(entry.file_name()), true);
    }
    Ok(())
}

/// Writes layers once, although several images have them.
struct LayerWriter<'a> {
    to_write: &'a ImagesToWrite<'a>,
    blobs: BlobWriter<'a>,
    /// The layers of the layout that is added to.
    existing: HashMap<LayerPart, ListedLayer>,
    counts: LayerCounts,
    warn: Warn,
}

/// The layers of an image.
type ImageLayers = Vec<(LayerPart, ListedLayer)>;

impl LayerWriter<'_> {
    /// Writes the layers of all images, one old layer after the other: what reads it then goes through it once more at most.
    fn images(&mut self) -> Result<Vec<ImageLayers>, ImageWriteError> {
        let ImagesToWrite { recipe, division, gpus, .. } = *self.to_write;
        let mut images = vec![ImageLayers::new(); gpus.len()];
        for (number, descriptor) in recipe.image.layers().iter().enumerate() {
            let shared = LayerPart { number, gpus: None };
            let layer = if division.is_divided(number) {
                self.layer(&shared, || division.shared_layer(number).map(Some))?
            } else {
                self.unchanged(number, descriptor)?
            };
            for image in &mut images {
                image.extend(layer.clone().map(|layer| (shared.clone(), layer)));
            }
            if !division.is_divided(number) {
                continue;
            }
            for ((gpus, _), image) in gpus.iter().zip(&mut images) {
                let part = LayerPart { number, gpus: Some((**gpus).clone()) };
                let layer = self.layer(&part, || division.layer_of(number, gpus))?;
                image.extend(layer.map(|layer| (part, layer)));
            }
        }
        Ok(images)
    }

    /// A layer that stays as it is, with the digest that its archive has. That of the configuration may be another one.
    fn unchanged(&mut self, number: usize, layer: &Descriptor) -> Result<Option<ListedLayer>, ImageWriteError> {
        let ImagesToWrite { recipe, division, .. } = *self.to_write;
        let content = recipe.image.blob(layer)?;
        self.blobs.unchanged(layer, &content)?;
        self.counts.unchanged += 1;
        let diff_id = division.diff_id(number, &self.blobs.resources.index)?;
        if let Some(stated) = recipe.image.diff_ids.get(number).filter(|stated| **stated != diff_id) {
            let digest = layer.digest();
            (self.warn)(&format!(
                "layer {number} ({digest}): the configuration states that its archive is {stated} (diff_ids), and it is \
                 {diff_id}, which new images state; docker, containerd and umoci refuse the input"
            ));
        }
        Ok(recipe.unchanged(number, diff_id))
    }

    /// A layer: the one that is there, or a new one.
    fn layer(
        &mut self,
        part: &LayerPart,
        make: impl FnOnce() -> Result<Option<MadeLayer>, ImageError>,
    ) -> Result<Option<ListedLayer>, ImageWriteError> {
        let recipe = &self.to_write.recipe;
        let found = self.existing.get(part);
        if let Some(found) = found.filter(|layer| self.blobs.has(&layer.descriptor)) {
            self.counts.found += 1;
            return Ok(Some(found.clone()));
        }
        let Some(new) = make()? else { return Ok(None) };
        let (blob, diff_id) = self.blobs.layer(&new.archive)?;
        self.counts.written += 1;
        Ok(Some(recipe.written(part, &blob, &diff_id, self.to_write.compression.media_type())))
    }

    /// Writes the documents of an image. Returns its entry in the list of images.
    fn entry(&self, layers: &ImageLayers, tag: &str) -> Result<Descriptor, ExportError> {
        let recipe = &self.to_write.recipe;
        let config = self.blobs.document(&recipe.config(layers))?;
        let manifest = self.blobs.document(&recipe.manifest(&config, layers))?;
        Ok(recipe.entry(&manifest, tag))
    }
}
