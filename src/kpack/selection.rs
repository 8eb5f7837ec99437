//! The content of a bundle that consists of selected parts of another one.

use std::io::Write;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use md5::{Digest, Md5};

use crate::fatbin::{BundlePart, BundleParts, CodeObject, Compressed, CompressedFormat, Method, OpenBundle};
use crate::rope::{ReadError, copy_from, to_usize};

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
    pub(super) fn new(parts: BundleParts, format: CompressedFormat) -> Self {
        Self { parts, format }
    }

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
