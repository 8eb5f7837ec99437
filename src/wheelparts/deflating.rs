//! Which members of a new wheel are deflated, and their streams.
//!
//! A member that has a stream already keeps it: that of the input, or one that was spliced out of it. Archives, whose code
//! objects are compressed, are stored, as is what the input stores and what deflating would enlarge. The manifest is stored
//! as well: most of it is digests. It has about 100 bytes for each code object, and deflating would spare half of them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use rayon::prelude::*;

use super::digest::Sums;
use super::entry::WheelEntry;
use crate::deflate::{DeflateError, DeflateLevel, DeflatedContent, Uncompressed, deflate};
use crate::resources::Resources;
use crate::rope::ReadError;
use crate::source::EntryPath;

/// The suffix of archives.
const ARCHIVE: &[u8] = b".kpack";

/// How the members of a wheel are deflated that are not deflated yet.
pub(super) struct MemberDeflation<'a> {
    pub(super) level: DeflateLevel,
    /// Whether members that the input stores are deflated.
    pub(super) deflates_stored: bool,
    pub(super) resources: &'a Arc<Resources>,
    /// The bytes that are deflated are added to it.
    pub(super) done: &'a AtomicU64,
}

impl MemberDeflation<'_> {
    /// Deflates members. `stored` are rewritten ones that the input stores. RECORD is the last file.
    pub(super) fn deflate(&self, files: &mut [WheelEntry], stored: &BTreeSet<EntryPath>) -> Result<(), DeflateError> {
        let Some((record, files)) = files.split_last_mut() else { return Ok(()) };
        let wanted = files.iter_mut().filter(|file| !stored.contains(&file.path) && self.is_wanted(file));
        self.deflate_files(wanted.collect())?;
        // The manifest states the digests of others, and RECORD those of all.
        let (manifests, others): (Vec<_>, Vec<_>) = files.iter().partition(|file| file.is_manifest());
        compute(&others)?;
        compute(&manifests)?;
        self.deflate_files(vec![record])
    }

    /// Whether a member is to be deflated.
    fn is_wanted(&self, file: &WheelEntry) -> bool {
        let is_kept = file.digest.content.member().is_some() && !self.deflates_stored;
        file.deflated.is_none() && !is_kept && !file.path.name().ends_with(ARCHIVE) && !file.is_manifest()
    }

    /// Deflates files, and computes their digests in the same pass.
    fn deflate_files(&self, files: Vec<&mut WheelEntry>) -> Result<(), DeflateError> {
        let contents = files.iter().map(|file| Uncompressed {
            entry: file.path.to_text().as_ref().into(),
            content: Arc::clone(&file.digest.content),
            is_hashed: file.digest.known_sha256().is_none(),
        });
        let made = deflate(contents.collect(), self.level, self.resources, self.done)?;
        for (file, DeflatedContent { stream, crc32, sha256 }) in files.into_iter().zip(made) {
            file.digest.check_crc32(crc32)?;
            match sha256 {
                Some(sha256) => file.digest.set(Sums { sha256, crc32 }),
                None => file.digest.assume(None, Some(crc32)),
            }
            if stream.size() < file.digest.content.size() {
                file.deflated = Some(stream);
            }
        }
        Ok(())
    }
}

/// Computes the digests of files that are unknown.
fn compute(files: &[&WheelEntry]) -> Result<(), ReadError> {
    // Collected first: for a single one, no other thread is woken.
    let unknown: Vec<_> = files.iter().map(|file| &file.digest).filter(|digest| digest.known().is_none()).collect();
    unknown.par_iter().with_max_len(1).try_for_each(|digest| digest.sums().map(drop))
}
