//! A layout on disk (OCI Image Layout Specification): `oci-layout`, `index.json`, and blobs by their digests.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use oci_spec::image::{Descriptor, Digest, DigestAlgorithm, ImageIndex, OciLayout};
use serde::de::DeserializeOwned;

use super::ImageError;
use super::layout_files::{BLOBS, LayoutFiles};
use super::reference::LayoutForm;
use crate::memory::{Parser, WholeFile};
use crate::resources::Resources;
use crate::rope::{Content, Sha256};
use crate::split::hex;

/// The file that marks a layout, and the list of its images.
pub(crate) const MARK: &str = "oci-layout";
pub(crate) const INDEX: &str = "index.json";

/// The version of the layout that this is about.
pub(super) const VERSION: &str = "1.0.0";

/// The annotation with the tag (OCI Image Format Specification, "Annotations").
pub(super) const TAG: &str = "org.opencontainers.image.ref.name";

/// Whether a directory has the file that marks a layout.
pub(crate) fn is_layout(directory: &Path) -> bool {
    directory.join(MARK).is_file()
}

/// A layout.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    files: LayoutFiles,
    resources: Arc<Resources>,
}

impl Layout {
    /// The layout in a directory or in an archive.
    pub(crate) fn open(place: &Path, form: LayoutForm, resources: &Arc<Resources>) -> Result<Self, ImageError> {
        let layout = Self { files: LayoutFiles::open(place, form, resources)?, resources: Arc::clone(resources) };
        let refused = |reason: String| ImageError::NotALayout { path: place.to_owned(), reason };
        let mark = layout.whole(MARK).map_err(|error| refused(error.to_string()))?;
        let mark: OciLayout = serde_json::from_slice(&mark).map_err(|error| refused(format!("{MARK}: {error}")))?;
        if mark.image_layout_version() != VERSION {
            return Err(refused(format!("its version is {:?}, and {VERSION} is known", mark.image_layout_version())));
        }
        Ok(layout)
    }

    /// Its directory or archive.
    pub(super) fn place(&self) -> &Path {
        self.files.place()
    }

    /// The bytes of a document.
    fn whole(&self, name: &str) -> Result<WholeFile, ImageError> {
        let content = self.files.content(name, &self.resources)?;
        let path = || self.place().join(name);
        WholeFile::of(Parser::ImageDocument, &*content).map_err(|source| ImageError::Unread { path: path(), source })
    }

    /// The list of its images.
    pub(crate) fn index(&self) -> Result<ImageIndex, ImageError> {
        parse(&self.whole(INDEX)?, &self.place().join(INDEX), "image index")
    }

    /// The tags of its images.
    pub(crate) fn tags(&self) -> Result<Vec<String>, ImageError> {
        Ok(self.index()?.manifests().iter().filter_map(tag_of).collect())
    }

    /// The name of the blob of a descriptor.
    fn name_of(&self, digest: &Digest) -> Result<String, ImageError> {
        let text = digest.digest();
        if *digest.algorithm() != DigestAlgorithm::Sha256 || text.len() != 64 || !text.bytes().all(is_hex) {
            let reason = format!("the digest {digest} is no SHA-256, which alone is known");
            return Err(ImageError::Blob { path: self.place().to_owned(), reason });
        }
        Ok(format!("{BLOBS}/{text}"))
    }

    /// The path of the blob of a descriptor; in an archive, behind the path of that.
    pub(crate) fn blob(&self, digest: &Digest) -> Result<PathBuf, ImageError> {
        Ok(self.place().join(self.name_of(digest)?))
    }

    /// The bytes of the blob of a descriptor.
    pub(crate) fn content(&self, digest: &Digest) -> Result<Arc<dyn Content>, ImageError> {
        self.files.content(&self.name_of(digest)?, &self.resources)
    }

    /// A document among the blobs. Its size and digest are those of the descriptor.
    pub(super) fn document<T: DeserializeOwned>(&self, of: &Descriptor, what: &'static str) -> Result<T, ImageError> {
        let path = self.blob(of.digest())?;
        let bytes = self.whole(&self.name_of(of.digest())?)?;
        check_size(&path, bytes.len() as u64, of)?;
        check_digest(&path, &Sha256::of(&bytes), of)?;
        parse(&bytes, &path, what)
    }

    /// Whether there is a blob with the size and the digest of a descriptor. Reads all of it if the size is right.
    pub(crate) fn has(&self, blob: &Descriptor) -> bool {
        self.check(blob).is_ok()
    }

    /// The bytes of a blob. Fails if it does not have the size and the digest of its descriptor. Reads all of it.
    pub(super) fn check(&self, of: &Descriptor) -> Result<Arc<dyn Content>, ImageError> {
        let (path, content) = (self.blob(of.digest())?, self.content(of.digest())?);
        check_size(&path, content.size(), of)?;
        let hashed = &self.resources.counters.bytes_hashed;
        let sum = Sha256::of_content_counted(&*content, |count| {
            hashed.add(count);
        })?;
        check_digest(&path, &sum, of)?;
        Ok(content)
    }
}

/// The tag of an entry of the list of images.
pub(super) fn tag_of(entry: &Descriptor) -> Option<String> {
    entry.annotations().as_ref()?.get(TAG).cloned()
}

fn is_hex(digit: u8) -> bool {
    matches!(digit, b'0'..=b'9' | b'a'..=b'f')
}

fn check_size(path: &Path, size: u64, of: &Descriptor) -> Result<(), ImageError> {
    if size == of.size() {
        return Ok(());
    }
    let reason = format!("it has {size} bytes, and its descriptor says {}", of.size());
    Err(ImageError::Blob { path: path.to_owned(), reason })
}

fn check_digest(path: &Path, sum: &[u8; 32], of: &Descriptor) -> Result<(), ImageError> {
    let found = hex(sum);
    if found == of.digest().digest() {
        return Ok(());
    }
    let reason = format!("its digest is sha256:{found}, and its descriptor says {}", of.digest());
    Err(ImageError::Blob { path: path.to_owned(), reason })
}

/// Parses a document. One that is an index and a manifest at once is refused, since programs disagree about what it is.
fn parse<T: DeserializeOwned>(bytes: &[u8], path: &Path, what: &'static str) -> Result<T, ImageError> {
    let bad = |reason: String| ImageError::Document { path: path.to_owned(), what, reason };
    let kind: DocumentKind = serde_json::from_slice(bytes).map_err(|error| bad(error.to_string()))?;
    if kind.manifests.is_some() && (kind.layers.is_some() || kind.config.is_some()) {
        return Err(bad("it is an index and a manifest at once".to_owned()));
    }
    serde_json::from_slice(bytes).map_err(|error| bad(error.to_string()))
}

/// The fields that distinguish documents.
#[derive(serde::Deserialize)]
struct DocumentKind {
    manifests: Option<serde::de::IgnoredAny>,
    layers: Option<serde::de::IgnoredAny>,
    config: Option<serde::de::IgnoredAny>,
}
