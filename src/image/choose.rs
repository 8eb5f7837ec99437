//! The image in a layout that a name means, through nested indexes and platforms.

use std::collections::HashSet;
use std::sync::Arc;

use oci_spec::image::{Arch, Descriptor, ImageIndex, ImageManifest, MediaType, Os};
use serde::Deserialize;
use serde_json::Value;

use super::layout::{Layout, tag_of};
use super::{ImageError, ImageReference, Layer};
use crate::memory::{Parser, ParserMemory, TableError};
use crate::resources::Resources;
use crate::rope::{Content, ReadError};
use crate::text::first_names;

/// The annotation by which builders mark entries of an index that are about another one, such as attestations (`BuildKit`,
/// "Attestation storage").
const REFERENCE_TYPE: &str = "vnd.docker.reference.type";
const REFERENCE_DIGEST: &str = "vnd.docker.reference.digest";

/// How tags end that cosign gives to what is about the image with the digest before it (cosign, "Tag-based discovery").
const COSIGN: [&str; 3] = [".sig", ".att", ".sbom"];

/// The most documents that are read to find an image. An index of a multi-platform image has some dozens of entries.
const MAX_DOCUMENTS: usize = 4096;

/// The deepest nesting of indexes. Real ones have two.
const MAX_DEPTH: usize = 16;

/// The most names in a message.
pub(crate) const MAX_NAMED: usize = 10;

/// How many times more memory a document takes when it is parsed.
const PARSED: u64 = 30;

/// What is kept of an image or an artifact, in bytes, apart from its texts.
const KEPT: u64 = 1024;

/// Docker's names of media types (Image Manifest Version 2, Schema 2).
const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
const DOCKER_CONFIG: &str = "application/vnd.docker.container.image.v1+json";

/// An image: its manifest and its configuration.
#[derive(Debug)]
pub(crate) struct Image {
    pub(super) layout: Layout,
    /// The descriptor of the manifest.
    pub(super) descriptor: Descriptor,
    pub(super) manifest: ImageManifest,
    pub(super) config: Value,
    /// The digests of the unpacked layers.
    pub(crate) diff_ids: Vec<String>,
}

impl Image {
    /// The image that a name means. Of several platforms, it is that of ROCm: linux/amd64.
    pub(crate) fn open(reference: &ImageReference, resources: &Arc<Resources>) -> Result<Self, ImageError> {
        let layout = Layout::open(&reference.layout, reference.form, resources)?;
        let index = layout.index()?;
        let tags: Vec<_> = index.manifests().iter().filter_map(tag_of).collect();
        let is_named = |it: &&Descriptor| reference.tag.is_none() || tag_of(it) == reference.tag;
        let mut search = ImageSearch::new(&layout);
        index.manifests().iter().filter(is_named).try_for_each(|descriptor| search.visit(descriptor))?;
        let mut found = search.found;
        if found.len() > 1 && found.iter().any(is_of_rocm) {
            found.retain(is_of_rocm);
        }
        let missing = |wanted: String| {
            let existing =
                if tags.is_empty() { "no tags".to_owned() } else { first_names(&tags, MAX_NAMED, ", ", ",") };
            ImageError::NoSuchImage { path: layout.place().to_owned(), wanted, existing }
        };
        let mut found = found.into_iter();
        match (found.next(), found.next(), &reference.tag) {
            (Some(descriptor), None, _) => Self::new(layout, descriptor),
            (None, _, Some(tag)) => Err(missing(format!("there is no image {tag:?}"))),
            (None, _, None) => Err(missing("there is no image in it".to_owned())),
            (Some(_), Some(_), None) => {
                let (scheme, place) = (reference.form.scheme(), layout.place().display());
                let tag = tags.first().map_or("TAG", String::as_str);
                Err(missing(format!("there are several images; name one, such as {scheme}{place}:{tag}")))
            }
            (Some(_), Some(_), Some(tag)) => {
                Err(missing(format!("{tag:?} means several images, and none for linux/amd64")))
            }
        }
    }

    /// Calls `visit` for each layer of all images of a layout that can be used, with the digest of the unpacked layer. The
    /// documents of one image are in memory at a time.
    pub(super) fn each_layer(
        layout: &Layout,
        visit: &mut dyn FnMut(&Descriptor, String),
    ) -> Result<UnusableImages, ImageError> {
        let index = layout.index()?;
        let (mut search, mut unusable) = (ImageSearch::new(layout), UnusableImages::default());
        index.manifests().iter().try_for_each(|descriptor| unusable.add(search.visit(descriptor)))?;
        drop(index);
        search.found.iter().try_for_each(|descriptor| unusable.add(layers_of_image(layout, descriptor, visit)))?;
        Ok(unusable)
    }

    /// The kinds of the signatures, attestations and other artifacts in the layout that are about this image. What cannot
    /// be read is none.
    pub(crate) fn artifacts(&self) -> Vec<String> {
        let Ok(index) = self.layout.index() else { return Vec::new() };
        let mut search = ImageSearch::new(&self.layout);
        for descriptor in index.manifests() {
            // Other images of the layout may be damaged.
            let _ = search.visit(descriptor);
        }
        let digest = self.descriptor.digest();
        let stem = digest.to_string().replace(':', "-");
        let cosign = |tag: String| Some(tag.strip_prefix(&stem)?.to_owned()).filter(|end| COSIGN.contains(&&**end));
        let tagged =
            index.manifests().iter().filter_map(tag_of).filter_map(cosign).map(|end| format!("cosign's {end}"));
        let of_this = search.artifacts.into_iter().filter(|(about, _)| *about == digest.to_string());
        of_this.map(|(_, kind)| kind).chain(tagged).collect()
    }

    fn new(layout: Layout, descriptor: Descriptor) -> Result<Self, ImageError> {
        let manifest: ImageManifest = layout.document(&descriptor, "image manifest")?;
        check_config(&manifest)?;
        let of_config = manifest.config();
        let config: Value = layout.document(of_config, CONFIG)?;
        let ids = config.pointer("/rootfs/diff_ids").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let diff_ids: Vec<_> = ids.iter().filter_map(|id| id.as_str().map(str::to_owned)).collect();
        check_diff_ids(&layout, &manifest, ids.len())?;
        check_diff_ids(&layout, &manifest, diff_ids.len())?;
        Ok(Self { layout, descriptor, manifest, config, diff_ids })
    }

    /// The descriptors of its layers, the lowest first.
    pub(crate) fn layers(&self) -> &[Descriptor] {
        self.manifest.layers()
    }

    /// The bytes of the blob of a layer.
    pub(crate) fn blob(&self, layer: &Descriptor) -> Result<Arc<dyn Content>, ImageError> {
        self.layout.content(layer.digest())
    }

    /// Reads the headers of a layer, after comparing its digest.
    pub(crate) fn layer(&self, layer: &Descriptor, resources: &Arc<Resources>) -> Result<Layer, ImageError> {
        Layer::open(&self.layout, layer, resources)
    }
}

/// Images of a layout that cannot be used.
#[derive(Debug, Default)]
pub(crate) struct UnusableImages {
    /// Why the first one cannot.
    pub(crate) first: Option<ImageError>,
    pub(crate) count: usize,
}

impl UnusableImages {
    /// Counts an image with an error. What is about all images ends the command.
    fn add(&mut self, image: Result<(), ImageError>) -> Result<(), ImageError> {
        match image {
            Ok(()) => {}
            Err(error @ (ImageError::Read(_) | ImageError::TooManyDocuments { .. })) => return Err(error),
            Err(error) => {
                self.count += 1;
                self.first.get_or_insert(error);
            }
        }
        Ok(())
    }
}

/// Calls `visit` for each layer of an image, with the digest of the unpacked layer.
fn layers_of_image(
    layout: &Layout,
    descriptor: &Descriptor,
    visit: &mut dyn FnMut(&Descriptor, String),
) -> Result<(), ImageError> {
    let manifest: ImageManifest = layout.document(descriptor, "image manifest")?;
    check_config(&manifest)?;
    let UnpackedLayers { rootfs } = layout.document(manifest.config(), CONFIG)?;
    check_diff_ids(layout, &manifest, rootfs.diff_ids.len())?;
    manifest.layers().iter().zip(rootfs.diff_ids).for_each(|(layer, id)| visit(layer, id));
    Ok(())
}

/// Fails if a configuration does not have a digest for each layer of the manifest.
fn check_diff_ids(layout: &Layout, manifest: &ImageManifest, count: usize) -> Result<(), ImageError> {
    let layers = manifest.layers().len();
    if count == layers {
        return Ok(());
    }
    let (path, what) = (layout.blob(manifest.config().digest())?, CONFIG);
    Err(ImageError::Document {
        path,
        what,
        reason: format!("it has {count} diff_ids, and the manifest {layers} layers"),
    })
}

/// What a configuration is called in messages.
const CONFIG: &str = "configuration of an image";

/// Of a configuration, the digests of the unpacked layers.
#[derive(Deserialize)]
struct UnpackedLayers {
    rootfs: RootFileSystem,
}

#[derive(Deserialize)]
struct RootFileSystem {
    diff_ids: Vec<String>,
}

/// Fails if a manifest is not that of an image.
fn check_config(manifest: &ImageManifest) -> Result<(), ImageError> {
    let (of_config, media_type) = (manifest.config(), manifest.config().media_type());
    if *media_type == MediaType::ImageConfig || media_type.as_ref() == DOCKER_CONFIG {
        return Ok(());
    }
    let (what, media_type) = (of_config.digest().to_string(), media_type.to_string());
    Err(ImageError::MediaType { what, media_type, expected: "those of configurations of images" })
}

/// The search for images. There may be thousands in a layout, so nothing is kept of their documents.
struct ImageSearch<'a> {
    layout: &'a Layout,
    /// The indexes on the way to where it is.
    above: Vec<String>,
    seen: HashSet<String>,
    /// The manifests of images.
    found: Vec<Descriptor>,
    /// The digests that artifacts are about, and their kinds.
    artifacts: Vec<(String, String)>,
    table: ParserMemory,
}

impl<'a> ImageSearch<'a> {
    fn new(layout: &'a Layout) -> Self {
        let (above, seen, table) = (Vec::new(), HashSet::new(), ParserMemory::new(Parser::ImageList));
        Self { layout, above, seen, found: Vec::new(), artifacts: Vec::new(), table }
    }

    fn visit(&mut self, descriptor: &Descriptor) -> Result<(), ImageError> {
        let digest = descriptor.digest().to_string();
        let is_index =
            *descriptor.media_type() == MediaType::ImageIndex || descriptor.media_type().as_ref() == DOCKER_LIST;
        let is_manifest =
            *descriptor.media_type() == MediaType::ImageManifest || descriptor.media_type().as_ref() == DOCKER_MANIFEST;
        let path = || self.layout.blob(descriptor.digest());
        if self.above.contains(&digest) {
            return Err(ImageError::Document {
                path: path()?,
                what: "image index",
                reason: "it contains itself".to_owned(),
            });
        }
        if let Some((about, kind)) = reference(descriptor) {
            self.add_artifact(about, kind)?;
        }
        // One document may be named several times.
        if is_beside(descriptor) || !self.seen.insert(digest.clone()) {
            return Ok(());
        }
        if self.seen.len() > MAX_DOCUMENTS || self.above.len() >= MAX_DEPTH {
            return Err(ImageError::TooManyDocuments { path: path()?, most: MAX_DOCUMENTS, deepest: MAX_DEPTH });
        }
        if is_index {
            let open = ParserMemory::new(Parser::ImageList);
            open.grow(descriptor.size().saturating_mul(PARSED)).map_err(too_large)?;
            let index: ImageIndex = self.layout.document(descriptor, "image index")?;
            self.check_type(descriptor, index.media_type().as_ref())?;
            self.above.push(digest);
            let visited = index.manifests().iter().try_for_each(|inner| self.visit(inner));
            self.above.pop();
            return visited;
        }
        let is_listed_artifact = descriptor.artifact_type().is_some();
        if !is_manifest && is_listed_artifact {
            return Ok(());
        }
        if !is_manifest {
            let media_type = descriptor.media_type().to_string();
            return Err(ImageError::MediaType { what: digest, media_type, expected: "those of images and indexes" });
        }
        let manifest: ImageManifest = match self.layout.document(descriptor, "image manifest") {
            Err(_) if is_listed_artifact => return Ok(()),
            manifest => manifest?,
        };
        self.check_type(descriptor, manifest.media_type().as_ref())?;
        // Signatures and lists of materials are manifests as well, with other configurations.
        let kind = manifest.artifact_type().as_ref().map(ToString::to_string);
        match manifest.subject() {
            Some(subject) => self.add_artifact(subject.digest().to_string(), kind.unwrap_or_default()),
            None if kind.is_some() => Ok(()),
            None => self.add_image(descriptor),
        }
    }

    fn add_artifact(&mut self, about: String, kind: String) -> Result<(), ImageError> {
        let texts = (about.len() + kind.len()) as u64;
        self.table.grow(KEPT.saturating_add(texts)).map_err(too_large)?;
        self.artifacts.push((about, kind));
        Ok(())
    }

    fn add_image(&mut self, descriptor: &Descriptor) -> Result<(), ImageError> {
        let mut found = descriptor.clone();
        found.set_annotations(None);
        let texts = serde_json::to_string(&found).map_or(0, |text| text.len() as u64);
        self.table.grow(KEPT.saturating_add(texts.saturating_mul(PARSED))).map_err(too_large)?;
        self.found.push(found);
        Ok(())
    }

    /// Fails if a document states another media type than its descriptor.
    fn check_type(&self, descriptor: &Descriptor, stated: Option<&MediaType>) -> Result<(), ImageError> {
        match stated.filter(|stated| *stated != descriptor.media_type()) {
            None => Ok(()),
            Some(stated) => {
                let reason =
                    format!("it says that it is {stated}, and its descriptor says {}", descriptor.media_type());
                Err(ImageError::Document { path: self.layout.blob(descriptor.digest())?, what: "document", reason })
            }
        }
    }
}

fn too_large(error: TableError) -> ImageError {
    ReadError::from(error).into()
}

/// Whether an entry of an index is marked as one that is about another.
fn is_beside(descriptor: &Descriptor) -> bool {
    descriptor.annotations().as_ref().is_some_and(|all| all.contains_key(REFERENCE_TYPE))
}

/// The digest that an entry is about, and its kind, as its annotations say.
fn reference(descriptor: &Descriptor) -> Option<(String, String)> {
    let annotations = descriptor.annotations().as_ref()?;
    Some((annotations.get(REFERENCE_DIGEST)?.clone(), annotations.get(REFERENCE_TYPE)?.clone()))
}

fn is_of_rocm(descriptor: &Descriptor) -> bool {
    descriptor.platform().as_ref().is_some_and(|it| *it.os() == Os::Linux && *it.architecture() == Arch::Amd64)
}
