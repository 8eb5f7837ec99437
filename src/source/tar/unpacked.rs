//! A compressed archive as a content of its unpacked bytes.
//!
//! Streams of zstd and xz can only be read from their beginning. They are unpacked once, to an unnamed file.

use std::io::{BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use lzma_rust2::XzReader;

use super::super::SourceError;
use super::super::stamp::is_cached;
use super::decoding::{Located, PIECE, check_ratio, unusable};
use super::gzip;
use super::reader::ContentReader;
use crate::disk::{ScratchError, ScratchFile};
use crate::resources::Resources;
use crate::rope::{Content, Identity, ReadError, check_range};

/// The largest window of a zstd stream as a power of two: 128 MiB, as for bundles.
pub(super) const WINDOW_LOG: u32 = 27;

/// The memory limit of xz in KiB: a dictionary of the same size, and 4 MiB for the rest.
pub(super) const MAX_MEMORY: u32 = 132 << 10;

/// How an archive is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TarCompression {
    Plain,
    Gzip,
    Zstd,
    Xz,
}

/// The bytes of the tar archive in `file`, which is compressed in this way.
pub(crate) fn open(
    location: &Path,
    file: &Arc<dyn Content>,
    packing: TarCompression,
    resources: &Arc<Resources>,
) -> Result<Arc<dyn Content>, SourceError> {
    let unusable = |error| unusable(location, &error);
    let input = BufReader::with_capacity(PIECE, ContentReader::new(file));
    match packing {
        TarCompression::Plain => Ok(Arc::clone(file)),
        TarCompression::Gzip => gzip::open(location, file, resources),
        TarCompression::Zstd => {
            let mut decoder = zstd::Decoder::with_buffer(input).map_err(unusable)?;
            decoder.window_log_max(WINDOW_LOG).map_err(unusable)?;
            unpack(location, decoder, file, resources)
        }
        TarCompression::Xz => unpack(location, XzReader::new_mem_limit(input, true, MAX_MEMORY), file, resources),
    }
}

/// Unpacks a stream to an unnamed file.
fn unpack(
    location: &Path,
    stream: impl Read,
    of: &Arc<dyn Content>,
    resources: &Arc<Resources>,
) -> Result<Arc<dyn Content>, SourceError> {
    let no_room = |error: ScratchError| SourceError::NoRoom { path: location.to_owned(), reason: error.to_string() };
    let mut file = resources.store.scratch().map_err(no_room)?;
    let (mut stream, mut piece) = (Located::new(stream), vec![0; PIECE]);
    loop {
        let count = stream.read(&mut piece).map_err(|error| unusable(location, &error))?;
        if count == 0 {
            break;
        }
        check_ratio(location, stream.at, of.size(), resources)?;
        file.append(piece.get(..count).unwrap_or_default()).map_err(no_room)?;
    }
    let identity = of.identity().map(|of| Identity::describe("unpacked").add(&of.0).finish());
    Ok(Arc::new(Unpacked { file, identity }))
}

/// An unpacked archive.
#[derive(Debug)]
struct Unpacked {
    file: ScratchFile,
    identity: Option<Identity>,
}

impl Content for Unpacked {
    fn size(&self) -> u64 {
        self.file.length()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        check_range(offset, buffer.len(), self.size())?;
        let read = std::os::unix::fs::FileExt::read_exact_at(self.file.as_file(), buffer, offset);
        read.map_err(|source| ReadError::io(&"the unpacked archive".into(), source))
    }

    fn is_nonblocking(&self, offset: u64, length: usize) -> bool {
        is_cached(self.file.as_file(), offset, length)
    }

    fn identity(&self) -> Option<Identity> {
        self.identity
    }
}
