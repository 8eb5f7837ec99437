//! Some code objects of a compressed bundle, compressed to a bundle that contains only these.
//!
//! The jobs make, and the store keeps, the compressed data followed by the hash. The header is added in front when both
//! exist.

use std::io::Write;
use std::sync::Arc;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use md5::{Digest, Md5};

use super::frame::Frame;
use super::jobs::BundleJobs;
use crate::fatbin::{BundlePart, BundleParts, CodeObject, Compressed, CompressedFormat, Method, OpenBundle};
use crate::gpu::TargetId;
use crate::rope::{Content, Identity, ReadError, check_range, copy_from, to_usize};

/// Bytes of the hash: the low half of an MD5 (LLVM's `CompressedOffloadBundle::compress`).
pub(super) const HASH_SIZE: u64 = 8;

/// Bytes passed to zlib at a time.
const PIECE: u64 = 128 << 10;

/// The selected parts of a bundle.
#[derive(Debug)]
pub(super) struct BundleSelection {
    parts: BundleParts,
    format: CompressedFormat,
}

impl BundleSelection {
    pub(super) fn method(&self) -> Method {
        self.format.method
    }

    /// Distinguishes its frame from one of the same bytes in an archive.
    pub(super) fn describe(&self) -> &'static [u8] {
        match self.format.method {
            Method::Zlib => b"bundle, zlib",
            Method::Zstd => b"bundle, zstd",
        }
    }

    /// The offset in the decompressed bundle after its last code object.
    pub(super) fn end(&self) -> u64 {
        let end = |part: &BundlePart| match part {
            BundlePart::Code { offset, length } => offset.saturating_add(*length),
            BundlePart::Literal(_) | BundlePart::Zeros(_) => 0,
        };
        self.parts.list.iter().map(end).max().unwrap_or(0)
    }

    /// A reader of the parts in order.
    pub(super) fn reader<'a>(
        &'a self,
        object: &'a CodeObject,
        open: &'a mut OpenBundle,
    ) -> Result<BundlePartReader<'a>, ReadError> {
        let missing = || ReadError::damaged(&"compressed bundle".into(), "it is not open");
        let bundle = object.bundle.as_deref().ok_or_else(missing)?;
        Ok(BundlePartReader { parts: self.parts.list.iter(), part: None, at: 0, bundle, open, md5: Md5::new() })
    }
}

/// Reads the parts of a bundle one after the other.
pub(super) struct BundlePartReader<'a> {
    parts: std::slice::Iter<'a, BundlePart>,
    part: Option<&'a BundlePart>,
    /// Bytes of `part` that were read.
    at: u64,
    bundle: &'a Compressed,
    open: &'a mut OpenBundle,
    md5: Md5,
}

impl BundlePartReader<'_> {
    /// Fills `buffer` with the next bytes.
    pub(super) fn fill(&mut self, buffer: &mut [u8]) -> Result<(), ReadError> {
        let mut rest = &mut *buffer;
        while !rest.is_empty() {
            let end = || ReadError::damaged(&"compressed bundle".into(), "it has fewer bytes than were planned");
            let part = match self.part {
                Some(part) => part,
                None => self.parts.next().ok_or_else(end)?,
            };
            self.part = Some(part);
            let left = length(part) - self.at;
            let here = rest.len().min(to_usize(left));
            let (piece, behind) = rest.split_at_mut(here);
            self.read(part, piece)?;
            self.at += here as u64;
            if self.at == length(part) {
                (self.part, self.at) = (None, 0);
            }
            rest = behind;
        }
        self.md5.update(&*buffer);
        Ok(())
    }

    fn read(&mut self, part: &BundlePart, buffer: &mut [u8]) -> Result<(), ReadError> {
        let offset = match part {
            BundlePart::Zeros(_) => {
                buffer.fill(0);
                return Ok(());
            }
            BundlePart::Literal(bytes) => return copy_from(bytes, self.at, buffer),
            BundlePart::Code { offset, .. } => offset.saturating_add(self.at),
        };
        match self.open {
            OpenBundle::InMemory(bundle) => copy_from(bundle, offset, buffer),
            OpenBundle::Stream(Some(stream)) => {
                self.bundle.seek(stream, offset)?;
                self.bundle.read_stream(stream, buffer)
            }
            OpenBundle::Stream(None) | OpenBundle::None => {
                Err(ReadError::damaged(&"compressed bundle".into(), "it is not open"))
            }
        }
    }

    /// The hash of all bytes read, in the form of the header.
    pub(super) fn hash(self) -> [u8; 8] {
        let digest: [u8; 16] = self.md5.finalize().into();
        let (low, _) = digest.split_first_chunk().unwrap_or((&[0; 8], &[]));
        *low
    }
}

fn length(part: &BundlePart) -> u64 {
    match part {
        BundlePart::Literal(bytes) => bytes.len() as u64,
        BundlePart::Zeros(length) | BundlePart::Code { length, .. } => *length,
    }
}

/// Compresses `size` bytes to a zlib stream, at clang's level.
pub(super) fn compress_zlib(
    size: u64,
    read: &mut dyn FnMut(&mut [u8]) -> Result<(), ReadError>,
    sink: &mut dyn FnMut(&[u8]) -> Result<(), ReadError>,
    failed: impl Fn(std::io::Error) -> ReadError,
) -> Result<(), ReadError> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    let mut left = size;
    while left > 0 {
        let mut buffer = vec![0; to_usize(left.min(PIECE))];
        read(&mut buffer)?;
        left -= buffer.len() as u64;
        encoder.write_all(&buffer).map_err(&failed)?;
        sink(encoder.get_ref())?;
        encoder.get_mut().clear();
    }
    sink(&encoder.finish().map_err(failed)?)
}

/// A compressed bundle with some code objects of another one. It is made later.
#[derive(Debug)]
pub(crate) struct PackedBundle {
    frame: Arc<Frame>,
    format: CompressedFormat,
}

impl PackedBundle {
    /// The given parts of the decompressed `bundle`, in a format.
    pub(crate) fn new(
        bundle: &Arc<Compressed>,
        parts: BundleParts,
        format: CompressedFormat,
        target: &TargetId,
        jobs: &Arc<BundleJobs>,
    ) -> Result<Self, ReadError> {
        let content: Arc<dyn Content> = Arc::new(parts.rope(&bundle.whole())?);
        let first = parts
            .list
            .iter()
            .find_map(|part| if let BundlePart::Code { offset, .. } = part { Some(*offset) } else { None });
        let (target, offset) = (target.clone(), first.unwrap_or(0));
        let object = CodeObject { target, content, bundle: Some(Arc::clone(bundle)), offset };
        let frame = Arc::new(Frame::of_selection(object, BundleSelection { parts, format }, jobs));
        Ok(Self { frame, format })
    }

    /// Registers it, so that it is made together with the archives' frames when its bundle is decompressed again for
    /// one of them.
    pub(crate) fn make_with_others(&self) {
        self.frame.jobs().register(&self.frame);
    }

    /// Its size in bytes, if it has been made or its size is in the index.
    pub(crate) fn known_size(&self) -> Option<u64> {
        Some(self.format.header_size() + self.frame.known_length()?.checked_sub(HASH_SIZE)?)
    }

    /// Sets the size that it had in an earlier session. `false` if it cannot have this size.
    pub(crate) fn restore_size(&self, size: u64) -> bool {
        let length = size.checked_sub(self.format.header_size()).and_then(|length| length.checked_add(HASH_SIZE));
        length.is_some_and(|length| self.frame.restore_length(length))
    }

    /// Makes several of them, and decompresses each bundle once.
    pub(crate) fn make_all(bundles: &[&Self]) -> Result<(), ReadError> {
        let frames: Vec<_> = bundles.iter().map(|bundle| Arc::clone(&bundle.frame)).collect();
        frames.first().map_or(Ok(()), |frame| frame.jobs().demand(&frames).wait(|_| ()).map(drop))
    }

    /// The bundle, if its size is known.
    pub(crate) fn content(&self) -> Option<Arc<dyn Content>> {
        let length = self.frame.known_length()?;
        Some(Arc::new(SizedBundle {
            frame: Arc::clone(&self.frame),
            format: self.format,
            size: self.known_size()?,
            length,
        }))
    }
}

/// A compressed bundle of a known size.
#[derive(Debug)]
struct SizedBundle {
    frame: Arc<Frame>,
    format: CompressedFormat,
    size: u64,
    /// Bytes of the frame, including the hash after it.
    length: u64,
}

impl SizedBundle {
    fn header(&self) -> Result<Vec<u8>, ReadError> {
        let mut hash = [0; 8];
        let packed = self.length.saturating_sub(HASH_SIZE);
        self.frame.read_at(self.length, packed, &mut hash)?;
        let header = self.format.header(packed, self.frame.size(), u64::from_le_bytes(hash));
        header.ok_or_else(|| ReadError::damaged(&"compressed bundle".into(), "it is too large for its version"))
    }
}

impl Content for SizedBundle {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        check_range(offset, buffer.len(), self.size)?;
        let header_size = self.format.header_size();
        let in_header = to_usize(header_size.saturating_sub(offset)).min(buffer.len());
        let (front, behind) = buffer.split_at_mut(in_header);
        if !front.is_empty() {
            copy_from(&self.header()?, offset, front)?;
        }
        if behind.is_empty() {
            return Ok(());
        }
        self.frame.read_at(self.length, offset.saturating_sub(header_size), behind)
    }

    fn is_nonblocking(&self, offset: u64, length: usize) -> bool {
        let behind = offset.checked_sub(self.format.header_size());
        behind.is_some_and(|offset| self.frame.is_nonblocking(offset, length))
    }

    fn identity(&self) -> Option<Identity> {
        Some(Identity::describe("compressed bundle").add(&self.frame.identity()?.0).finish())
    }
}
