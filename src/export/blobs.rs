//! Blobs of a container image: layers with their compression, documents, and layers that stay as they are.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use oci_spec::image::{Descriptor, MediaType};

use super::copy;
use super::directory::{Batch, Ready};
use super::error::{ExportError, at, reading};
use super::sharing::{Linux, Reflink, Sharing, link_open};
use crate::deflate::{DeflateLevel, Uncompressed, deflate, describe};
use crate::disk;
use crate::image::{Layout, WrittenBlob};
use crate::metrics::Progress;
use crate::resources::Resources;
use crate::rope::{Backing, Content, Rope, Segment, Sha256};
use crate::source::Attributes;
use crate::split::hex;

/// The header of a gzip file without a name and a time (RFC 1952, 2.3). The system that it was made on is unknown.
const GZIP: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];

/// The mode of blobs.
const MODE: u16 = 0o644;

/// How new layers are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LayerCompression {
    Gzip(DeflateLevel),
    Zstd(i32),
}

impl LayerCompression {
    /// The media type of such layers.
    pub(super) fn media_type(self) -> MediaType {
        match self {
            Self::Gzip(_) => MediaType::ImageLayerGzip,
            Self::Zstd(_) => MediaType::ImageLayerZstd,
        }
    }

    /// What the bytes depend on.
    pub(crate) fn describe(self) -> String {
        match self {
            Self::Gzip(level) => format!("gzip {}", String::from_utf8_lossy(&describe(level))),
            Self::Zstd(level) => format!("zstd {} {level}", zstd::zstd_safe::version_string()),
        }
    }
}

/// Writes blobs to a directory, each with the name of its digest.
pub(super) struct BlobWriter<'a> {
    pub(super) directory: PathBuf,
    /// A layout whose blobs need not be written.
    pub(super) existing: Option<Layout>,
    pub(super) compression: LayerCompression,
    pub(super) reflink: Reflink,
    pub(super) resources: &'a Arc<Resources>,
    pub(super) progress: &'a Progress,
}

impl BlobWriter<'_> {
    /// Compresses a layer. Returns its blob and the digest of the archive.
    pub(super) fn layer(&self, archive: &Arc<dyn Content>) -> Result<(WrittenBlob, [u8; 32]), ExportError> {
        self.progress.expect(archive.size());
        let path = self.directory.join("layer");
        let mut blob = Hashed::create(&path)?;
        let diff_id = match self.compression {
            LayerCompression::Gzip(level) => self.gzip(archive, level, &mut blob, &path)?,
            LayerCompression::Zstd(level) => {
                let encoder = zstd::Encoder::new(&mut blob, level).map_err(at(&path))?;
                let mut encoder = Hashed::new(encoder);
                copy(&**archive, &mut encoder, &path, &self.progress.done)?;
                encoder.inner.finish().map_err(at(&path))?;
                encoder.sum.finish()
            }
        };
        Ok((self.publish(blob, &path)?, diff_id))
    }

    /// The blocks of the stream are deflated on all cores.
    fn gzip(
        &self,
        archive: &Arc<dyn Content>,
        level: DeflateLevel,
        blob: &mut Hashed<File>,
        path: &Path,
    ) -> Result<[u8; 32], ExportError> {
        let layer = Uncompressed { entry: "layer".into(), content: Arc::clone(archive), is_hashed: true };
        let deflated = deflate(vec![layer], level, self.resources, &self.progress.done);
        let failed = |error| at(path)(io::Error::other(error));
        let Some(deflated) = deflated.map_err(failed)?.pop() else { return Ok([0; 32]) };
        let [c0, c1, c2, c3] = deflated.crc32.to_le_bytes();
        let [s0, s1, s2, s3, ..] = archive.size().to_le_bytes();
        let trailer = Segment::literal([c0, c1, c2, c3, s0, s1, s2, s3]);
        let gzip = Rope::new([Segment::literal(GZIP), Segment::whole(deflated.stream), trailer]);
        copy(&gzip.map_err(reading(path))?, blob, path, &AtomicU64::default())?;
        // A stream that an earlier run made was not read.
        deflated.sha256.map_or_else(|| Sha256::of_content(&**archive).map_err(reading(path)), Ok)
    }

    /// Whether a blob need not be written. It is read and hashed: a power cut may have damaged it, and nothing else would find
    /// that.
    pub(super) fn has(&self, blob: &Descriptor) -> bool {
        self.existing.as_ref().is_some_and(|layout| layout.has(blob))
    }

    /// Gives a blob the name of its digest, unless the layout has it.
    fn publish(&self, blob: Hashed<File>, path: &Path) -> Result<WrittenBlob, ExportError> {
        let blob = WrittenBlob { sha256: blob.sum.finish(), size: blob.size };
        let has = self.has(&blob.descriptor(MediaType::Other("application/octet-stream".to_owned())));
        let named = path.with_file_name(hex(&blob.sha256));
        let published = if has { fs::remove_file(path) } else { fs::rename(path, named) };
        published.map_err(at(path))?;
        Ok(blob)
    }

    /// Writes a document.
    pub(super) fn document(&self, bytes: &[u8]) -> Result<WrittenBlob, ExportError> {
        let path = self.directory.join("document");
        let mut blob = Hashed::create(&path)?;
        blob.write_all(bytes).map_err(at(&path))?;
        self.publish(blob, &path)
    }

    /// Links or copies a blob of the input, whose digest has been compared.
    pub(super) fn unchanged(&self, blob: &Descriptor, content: &Arc<dyn Content>) -> Result<(), ExportError> {
        let path = self.directory.join(blob.digest().digest());
        let input = content.backing().map(Backing::open).transpose().map_err(reading(&path))?;
        let is_there = input.as_ref().is_some_and(|input| self.is_at(blob, input));
        if path.is_file() || is_there || self.has(blob) {
            return Ok(());
        }
        self.progress.expect(content.size());
        // Nothing writes to a blob, since its name is its digest.
        if self.reflink != Reflink::Never && input.as_ref().is_some_and(|input| link_open(input, &path).is_ok()) {
            self.progress.advance(content.size());
            return Ok(());
        }
        let of_input = input.map(|input| input.metadata()).transpose().map_err(at(&path))?;
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let (mtime, mtime_nanoseconds) =
            of_input.as_ref().map(Attributes::of).map_or((0, 0), |it| (it.mtime, it.mtime_nanoseconds));
        let attributes = Attributes { mode: MODE, uid, gid, mtime, mtime_nanoseconds };
        let file = Ready { path, content: Arc::clone(content), attributes, is_made: of_input.is_none(), sum: None };
        Batch::of_one(file).write(&Sharing::new(Linux, self.reflink), self.progress)
    }

    /// Whether the blob of the layout is this file, as after an earlier run that has linked it.
    fn is_at(&self, blob: &Descriptor, file: &File) -> bool {
        let place = self.existing.as_ref().and_then(|layout| layout.blob(blob.digest()).ok());
        let pair = place.and_then(|place| Some((place.metadata().ok()?, file.metadata().ok()?)));
        pair.is_some_and(|(one, other)| (one.dev(), one.ino()) == (other.dev(), other.ino()))
    }
}

/// A writer, and the digest of what was written to it.
struct Hashed<W> {
    inner: W,
    sum: Sha256,
    size: u64,
}

impl<W> Hashed<W> {
    fn new(inner: W) -> Self {
        Self { inner, sum: Sha256::default(), size: 0 }
    }
}

impl Hashed<File> {
    fn create(path: &Path) -> Result<Self, ExportError> {
        let file = disk::open_with(path, File::options().write(true).create_new(true), 0);
        file.map(Self::new).map_err(at(path))
    }
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.sum.update(bytes.get(..count).unwrap_or_default());
        self.size += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
