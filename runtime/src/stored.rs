//! Where the stored bytes of each code object are, by ordinal.

use crate::error::{Error, malformed};
use crate::format::Scheme;
use crate::msgpack::Cursor;
use crate::source::Source;
use crate::toc::Blob;

/// More code objects than any archive has (torch for one GPU has some thousands). Each takes 16 bytes of the index, but an
/// archive of zeros could claim one every 4 bytes.
const MAX_STORED: usize = 1 << 20;

/// Finds all of them, checking that they are between the header and `end`.
pub(crate) fn index(
    source: &impl Source,
    scheme: Scheme,
    blobs: Option<Cursor<'_>>,
    frames: Option<Blob>,
    end: u64,
) -> Result<Vec<Blob>, Error> {
    match scheme {
        Scheme::None => index_blobs(blobs.ok_or_else(|| malformed("it has no list of blobs"))?, end),
        Scheme::ZstdPerKernel => {
            index_frames(source, frames.ok_or_else(|| malformed("it does not say where its frames are"))?, end)
        }
    }
}

fn index_blobs(mut cursor: Cursor<'_>, end: u64) -> Result<Vec<Blob>, Error> {
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
        if blob.end().is_none_or(|last| last > end) {
            return Err(malformed("a blob is not in the file"));
        }
        push(&mut blobs, blob)?;
    }
    Ok(blobs)
}

/// Frames are found by going from length to length; archives have no index of them.
fn index_frames(source: &impl Source, region: Blob, end: u64) -> Result<Vec<Blob>, Error> {
    let cut_off = || malformed("its frames are cut off");
    let end = region.end().filter(|&last| last <= end).ok_or_else(cut_off)?;
    let number = |at: u64| -> Result<(u32, u64), Error> {
        let next = at.checked_add(4).filter(|&next| next <= end).ok_or_else(cut_off)?;
        let mut bytes = [0; 4];
        source.read_at(at, &mut bytes)?;
        Ok((u32::from_le_bytes(bytes), next))
    };
    let (count, mut at) = number(region.offset)?;
    let mut frames = Vec::new();
    for _ in 0..count {
        let (length, offset) = number(at)?;
        let frame = Blob { offset, size: length.into() };
        at = frame.end().filter(|&next| next <= end).ok_or_else(cut_off)?;
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
