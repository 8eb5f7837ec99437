//! A layout (OCI Image Layout Specification): `oci-layout`, `index.json`, and blobs by their digests. They are files of
//! a directory, or members of a tar archive of one, which is not unpacked (containers-transports(5), "oci-archive").

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use oci_spec::image::{Descriptor, Digest, DigestAlgorithm, ImageIndex, OciLayout};
use serde::de::DeserializeOwned;
use tar::EntryType;

use super::ImageError;
use super::reference::LayoutForm;
use crate::memory::{Parser, ParserMemory, WholeFile};
use crate::resources::Resources;
use crate::rope::{Content, Rope, Segment, Sha256, to_usize};
use crate::source::{EntryPath, TAR_BLOCK, TarCompression, open_file, packing_of, path_of, read_members};
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
        let mark = layout.whole(MARK).map_err(|error| match error {
            // It may be another archive, which getting it again would not change.
            ImageError::Blob { reason, .. } => refused(format!("{MARK}: {reason}")),
            other => refused(other.to_string()),
        })?;
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

/// The directory of its blobs.
pub(crate) const BLOBS: &str = "blobs/sha256";

/// Where the files of a layout are.
#[derive(Clone, Debug)]
pub(super) enum LayoutFiles {
    /// In a directory.
    Directory(PathBuf),
    /// In an archive.
    Archive(Arc<LayoutArchive>),
}

/// A tar archive of a layout.
#[derive(Debug)]
pub(super) struct LayoutArchive {
    path: PathBuf,
    archive: Arc<dyn Content>,
    members: HashMap<EntryPath, Range<u64>>,
    #[expect(dead_code, reason = "the members count as long as it is there")]
    table: ParserMemory,
}

impl LayoutFiles {
    pub(super) fn open(place: &Path, form: LayoutForm, resources: &Arc<Resources>) -> Result<Self, ImageError> {
        let path = place.canonicalize().map_err(|source| ImageError::Io { path: place.to_owned(), source })?;
        Ok(match form {
            LayoutForm::Directory => Self::Directory(path),
            LayoutForm::Archive => Self::Archive(Arc::new(LayoutArchive::open(path, resources)?)),
        })
    }

    /// The directory or the archive.
    pub(super) fn place(&self) -> &Path {
        match self {
            Self::Directory(path) => path,
            Self::Archive(archive) => &archive.path,
        }
    }

    /// A file of this name.
    pub(super) fn content(&self, name: &str, resources: &Arc<Resources>) -> Result<Arc<dyn Content>, ImageError> {
        match self {
            Self::Directory(path) => Ok(open_file(&path.join(name), resources)?),
            Self::Archive(archive) => archive.content(name),
        }
    }
}

impl LayoutArchive {
    fn open(path: PathBuf, resources: &Arc<Resources>) -> Result<Self, ImageError> {
        let archive = open_file(&path, resources)?;
        if packing_in(&path, &*archive)? != Some(TarCompression::Plain) {
            let reason = "it is no tar archive without compression; decompress it first".to_owned();
            return Err(ImageError::NotALayout { path, reason });
        }
        let (mut members, table) = (HashMap::new(), ParserMemory::new(Parser::Tar));
        read_members(&path, &archive, &mut |member| {
            if !matches!(member.kind, EntryType::Regular | EntryType::Continuous) {
                return Ok(());
            }
            member.check_content(&*archive)?;
            let name = path_of(&member.name).map_err(|error| error.to_string())?.unwrap_or_else(EntryPath::root);
            // Of others, there may be any number.
            if name.depth() == 1 || name.parent().is_some_and(|directory| directory.as_bytes() == BLOBS.as_bytes()) {
                table.add_entry(name.as_bytes()).map_err(|error| error.to_string())?;
                members.insert(name, member.content);
            }
            Ok(())
        })?;
        Ok(Self { path, archive, members, table })
    }

    fn content(&self, name: &str) -> Result<Arc<dyn Content>, ImageError> {
        let Some(Range { start, end }) = self.members.get(&EntryPath::root().child(name.as_bytes())).cloned() else {
            let (path, reason) = (self.path.join(name), "the archive has no such file".to_owned());
            return Err(ImageError::Blob { path, reason });
        };
        let segment = Segment::range(Arc::clone(&self.archive), start, end.saturating_sub(start));
        Ok(Arc::new(segment.and_then(|segment| Rope::new([segment]))?))
    }
}

/// How a tar archive is compressed; `None` if it is none.
pub(super) fn packing_in(path: &Path, archive: &dyn Content) -> Result<Option<TarCompression>, ImageError> {
    Ok(packing_of(path, &archive.beginning(to_usize(TAR_BLOCK))?))
}
