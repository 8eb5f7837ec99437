//! Reading an archive that anyone may have written.

use std::sync::Arc;

use super::toc::{Toc, TocEntry, decode_prefix};
use super::{HEADER_SIZE, MAGIC, VERSION};
use crate::rope::{Content, ReadError};

/// The largest table of contents that is read.
const MAX_TOC: u64 = 1 << 30;

/// Why an archive, or a part of it, cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum KpackError {
    /// Its bytes cannot be had.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// It is no archive, or not a valid one.
    #[error("{0}")]
    Malformed(String),
    /// MessagePack that cannot be understood.
    #[error("MessagePack: {0}")]
    MessagePack(#[from] rmp_serde::decode::Error),
}

/// An archive that has been opened: its table of contents, and where each code object is.
#[derive(Debug)]
pub struct Reader {
    content: Arc<dyn Content>,
    toc: Toc,
    /// Offset and length of each stored code object, by ordinal.
    stored: Vec<(u64, u64)>,
    is_compressed: bool,
}

impl Reader {
    /// Reads header and table of contents.
    pub fn open(content: Arc<dyn Content>) -> Result<Self, KpackError> {
        let mut header = [0; 16];
        if content.size() < HEADER_SIZE {
            return Err(malformed("it is too short"));
        }
        content.read_at(0, &mut header)?;
        let version = u32::from_le_bytes(field(&header, 4));
        if !header.starts_with(MAGIC) || version != VERSION {
            return Err(malformed("it is not a version 1 kpack archive"));
        }
        let offset = u64::from_le_bytes(field(&header, 8));
        let size = content.size().checked_sub(offset).filter(|&size| size > 0 && offset >= HEADER_SIZE);
        let size = size.ok_or_else(|| malformed("its table of contents is not in the file"))?;
        if size > MAX_TOC {
            return Err(malformed("its table of contents is too long"));
        }
        let mut bytes = vec![0; usize::try_from(size).unwrap_or(usize::MAX)];
        content.read_at(offset, &mut bytes)?;
        let toc: Toc = decode_prefix(&bytes)?;
        let (stored, is_compressed) = match toc.compression_scheme.as_str() {
            "none" => (blobs(&toc, offset)?, false),
            "zstd-per-kernel" => (frames(&*content, &toc, offset)?, true),
            other => return Err(malformed(format!("unknown compression scheme {other:?}"))),
        };
        Ok(Self { content, toc, stored, is_compressed })
    }

    /// The table of contents.
    pub fn toc(&self) -> &Toc {
        &self.toc
    }

    /// The entries by name, target, and description.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &str, &TocEntry)> {
        self.toc.toc.iter().flat_map(|(key, targets)| {
            targets.iter().map(move |(target, entry)| (key.as_str(), target.as_str(), entry))
        })
    }

    /// Bytes that an entry takes in the archive.
    pub fn stored_size(&self, entry: &TocEntry) -> Option<u64> {
        self.stored.get(usize::try_from(entry.ordinal).ok()?).map(|&(_, size)| size)
    }

    /// The code object under this name for exactly this target; `None` if there is none.
    pub fn get(&self, key: &str, target: &str) -> Result<Option<Vec<u8>>, KpackError> {
        match self.toc.toc.get(key).and_then(|targets| targets.get(target)) {
            Some(entry) => self.read(entry).map(Some),
            None => Ok(None),
        }
    }

    /// The code object of an entry of this archive.
    pub fn read(&self, entry: &TocEntry) -> Result<Vec<u8>, KpackError> {
        let stored = usize::try_from(entry.ordinal).ok().and_then(|ordinal| self.stored.get(ordinal));
        let &(offset, size) = stored.ok_or_else(|| malformed(format!("there is no ordinal {}", entry.ordinal)))?;
        let mut bytes = vec![0; usize::try_from(size).unwrap_or(usize::MAX)];
        self.content.read_at(offset, &mut bytes)?;
        if self.is_compressed {
            bytes = decompress(&bytes, entry.original_size)?;
        }
        if bytes.len() as u64 != entry.original_size {
            return Err(malformed(format!(
                "a code object has {} bytes instead of {}",
                bytes.len(),
                entry.original_size
            )));
        }
        Ok(bytes)
    }
}

/// Does not believe a claimed size before the frame agrees with it.
fn decompress(frame: &[u8], original_size: u64) -> Result<Vec<u8>, KpackError> {
    let claimed = zstd::zstd_safe::get_frame_content_size(frame).ok().flatten();
    if claimed.is_some_and(|claimed| claimed != original_size) {
        return Err(malformed("a frame and the table of contents disagree on a size"));
    }
    let mut decoder = zstd::stream::read::Decoder::with_buffer(frame).map_err(|error| malformed(error.to_string()))?;
    let mut bytes = Vec::new();
    let mut limited = std::io::Read::take(&mut decoder, original_size.saturating_add(1));
    std::io::Read::read_to_end(&mut limited, &mut bytes).map_err(|error| malformed(error.to_string()))?;
    Ok(bytes)
}

fn blobs(toc: &Toc, end: u64) -> Result<Vec<(u64, u64)>, KpackError> {
    let blobs = toc.blobs.as_ref().ok_or_else(|| malformed("it has no list of blobs"))?;
    let inside = |offset: u64, size: u64| offset.checked_add(size).is_some_and(|last| last <= end);
    let check = |blob: &super::toc::Blob| {
        if inside(blob.offset, blob.size) {
            Ok((blob.offset, blob.size))
        } else {
            Err(malformed("a blob is not in the file"))
        }
    };
    blobs.iter().map(check).collect()
}

/// Frames are found by going from length to length; there is no index of them.
fn frames(content: &dyn Content, toc: &Toc, end: u64) -> Result<Vec<(u64, u64)>, KpackError> {
    let cut_off = || malformed("its frames are cut off");
    let start = toc.zstd_offset.ok_or_else(|| malformed("it does not say where its frames are"))?;
    let end = toc.zstd_size.and_then(|size| start.checked_add(size)).filter(|&last| last <= end).ok_or_else(cut_off)?;
    let read = |at: u64| -> Result<u64, KpackError> {
        let mut bytes = [0; 4];
        if at.checked_add(4).is_none_or(|next| next > end) {
            return Err(cut_off());
        }
        content.read_at(at, &mut bytes)?;
        Ok(u32::from_le_bytes(bytes).into())
    };
    let count = read(start)?;
    let mut at = start + 4;
    let mut frames = Vec::new();
    for _ in 0..count {
        let length = read(at)?;
        frames.push((at + 4, length));
        at = at.checked_add(4 + length).filter(|&next| next <= end).ok_or_else(cut_off)?;
    }
    Ok(frames)
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}

fn malformed(reason: impl Into<String>) -> KpackError {
    KpackError::Malformed(reason.into())
}
