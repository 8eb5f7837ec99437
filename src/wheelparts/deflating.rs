//! Which members of a new wheel are deflated, and their streams.
//!
//! A member that has a stream already keeps it: that of the input, or one that was spliced out of it. Archives, whose code
//! objects are compressed, are stored, as is what the input stores and what deflating would enlarge.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use rayon::prelude::*;

use super::{Digest, Sums, WheelEntry, WheelPart};
use crate::deflate::{DeflateError, DeflateLevel, DeflatedContent, Uncompressed, deflate};
use crate::rope::ReadError;
use crate::source::EntryPath;
use crate::wheel::PART_MANIFEST;

/// The suffix of archives.
const ARCHIVE: &[u8] = b".kpack";

/// Deflates the members of a wheel that are not deflated yet. `stored` are rewritten members that the input stores. RECORD
/// is the last file.
pub(super) fn deflate_members(
    part: &WheelPart,
    level: DeflateLevel,
    files: &mut [WheelEntry],
    stored: &BTreeSet<EntryPath>,
    done: &AtomicU64,
) -> Result<(), ReadError> {
    let is_manifest = |file: &WheelEntry| file.path.name() == PART_MANIFEST.as_bytes();
    let Some((record, files)) = files.split_last_mut() else { return Ok(()) };
    let (manifests, others): (Vec<_>, Vec<_>) = files.iter_mut().partition(|file| is_manifest(file));
    let deflate_all = |files: Vec<&mut WheelEntry>| deflate_files(part, level, files, done);
    let unknown: Vec<_> = others.iter().map(|file| Arc::clone(&file.digest)).collect();
    deflate_all(others.into_iter().filter(|file| !stored.contains(&file.path) && is_wanted(part, file)).collect())?;
    // The manifest states the digests of others, and RECORD that of the manifest as well.
    compute(&unknown.iter().map(|digest| &**digest).collect::<Vec<_>>())?;
    deflate_all(manifests)?;
    deflate_all(vec![record])
}

/// Whether a member is to be deflated.
fn is_wanted(part: &WheelPart, file: &WheelEntry) -> bool {
    let is_kept = file.digest.content().member().is_some() && !part.deflates_stored();
    file.deflated.is_none() && !is_kept && !file.path.name().ends_with(ARCHIVE)
}

/// Computes the digests that are unknown.
fn compute(digests: &[&Digest]) -> Result<(), ReadError> {
    let unknown = digests.par_iter().with_max_len(1).filter(|digest| digest.known().is_none());
    unknown.try_for_each(|digest| digest.sums().map(drop))
}

/// Deflates files, and computes their digests in the same pass.
fn deflate_files(
    part: &WheelPart,
    level: DeflateLevel,
    files: Vec<&mut WheelEntry>,
    done: &AtomicU64,
) -> Result<(), ReadError> {
    let contents = files.iter().map(|file| Uncompressed {
        entry: file.path.to_text().as_ref().into(),
        content: Arc::clone(file.digest.content()),
        is_hashed: file.digest.known_sha256().is_none(),
    });
    let made = deflate(contents.collect(), level, part.resources(), done).map_err(|error| match error {
        DeflateError::Read(error) => error,
        other => part.failed(&other),
    })?;
    for (file, DeflatedContent { stream, crc32, sha256 }) in files.into_iter().zip(made) {
        file.digest.check_crc32(crc32)?;
        match sha256 {
            Some(sha256) => file.digest.set(Sums { sha256, crc32 }),
            None => file.digest.assume(None, Some(crc32)),
        }
        if stream.size() < file.digest.content().size() {
            file.deflated = Some(stream);
        }
    }
    Ok(())
}
