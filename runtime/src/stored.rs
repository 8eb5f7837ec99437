//! Where the stored bytes of each code object are, by ordinal.

use std::ops::Range;

use crate::error::{Error, malformed};
use crate::format::Scheme;
use crate::msgpack::Cursor;
use crate::source::Source;
use crate::toc::Blob;

/// More code objects than any archive has (torch for one GPU has some thousands). Each takes 16 bytes of the index, but
/// an archive of zeros could claim one every 4 bytes.
const MAX_STORED: usize = 1 << 20;

const TRUNCATED: &str = "its frames are truncated";

/// Finds all stored code objects. Checks that they are inside the file and outside the table of contents.
pub(crate) fn index(
    source: &impl Source,
    scheme: Scheme,
    blobs: Option<Cursor<'_>>,
    frames: Option<Blob>,
    toc: &Range<u64>,
) -> Result<Vec<Blob>, Error> {
    let is_apart =
        |blob: Blob| blob.end().is_some_and(|end| end <= toc.start || (toc.end <= blob.offset && end <= source.size()));
    match scheme {
        Scheme::None => index_blobs(blobs.ok_or_else(|| malformed("it has no list of blobs"))?, is_apart),
        Scheme::ZstdPerKernel => {
            let region = frames.ok_or_else(|| malformed("it does not say where its frames are"))?;
            if is_apart(region) { index_frames(source, region) } else { Err(malformed(TRUNCATED)) }
        }
    }
}

fn index_blobs(mut cursor: Cursor<'_>, is_apart: impl Fn(Blob) -> bool) -> Result<Vec<Blob>, Error> {
    let mut blobs = Vec::new();
    for _ in 0..cursor.array()? {
        let (mut offset, mut size) = (None, None);
        for _ in 0..cursor.map()? {
            match cursor.text()? {
                "offset" => offset = Some(cursor.integer()?),
                "size" => size = Some(cursor.integer()?),
                _ => cursor.skip()?,
            }
        }
        let blob = offset.zip(size).map(|(offset, size)| Blob { offset, size });
        let blob = blob.ok_or_else(|| malformed("a blob has no offset or no size"))?;
        if !is_apart(blob) {
            return Err(malformed("a blob is not in the file"));
        }
        push(&mut blobs, blob)?;
    }
    Ok(blobs)
}

/// Finds frames by following their lengths; archives have no index of frames.
fn index_frames(source: &impl Source, region: Blob) -> Result<Vec<Blob>, Error> {
    let truncated = || malformed(TRUNCATED);
    let end = region.end().ok_or_else(truncated)?;
    let number = |at: u64| -> Result<(u32, u64), Error> {
        let next = at.checked_add(4).filter(|&next| next <= end).ok_or_else(truncated)?;
        let mut bytes = [0; 4];
        source.read_at(at, &mut bytes)?;
        Ok((u32::from_le_bytes(bytes), next))
    };
    let (count, mut at) = number(region.offset)?;
    let mut frames = Vec::new();
    for _ in 0..count {
        let (length, offset) = number(at)?;
        let frame = Blob { offset, size: length.into() };
        at = frame.end().filter(|&next| next <= end).ok_or_else(truncated)?;
        push(&mut frames, frame)?;
    }
    Ok(frames)
}

fn push(stored: &mut Vec<Blob>, one: Blob) -> Result<(), Error> {
    if stored.len() >= MAX_STORED {
        return Err(malformed(format!("it has more than {MAX_STORED} code objects")));
    }
    let bytes = size_of::<Blob>().saturating_mul(stored.len());
    stored.try_reserve(1).map_err(|_| Error::Memory(bytes))?;
    stored.push(one);
    Ok(())
}

impl Blob {
    fn end(&self) -> Option<u64> {
        self.offset.checked_add(self.size)
    }
}
