//! The documents of a new image: its configuration, its manifest, and its entry in the list of images (OCI Image Format
//! Specification, "Image Configuration", "Image Manifest", "Image Layout").

use std::collections::HashMap;

use oci_spec::image::{Descriptor, ImageIndex, ImageManifest, MediaType, Sha256Digest};
use serde::Serialize;
use serde_json::{Value, json};

use super::choose::UnusableImages;
use super::layer::compression;
use super::layout::{TAG, tag_of};
use super::{Image, ImageError, Layout};
use crate::gpu::GpuSet;
use crate::source::TarCompression;
use crate::split::hex;

/// From which image it was made, with which options, and what a layer is a part of.
const SOURCE: &str = "io.kpackfs.source";
const OPTIONS: &str = "io.kpackfs.options";
const PART: &str = "io.kpackfs.part";

/// The part of a layer that all GPUs share.
const SHARED: &str = "host";

/// What comes after the GPUs in the name of a part.
const OF_LAYER: &str = " of layer ";

/// The GPUs that an image is for, as the annotations of its layers say.
pub(super) fn gpus_of(image: &Image) -> Option<GpuSet> {
    let parts = image.layers().iter().filter_map(|layer| layer.annotations().as_ref()?.get(PART)?.split_once(OF_LAYER));
    parts.filter(|(gpus, _)| *gpus != SHARED).find_map(|(gpus, _)| gpus.parse().ok())
}

/// A blob that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WrittenBlob {
    pub(crate) sha256: [u8; 32],
    pub(crate) size: u64,
}

/// A layer of a new image: its descriptor, and the digest of its archive (`diff_id`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListedLayer {
    pub(crate) descriptor: Descriptor,
    pub(crate) diff_id: String,
}

/// What identifies a new layer: its number in the image that it is a part of, and the GPUs; `None` for all.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LayerPart {
    pub(crate) number: usize,
    pub(crate) gpus: Option<GpuSet>,
}

/// How an image is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ImageRecipe<'a> {
    pub(crate) image: &'a Image,
    /// Everything on which the bytes of new layers depend.
    pub(crate) options: &'a str,
}

impl WrittenBlob {
    /// Its descriptor with this media type.
    pub(crate) fn descriptor(&self, media_type: MediaType) -> Descriptor {
        let digest: Result<Sha256Digest, _> = hex(&self.sha256).parse();
        #[expect(clippy::expect_used, reason = "64 hexadecimal digits are the digest of a SHA-256")]
        Descriptor::new(media_type, self.size, digest.expect("hexadecimal digits"))
    }
}

impl ImageRecipe<'_> {
    /// A layer that stays as it is, with the digest of its archive.
    pub(crate) fn unchanged(&self, number: usize, diff_id: String) -> Option<ListedLayer> {
        let mut descriptor = self.image.layers().get(number)?.clone();
        // Docker's names do not belong into an OCI manifest.
        if let Some(name) = oci_name(descriptor.media_type()) {
            descriptor.set_media_type(name);
        }
        Some(ListedLayer { descriptor, diff_id })
    }

    /// A layer that was written.
    pub(crate) fn written(
        &self,
        part: &LayerPart,
        blob: &WrittenBlob,
        diff_id: &[u8; 32],
        media_type: MediaType,
    ) -> ListedLayer {
        let mut descriptor = blob.descriptor(media_type);
        descriptor.set_annotations(Some(self.annotations_of(part)));
        ListedLayer { descriptor, diff_id: format!("sha256:{}", hex(diff_id)) }
    }

    fn annotations_of(&self, part: &LayerPart) -> HashMap<String, String> {
        let source = self.image.layers().get(part.number).map(|layer| layer.digest().to_string());
        let gpus = part.gpus.as_ref().map_or_else(|| SHARED.to_owned(), ToString::to_string);
        let mut annotations = self.annotations();
        let part = format!("{gpus}{OF_LAYER}{} {}", part.number, source.unwrap_or_default());
        annotations.insert(PART.to_owned(), part);
        annotations
    }

    fn annotations(&self) -> HashMap<String, String> {
        let source = (SOURCE.to_owned(), self.image.descriptor.digest().to_string());
        [source, (OPTIONS.to_owned(), self.options.to_owned())].into()
    }

    /// Of the layers of all images in a layout, those that are the same as these parts, as their annotations say.
    pub(crate) fn find_all(
        &self,
        parts: impl Iterator<Item = LayerPart>,
        layout: &Layout,
    ) -> Result<(HashMap<LayerPart, ListedLayer>, UnusableImages), ImageError> {
        let mut wanted: HashMap<_, _> = parts.map(|part| (self.annotations_of(&part), part)).map(by_part).collect();
        let mut found = HashMap::new();
        let unusable = Image::each_layer(layout, &mut |descriptor, diff_id| {
            let Some(annotations) = descriptor.annotations() else { return };
            let Some(name) = annotations
                .get(PART)
                .filter(|name| wanted.get(*name).is_some_and(|(of_part, _)| of_part == annotations))
            else {
                return;
            };
            if let Some((_, part)) = wanted.remove(name) {
                found.insert(part, ListedLayer { descriptor: descriptor.clone(), diff_id });
            }
        })?;
        Ok((found, unusable))
    }

    /// The configuration of an image with these layers. `parts` says of what each is a part.
    pub(crate) fn config(&self, layers: &[(LayerPart, ListedLayer)]) -> Vec<u8> {
        let mut config = self.image.config.clone();
        let diff_ids: Vec<_> = layers.iter().map(|(_, layer)| Value::from(layer.diff_id.as_str())).collect();
        if let Some(ids) = config.pointer_mut("/rootfs/diff_ids") {
            *ids = Value::Array(diff_ids);
        }
        let history = history(config.get("history"), layers);
        if let Some(config) = config.as_object_mut() {
            match history {
                Some(history) => drop(config.insert("history".to_owned(), Value::Array(history))),
                None => drop(config.remove("history")),
            }
        }
        document(&config)
    }

    /// The manifest of an image with this configuration and these layers.
    pub(crate) fn manifest(&self, config: &WrittenBlob, layers: &[(LayerPart, ListedLayer)]) -> Vec<u8> {
        let mut manifest: ImageManifest = self.image.manifest.clone();
        manifest.set_media_type(Some(MediaType::ImageManifest));
        manifest.set_config(config.descriptor(MediaType::ImageConfig));
        manifest.set_layers(layers.iter().map(|(_, layer)| layer.descriptor.clone()).collect());
        let mut annotations = manifest.annotations().clone().unwrap_or_default();
        annotations.extend(self.annotations());
        manifest.set_annotations(Some(annotations));
        document(&manifest)
    }

    /// The entry of an image in the list of images.
    pub(crate) fn entry(&self, manifest: &WrittenBlob, tag: &str) -> Descriptor {
        let mut entry = manifest.descriptor(MediaType::ImageManifest);
        entry.set_platform(self.image.descriptor.platform().clone());
        entry.set_annotations(Some([(TAG.to_owned(), tag.to_owned())].into()));
        entry
    }
}

/// The annotations of a layer that is wanted, under the one that distinguishes it from others.
fn by_part(wanted: (HashMap<String, String>, LayerPart)) -> (String, (HashMap<String, String>, LayerPart)) {
    (wanted.0.get(PART).cloned().unwrap_or_default(), wanted)
}

/// The history with an entry for each new layer; `None` if the old one does not fit to the layers.
fn history(old: Option<&Value>, layers: &[(LayerPart, ListedLayer)]) -> Option<Vec<Value>> {
    let mut history = Vec::new();
    let mut rest = layers.iter().map(|(part, _)| part).peekable();
    for entry in old?.as_array()? {
        history.push(entry.clone());
        if entry.get("empty_layer").and_then(Value::as_bool).unwrap_or(false) {
            continue;
        }
        let number = rest.next()?.number;
        while let Some(part) = rest.next_if(|part| part.number == number) {
            let gpus = part.gpus.as_ref().map(ToString::to_string).unwrap_or_default();
            let mut added = json!({
                "created_by": format!("kpackfs split --format oci --gpu-targets {gpus}"),
                "comment": "the files with device code of the layer before",
            });
            if let (Some(added), Some(created)) = (added.as_object_mut(), entry.get("created")) {
                added.insert("created".to_owned(), created.clone());
            }
            history.push(added);
        }
    }
    rest.next().is_none().then_some(history)
}

/// The list of images with these entries in addition. An entry replaces one with its tag.
pub(crate) fn index_with(existing: Option<ImageIndex>, added: &[Descriptor]) -> Vec<u8> {
    let mut index = existing.unwrap_or_else(|| {
        let mut index = ImageIndex::default();
        index.set_schema_version(2).set_media_type(Some(MediaType::ImageIndex));
        index
    });
    let is_replaced =
        |entry: &Descriptor| tag_of(entry).is_some_and(|tag| added.iter().any(|new| tag_of(new) == Some(tag.clone())));
    let kept = index.manifests().iter().filter(|entry| !is_replaced(entry)).chain(added).cloned().collect();
    index.set_manifests(kept);
    document(&index)
}

/// A document, with the fields of objects in order, so that it is the same in every run.
fn document(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_value(value).map(|value| value.to_string().into_bytes()).unwrap_or_default()
}

/// OCI's name of a layer's media type.
fn oci_name(media_type: &MediaType) -> Option<MediaType> {
    if !media_type.to_string().starts_with("application/vnd.docker.") {
        return None;
    }
    let is_foreign = media_type.to_string().contains(".foreign.");
    Some(match (compression(media_type)?, is_foreign) {
        (TarCompression::Gzip, false) => MediaType::ImageLayerGzip,
        (TarCompression::Zstd, false) => MediaType::ImageLayerZstd,
        (TarCompression::Plain, false) => MediaType::ImageLayer,
        (TarCompression::Gzip, true) => MediaType::ImageLayerNonDistributableGzip,
        (TarCompression::Zstd, true) => MediaType::ImageLayerNonDistributableZstd,
        (TarCompression::Plain, true) => MediaType::ImageLayerNonDistributable,
        (TarCompression::Xz, _) => return None,
    })
}

/// The mark of a layout.
pub(crate) fn mark() -> Vec<u8> {
    document(&json!({ "imageLayoutVersion": super::layout::VERSION }))
}
