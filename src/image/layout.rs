//! A layout on disk (OCI Image Layout Specification): `oci-layout`, `index.json`, and blobs by their digests.

use std::fs::Metadata;
use std::io::Read;
use std::path::{Path, PathBuf};

use oci_spec::image::{Descriptor, Digest, DigestAlgorithm, ImageIndex, OciLayout};
use serde::de::DeserializeOwned;

use super::ImageError;
use crate::disk;
use crate::memory::{Parser, WholeFile};
use crate::metrics::Counters;
use crate::rope::Sha256;
use crate::split::hex;

/// The file that marks a layout, and the list of its images.
pub(crate) const MARK: &str = "oci-layout";
pub(crate) const INDEX: &str = "index.json";

/// The directory of its blobs.
pub(crate) const BLOBS: &str = "blobs/sha256";

/// The version of the layout that this is about.
pub(super) const VERSION: &str = "1.0.0";

/// The annotation with the tag (OCI Image Format Specification, "Annotations").
pub(super) const TAG: &str = "org.opencontainers.image.ref.name";

/// Bytes hashed at a time.
const PIECE: usize = 256 << 10;

/// Whether a directory has the file that marks a layout.
pub(crate) fn is_layout(directory: &Path) -> bool {
    directory.join(MARK).is_file()
}

/// A layout.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(super) directory: PathBuf,
}

impl Layout {
    /// The layout in a directory.
    pub(crate) fn open(directory: &Path) -> Result<Self, ImageError> {
        let refused = |reason: String| ImageError::NotALayout { path: directory.to_owned(), reason };
        let mark = disk::read(&directory.join(MARK), Parser::ImageDocument);
        let mark = mark.map_err(|error| refused(format!("{MARK}: {error}")))?;
        let mark: OciLayout = serde_json::from_slice(&mark).map_err(|error| refused(format!("{MARK}: {error}")))?;
        if mark.image_layout_version() != VERSION {
            return Err(refused(format!("its version is {:?}, and {VERSION} is known", mark.image_layout_version())));
        }
        let directory =
            directory.canonicalize().map_err(|source| ImageError::Io { path: directory.to_owned(), source })?;
        Ok(Self { directory })
    }

    /// The list of its images.
    pub(crate) fn index(&self) -> Result<ImageIndex, ImageError> {
        let path = self.directory.join(INDEX);
        let bytes = disk::read(&path, Parser::ImageDocument);
        parse(&bytes.map_err(|source| ImageError::Io { path: path.clone(), source })?, &path, "image index")
    }

    /// The tags of its images.
    pub(crate) fn tags(&self) -> Result<Vec<String>, ImageError> {
        Ok(self.index()?.manifests().iter().filter_map(tag_of).collect())
    }

    /// Where the blob of a descriptor is.
    pub(crate) fn blob(&self, digest: &Digest) -> Result<PathBuf, ImageError> {
        let text = digest.digest();
        if *digest.algorithm() != DigestAlgorithm::Sha256 || text.len() != 64 || !text.bytes().all(is_hex) {
            let (path, reason) =
                (self.directory.clone(), format!("the digest {digest} is no SHA-256, which alone is known"));
            return Err(ImageError::Blob { path, reason });
        }
        Ok(self.directory.join(BLOBS).join(text))
    }

    /// A document among the blobs. Its size and digest are those of the descriptor.
    pub(super) fn document<T: DeserializeOwned>(&self, of: &Descriptor, what: &'static str) -> Result<T, ImageError> {
        parse(&self.bytes(of)?, &self.blob(of.digest())?, what)
    }

    fn bytes(&self, of: &Descriptor) -> Result<WholeFile, ImageError> {
        let path = self.blob(of.digest())?;
        let bytes = disk::read(&path, Parser::ImageDocument);
        let bytes = bytes.map_err(|source| ImageError::Io { path: path.clone(), source })?;
        check_size(&path, bytes.len() as u64, of)?;
        check_digest(&path, &Sha256::of(&bytes), of)?;
        Ok(bytes)
    }

    /// Whether there is a blob with the size and the digest of a descriptor. Reads all of it if the size is right.
    pub(crate) fn has(&self, blob: &Descriptor, counters: &Counters) -> bool {
        self.check(blob, counters).is_ok()
    }

    /// Fails if a blob does not have the size and the digest of its descriptor. Reads all of it.
    pub(super) fn check(&self, of: &Descriptor, counters: &Counters) -> Result<PathBuf, ImageError> {
        let path = self.blob(of.digest())?;
        let io = |source| ImageError::Io { path: path.clone(), source };
        let (mut file, metadata): (_, Metadata) = disk::open(&path).map_err(io)?;
        check_size(&path, metadata.len(), of)?;
        let (mut sum, mut piece) = (Sha256::default(), vec![0; PIECE]);
        loop {
            let count = file.read(&mut piece).map_err(io)?;
            if count == 0 {
                break;
            }
            sum.update(piece.get(..count).unwrap_or_default());
            counters.bytes_hashed.add(count as u64);
        }
        check_digest(&path, &sum.finish(), of)?;
        Ok(path)
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
