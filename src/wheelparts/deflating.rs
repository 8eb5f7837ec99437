//! Which members of a new wheel are deflated, and their streams.
//!
//! A member that has a stream already keeps it: that of the input, or one that was spliced out of it. Archives, whose code
//! objects are compressed, are stored, as is what the input stores and what deflating would enlarge. The manifest is stored
//! as well: most of it is digests. It has about 100 bytes for each code object, and deflating would spare half of them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use rayon::prelude::*;

use super::{Sums, WheelEntry, WheelPart};
use crate::deflate::{DeflateError, DeflateLevel, DeflatedContent, Uncompressed, deflate};
use crate::rope::ReadError;
use crate::source::EntryPath;

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
    let Some((record, files)) = files.split_last_mut() else { return Ok(()) };
    let wanted = files.iter_mut().filter(|file| !stored.contains(&file.path) && is_wanted(part, file));
    deflate_files(part, level, wanted.collect(), done)?;
    // The manifest states the digests of others, and RECORD those of all.
    let (manifests, others): (Vec<_>, Vec<_>) = files.iter().partition(|file| file.is_manifest());
    compute(&others)?;
    compute(&manifests)?;
    deflate_files(part, level, vec![record], done)
}

/// Whether a member is to be deflated.
fn is_wanted(part: &WheelPart, file: &WheelEntry) -> bool {
    let is_kept = file.digest.content().member().is_some() && !part.deflates_stored();
    file.deflated.is_none() && !is_kept && !file.path.name().ends_with(ARCHIVE) && !file.is_manifest()
}

/// Computes the digests of files that are unknown.
fn compute(files: &[&WheelEntry]) -> Result<(), ReadError> {
    // Collected first: for a single one, no other thread is woken.
    let unknown: Vec<_> = files.iter().map(|file| &file.digest).filter(|digest| digest.known().is_none()).collect();
    unknown.par_iter().with_max_len(1).try_for_each(|digest| digest.sums().map(drop))
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
