//! Digests of a content: SHA-256 for RECORD, CRC-32 for the zip file. Both are computed once, in one pass, at the first
//! use of either.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::input_record::InputRecord;
use crate::index::RecordKind;
use crate::resources::Resources;
use crate::rope::{Content, Identity, InPassing, PackedContent, ReadError, Sha256, check_range, copy_from, read_all};
use crate::source::EntryPath;
use crate::wheel::{SHA256_TEXT, sha256_text};

/// The digests of a content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sums {
    /// SHA-256.
    pub sha256: [u8; 32],
    /// CRC-32 as zip files have it.
    pub crc32: u32,
}

/// A content with its digests, which are computed on demand.
///
/// Digests that the input claims are used without reading the content. When the content is read for another reason,
/// both are computed. A wrong CRC-32 is an error. A wrong SHA-256 is logged, and replaced by the right one.
#[derive(derive_more::Debug)]
#[debug("Digest({entry:?}, {:?})", sha256.get())]
pub struct Digest {
    entry: Arc<str>,
    /// The content.
    pub content: Arc<dyn Content>,
    sha256: OnceLock<[u8; 32]>,
    /// The entry of the input's RECORD that may claim a SHA-256.
    claim: Option<ClaimedDigest>,
    crc32: OnceLock<u32>,
    /// Held while computing, so that only one thread does.
    work: Mutex<()>,
    /// Resources with the index that stores digests and the counters.
    resources: Option<Arc<Resources>>,
}

/// The SHA-256 that the RECORD of the input claims for an entry, if any.
struct ClaimedDigest {
    record: Arc<InputRecord>,
    path: EntryPath,
    /// Whether it counts as the SHA-256 until one is computed.
    stands: bool,
    found: OnceLock<Option<[u8; 32]>>,
}

impl Digest {
    /// A content, with its claimed CRC-32, if any. `entry` names it in messages.
    pub fn new(entry: impl AsRef<str>, content: Arc<dyn Content>, crc32: Option<u32>) -> Self {
        let digest = Self {
            entry: entry.as_ref().into(),
            content,
            sha256: OnceLock::new(),
            claim: None,
            crc32: OnceLock::new(),
            work: Mutex::new(()),
            resources: None,
        };
        digest.assume(None, crc32);
        digest
    }

    /// Like [`Digest::new`], for a content that is expensive to read: digests are loaded from the index if possible.
    pub fn remembered(
        entry: impl AsRef<str>,
        content: Arc<dyn Content>,
        crc32: Option<u32>,
        resources: &Arc<Resources>,
    ) -> Self {
        Self { resources: Some(Arc::clone(resources)), ..Self::new(entry, content, crc32) }
    }

    /// Sets the path whose SHA-256 in the input's RECORD is compared with the computed one, or now with that of an earlier
    /// session. With `stands`, the claim counts as the SHA-256 until then.
    #[must_use]
    pub(crate) fn claimed(self, record: &Arc<InputRecord>, path: &EntryPath, stands: bool) -> Self {
        let claim = ClaimedDigest { record: Arc::clone(record), path: path.clone(), stands, found: OnceLock::new() };
        let digest = Self { claim: Some(claim), ..self };
        digest.settle_recalled();
        digest
    }

    /// Sets digests from another source. Known digests stay.
    pub fn assume(&self, sha256: Option<[u8; 32]>, crc32: Option<u32>) {
        // Setting a digest twice fails, as intended.
        let _ = sha256.map(|sha256| self.sha256.set(sha256));
        let _ = crc32.map(|crc32| self.crc32.set(crc32));
    }

    /// What RECORD claims. It is read for it if no digest was asked for in a while.
    fn claim(&self) -> Option<[u8; 32]> {
        let ClaimedDigest { record, path, found, .. } = self.claim.as_ref()?;
        if let Some(found) = found.get() {
            return *found;
        }
        // A RECORD that cannot be read now may be readable later.
        let claimed = record.sha256(path, self.content.size()).ok()?;
        *found.get_or_init(|| claimed)
    }

    /// Whether what RECORD claims is taken for the SHA-256.
    fn claim_stands(&self) -> bool {
        self.claim.as_ref().is_some_and(|claim| claim.stands)
    }

    /// Both digests, if they are known without reading the content.
    pub fn known(&self) -> Option<Sums> {
        Some(Sums { sha256: self.known_sha256()?, crc32: *self.crc32.get()? })
    }

    /// The SHA-256 if it is known without reading the content. RECORD of the input may be read.
    pub fn known_sha256(&self) -> Option<[u8; 32]> {
        let claim = || self.claim_stands().then(|| self.claim()).flatten();
        self.sha256.get().copied().or_else(claim)
    }

    /// Whether the SHA-256 is known without reading anything, RECORD of the input included.
    fn is_in_memory(&self) -> bool {
        let stands = |claim: &ClaimedDigest| claim.stands && claim.found.get().copied().flatten().is_some();
        self.sha256.get().is_some() || self.claim.as_ref().is_some_and(stands)
    }

    /// Whether both digests are known from claims, and none has been computed.
    pub(crate) fn is_as_claimed(&self) -> bool {
        self.sha256.get().is_none() && self.known().is_some()
    }

    /// Computes the digests if there is a claim that has not been checked.
    pub fn check_claim(&self) -> Result<(), ReadError> {
        if self.sha256.get().is_none() && self.claim().is_some() { self.compute().map(drop) } else { Ok(()) }
    }

    /// Both digests.
    pub fn sums(&self) -> Result<Sums, ReadError> {
        Ok(Sums { sha256: self.sha256()?, crc32: self.crc32()? })
    }

    /// The SHA-256.
    pub fn sha256(&self) -> Result<[u8; 32], ReadError> {
        match self.known_sha256() {
            Some(sha256) => Ok(sha256),
            None => self.compute().map(|sums| sums.sha256),
        }
    }

    /// The CRC-32.
    pub fn crc32(&self) -> Result<u32, ReadError> {
        match self.crc32.get() {
            Some(&crc32) => Ok(crc32),
            None => self.compute().map(|sums| sums.crc32),
        }
    }

    /// The CRC-32 in the form of zip files, if it is known without work.
    pub(crate) fn known_crc32(&self) -> Option<u32> {
        self.crc32.get().copied()
    }

    fn compute(&self) -> Result<Sums, ReadError> {
        // A thread that panicked here leaves a consistent state.
        let _working = self.work.lock();
        if let (Some(&sha256), Some(&crc32)) = (self.sha256.get(), self.crc32.get()) {
            return Ok(Sums { sha256, crc32 });
        }
        let recalled = self.recalled();
        let sums = recalled.map_or_else(|| self.read(), Ok)?;
        self.check_crc32(sums.crc32)?;
        if recalled.is_none() {
            self.keep(sums);
        }
        self.settle(sums);
        Ok(sums)
    }

    /// Fails if a computed CRC-32 is not the claimed one.
    pub(crate) fn check_crc32(&self, computed: u32) -> Result<(), ReadError> {
        if self.crc32.get().is_some_and(|claimed| *claimed != computed) {
            return Err(ReadError::damaged(&self.entry, "the content does not have the CRC-32 that the wheel claims"));
        }
        Ok(())
    }

    /// Stores computed digests.
    fn settle(&self, sums: Sums) {
        if self.claim().is_some_and(|claimed| claimed != sums.sha256) {
            let entry = &self.entry;
            tracing::warn!(
                "{entry:?}: the input's RECORD states another SHA-256 than this file has; wheels made of it state the \
                 right one. The file or RECORD was changed after the wheel was built: get it from its publisher again"
            );
        }
        self.assume(Some(sums.sha256), Some(sums.crc32));
    }

    /// The digests from an earlier session.
    fn recalled(&self) -> Option<Sums> {
        self.resources.as_ref()?.index.get(RecordKind::Digest, &self.content.identity()?)
    }

    /// Sets the digests from an earlier session, if there are any.
    pub(super) fn settle_recalled(&self) -> Option<Sums> {
        // Digests with another CRC-32 are those of a damaged member. Computing them fails.
        let fits = |sums: &Sums| self.known_crc32().is_none_or(|crc32| crc32 == sums.crc32);
        let sums = self.recalled().filter(fits)?;
        self.settle(sums);
        Some(sums)
    }

    fn read(&self) -> Result<Sums, ReadError> {
        // The pass over a member fails if its CRC-32 is not the claimed one.
        let of_member = |(member, crc32): (&dyn PackedContent, u32)| {
            Ok::<_, ReadError>(member.sha256()?.map(|sha256| Sums { sha256, crc32 }))
        };
        match self.content.member().zip(self.known_crc32()).map(of_member).transpose()?.flatten() {
            Some(sums) => Ok(sums),
            None => self.read_all(),
        }
    }

    /// Takes the digests that a pass made for another purpose has computed.
    pub fn set(&self, sums: Sums) {
        self.settle(sums);
        self.keep(sums);
    }

    /// Stores the digests in the index, for later sessions.
    fn keep(&self, sums: Sums) {
        let Some(resources) = &self.resources else { return };
        // A digest that RECORD states correctly is not stored in the index.
        let is_stated = self.claim_stands() && self.claim() == Some(sums.sha256);
        if let Some(identity) = self.content.identity().filter(|_| !is_stated) {
            resources.index.put(RecordKind::Digest, &identity, &sums);
        }
    }

    fn read_all(&self) -> Result<Sums, ReadError> {
        let mut pass = self.pass();
        read_all(&*self.content, |piece| pass.take(piece))?;
        Ok(pass.finish())
    }

    /// A pass over the content that another one makes.
    pub(super) fn pass(&self) -> DigestPass<'_> {
        let (sha256, crc32, passing) = (Sha256::default(), crc32fast::Hasher::new(), self.content.in_passing());
        DigestPass { of: self, sha256, crc32, passing }
    }
}

/// A pass over all of a content, in order.
pub(super) struct DigestPass<'a> {
    of: &'a Digest,
    sha256: Sha256,
    crc32: crc32fast::Hasher,
    passing: Option<Box<dyn InPassing + 'a>>,
}

impl DigestPass<'_> {
    pub(super) fn take(&mut self, piece: &[u8]) {
        self.sha256.update(piece);
        self.crc32.update(piece);
        if let Some(passing) = &mut self.passing {
            passing.take(piece);
        }
    }

    fn finish(self) -> Sums {
        if let Some(resources) = &self.of.resources {
            resources.counters.bytes_hashed.add(self.of.content.size());
        }
        Sums { sha256: self.sha256.finish(), crc32: self.crc32.finalize() }
    }

    /// Sets the digests.
    pub(super) fn set(self) {
        let of = self.of;
        of.set(self.finish());
    }
}

/// A digest as bytes of a file. Their number is known before their value.
#[derive(Debug)]
pub(crate) enum Deferred {
    /// The SHA-256 as 43 characters.
    Sha256(Arc<Digest>),
    /// The CRC-32, little-endian.
    Crc32(Arc<Digest>),
}

impl Content for Deferred {
    fn size(&self) -> u64 {
        match self {
            Self::Sha256(_) => SHA256_TEXT as u64,
            Self::Crc32(_) => 4,
        }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        check_range(offset, buffer.len(), self.size())?;
        if buffer.is_empty() {
            return Ok(());
        }
        match self {
            Self::Sha256(digest) => copy_from(&sha256_text(&digest.sha256()?), offset, buffer),
            Self::Crc32(digest) => copy_from(&digest.crc32()?.to_le_bytes(), offset, buffer),
        }
    }

    fn is_nonblocking(&self, _: u64, _: usize) -> bool {
        match self {
            Self::Sha256(digest) => digest.is_in_memory(),
            Self::Crc32(digest) => digest.crc32.get().is_some(),
        }
    }

    fn identity(&self) -> Option<Identity> {
        let (kind, digest) = match self {
            Self::Sha256(digest) => ("sha256", digest),
            Self::Crc32(digest) => ("crc32", digest),
        };
        Some(Identity::describe(kind).add(&digest.content.identity()?.0).finish())
    }
}
