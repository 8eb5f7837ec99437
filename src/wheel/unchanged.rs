//! Files of the input that wheels take over as they are.
//!
//! There can be hundreds of thousands, and they are kept as long as a mount lasts, so one takes no more than what cannot be
//! found out again. Its digest is made when it is needed.

use std::sync::{Arc, PoisonError};

use super::{Claims, Digest, Paths, WheelEntry, Wheels};
use crate::rope::{Content, Packed};
use crate::source::{Entry, EntryKind, EntryPath};

/// A file of the input that wheels take over as it is.
#[derive(Clone, Debug)]
pub struct Unchanged {
    /// Its path in the input.
    pub entry: EntryPath,
    content: Arc<dyn Content>,
    executable: bool,
    claim: Claimed,
}

/// The SHA-256 that the input's RECORD claims.
#[derive(Clone, Copy, Debug)]
enum Claimed {
    Nothing,
    /// Taken for the SHA-256 until something computes it.
    Stands([u8; 32]),
    /// Compared only.
    Compared([u8; 32]),
}

impl Unchanged {
    /// A file of the input; `None` for what is none.
    ///
    /// If the input is a zip file, the member is taken over as it stands there, with the CRC-32 from the central directory
    /// and the SHA-256 from the input's RECORD where that has one for a file of this size. The content is not read for
    /// it: a wrong digest in the input stays wrong, unless something makes [`Digest`] read the content, now (as `split`
    /// does) or in an earlier session. Digests in the RECORD of an unpacked wheel are compared only, since nothing protects
    /// the files there from being changed.
    pub(super) fn of(entry: &Entry, claims: &Claims) -> Option<Self> {
        let EntryKind::File { content, link_group } = &entry.kind else { return None };
        let claim = match claims.get(&entry.path).filter(|claim| claim.size == content.size()) {
            // RECORD may mean the text of what was a symlink.
            Some(claim) if link_group.is_none() && content.is_packed() => Claimed::Stands(claim.sha256),
            Some(claim) => Claimed::Compared(claim.sha256),
            None => Claimed::Nothing,
        };
        let executable = entry.attributes.mode & 0o111 != 0;
        Some(Self { entry: entry.path.clone(), content: Arc::clone(content), executable, claim })
    }

    /// Bytes of it.
    pub fn size(&self) -> u64 {
        self.content.size()
    }

    /// Whether it may be executed.
    pub fn executable(&self) -> bool {
        self.executable
    }
}

impl Wheels {
    /// A file of the input, unless the part makes it again or does without it.
    pub fn takes_over(&self, paths: &Paths<'_>, entry: &Entry) -> Option<Unchanged> {
        let unchanged = Unchanged::of(entry, &self.fat.claims)?;
        paths.of(&entry.path).map(|_| unchanged)
    }

    /// The same as a file of a part, at this path.
    pub fn taken_over(&self, path: EntryPath, unchanged: &Unchanged) -> WheelEntry {
        let packed = unchanged.content.packed().filter(|packed| packed.deflated);
        let digest = self.digest(unchanged);
        WheelEntry { path, executable: unchanged.executable, digest, deflated: packed.map(|packed| packed.bytes) }
    }

    /// The digest of a file that is taken over. One that is as RECORD claims is made again each time.
    fn digest(&self, unchanged: &Unchanged) -> Arc<Digest> {
        let digests = || self.digests.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(digest) = digests().get(&unchanged.entry) {
            return Arc::clone(digest);
        }
        // Without the lock, since it asks the index.
        let digest = Arc::new(self.new_digest(unchanged));
        if digest.is_as_claimed() {
            return digest;
        }
        Arc::clone(digests().entry(unchanged.entry.clone()).or_insert(digest))
    }

    /// The digest of a file that is taken over, kept from now on: it is about to be compared.
    pub fn kept_digest(&self, unchanged: &Unchanged) -> Arc<Digest> {
        let digest = self.digest(unchanged);
        let mut digests = self.digests.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(digests.entry(unchanged.entry.clone()).or_insert(digest))
    }

    /// The SHA-256 of a file that is taken over, if it is known without work.
    pub fn known_sha256(&self, unchanged: &Unchanged) -> Option<[u8; 32]> {
        // As RECORD has it: an earlier session may have found that the claim is wrong.
        self.digest(unchanged).known_sha256()
    }

    fn new_digest(&self, unchanged: &Unchanged) -> Digest {
        let Unchanged { entry, content, claim, .. } = unchanged;
        let crc32 = content.packed().map(|Packed { crc32, .. }| crc32);
        let digest = Digest::remembered(entry.to_text(), Arc::clone(content), crc32, &self.fat.resources);
        match *claim {
            Claimed::Stands(sha256) => digest.claimed(sha256, true),
            Claimed::Compared(sha256) => digest.claimed(sha256, false),
            Claimed::Nothing => digest,
        }
    }
}
