//! The image in a layout that a name means, through nested indexes and platforms.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use oci_spec::image::{Arch, Descriptor, ImageManifest, MediaType, Os};
use serde_json::Value;

use super::layout::{Layout, tag_of};
use super::{ImageError, ImageReference, Layer};
use crate::resources::Resources;

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
const MAX_NAMED: usize = 10;

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
    pub(super) diff_ids: Vec<String>,
}

impl Image {
    /// The image that a name means. Of several platforms, it is that of ROCm: linux/amd64.
    pub(crate) fn open(reference: &ImageReference) -> Result<Self, ImageError> {
        let layout = Layout::open(&reference.directory)?;
        let index = layout.index()?;
        let tags: Vec<_> = index.manifests().iter().filter_map(tag_of).collect();
        let is_named = |it: &&Descriptor| reference.tag.is_none() || tag_of(it) == reference.tag;
        let mut search = ImageSearch::new(&layout);
        index.manifests().iter().filter(is_named).try_for_each(|descriptor| search.visit(descriptor))?;
        let mut found = search.found;
        if found.len() > 1 && found.iter().any(|(it, _)| is_of_rocm(it)) {
            found.retain(|(it, _)| is_of_rocm(it));
        }
        let missing = |wanted: String| {
            let existing = if tags.is_empty() { "no tags".to_owned() } else { first_names(&tags) };
            ImageError::NoSuchImage { path: layout.directory.clone(), wanted, existing }
        };
        let mut found = found.into_iter();
        match (found.next(), found.next(), &reference.tag) {
            (Some((descriptor, manifest)), None, _) => Self::new(layout, descriptor, manifest),
            (None, _, Some(tag)) => Err(missing(format!("there is no image {tag:?}"))),
            (None, _, None) => Err(missing("there is no image in it".to_owned())),
            (Some(_), Some(_), None) => Err(missing("there are several images; name one (oci:DIR:TAG)".to_owned())),
            (Some(_), Some(_), Some(tag)) => {
                Err(missing(format!("{tag:?} means several images, and none for linux/amd64")))
            }
        }
    }

    /// All images of a layout that can be used, and why others cannot.
    pub(crate) fn all(layout: &Layout) -> Result<(Vec<Self>, Vec<ImageError>), ImageError> {
        let index = layout.index()?;
        let mut search = ImageSearch::new(layout);
        let mut errors: Vec<_> = index.manifests().iter().filter_map(|it| search.visit(it).err()).collect();
        let mut images = Vec::new();
        for (descriptor, manifest) in search.found {
            match Self::new(layout.clone(), descriptor, manifest) {
                Ok(image) => images.push(image),
                Err(error) => errors.push(error),
            }
        }
        Ok((images, errors))
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

    fn new(layout: Layout, descriptor: Descriptor, manifest: ImageManifest) -> Result<Self, ImageError> {
        let of_config = manifest.config();
        let media_type = of_config.media_type();
        if *media_type != MediaType::ImageConfig && media_type.as_ref() != DOCKER_CONFIG {
            let (what, media_type) = (of_config.digest().to_string(), media_type.to_string());
            return Err(ImageError::MediaType { what, media_type, expected: "those of configurations of images" });
        }
        let config: Value = layout.document(of_config, "configuration of an image")?;
        let ids = config.pointer("/rootfs/diff_ids").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let diff_ids: Vec<_> = ids.iter().filter_map(|id| id.as_str().map(str::to_owned)).collect();
        if diff_ids.len() != manifest.layers().len() || diff_ids.len() != ids.len() {
            let (path, what) = (layout.blob(of_config.digest())?, "configuration of an image");
            let reason = format!("it has {} diff_ids, and the manifest {} layers", ids.len(), manifest.layers().len());
            return Err(ImageError::Document { path, what, reason });
        }
        Ok(Self { layout, descriptor, manifest, config, diff_ids })
    }

    /// The descriptors of its layers, the lowest first.
    pub(crate) fn layers(&self) -> &[Descriptor] {
        self.manifest.layers()
    }

    /// The digest of an unpacked layer, as the configuration states it.
    pub(crate) fn stated_diff_id(&self, number: usize) -> Option<&str> {
        self.diff_ids.get(number).map(String::as_str)
    }

    /// Where the blob of a layer is.
    pub(crate) fn blob(&self, layer: &Descriptor) -> Result<PathBuf, ImageError> {
        self.layout.blob(layer.digest())
    }

    /// Reads the headers of a layer, after comparing its digest.
    pub(crate) fn layer(&self, number: usize, resources: &Arc<Resources>) -> Result<Layer, ImageError> {
        match self.layers().get(number) {
            Some(descriptor) => Layer::open(&self.layout, descriptor, resources),
            None => Ok(Layer::default()),
        }
    }
}

/// The search for images.
struct ImageSearch<'a> {
    layout: &'a Layout,
    /// The indexes on the way to where it is.
    above: Vec<String>,
    seen: HashSet<String>,
    found: Vec<(Descriptor, ImageManifest)>,
    /// The digests that artifacts are about, and their kinds.
    artifacts: Vec<(String, String)>,
}

impl<'a> ImageSearch<'a> {
    fn new(layout: &'a Layout) -> Self {
        Self { layout, above: Vec::new(), seen: HashSet::new(), found: Vec::new(), artifacts: Vec::new() }
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
        self.artifacts.extend(reference(descriptor));
        // One document may be named several times.
        if is_beside(descriptor) || !self.seen.insert(digest.clone()) {
            return Ok(());
        }
        if self.seen.len() > MAX_DOCUMENTS || self.above.len() >= MAX_DEPTH {
            let reason = format!("more than {MAX_DOCUMENTS} documents, or nested more than {MAX_DEPTH} times");
            return Err(ImageError::Document { path: path()?, what: "image index", reason });
        }
        if is_index {
            let index: oci_spec::image::ImageIndex = self.layout.document(descriptor, "image index")?;
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
            Some(subject) => self.artifacts.push((subject.digest().to_string(), kind.unwrap_or_default())),
            None if kind.is_some() => {}
            None => self.found.push((descriptor.clone(), manifest)),
        }
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

/// The first of some names, and how many more there are.
pub(crate) fn first_names(names: &[String]) -> String {
    let (first, rest) = names.split_at(names.len().min(MAX_NAMED));
    let first = first.join(", ");
    if rest.is_empty() { first } else { format!("{first}, and {} more", rest.len()) }
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
