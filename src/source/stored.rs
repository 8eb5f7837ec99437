//! The content of a member without compression.

use std::sync::{Arc, OnceLock};

use super::block_index::WRONG_CRC32;
use super::damage::{self, StreamDamage, UnreadableContent};
use super::facts::MemberFacts;
use super::open_members::ListedMember;
use super::path::EntryPath;
use super::stamp::Label;
use crate::resources::Resources;
use crate::rope::{Content, Identity, Packed, PackedContent, ReadError, Sha256, read_all};

/// See the [module](self). Reads need not cover all of it, so only [`PackedContent::sha256`] compares the CRC-32.
#[derive(Debug)]
pub(super) struct StoredMember {
    entry: EntryPath,
    bytes: Arc<dyn Content>,
    identity: Identity,
    crc32: u32,
    resources: Arc<Resources>,
    /// The member's place in the list of open members.
    _listed: ListedMember,
    /// The SHA-256, or the damage, that the first pass over all bytes has found.
    passed: OnceLock<Result<[u8; 32], ReadError>>,
}

impl StoredMember {
    pub(super) fn new(
        entry: EntryPath,
        bytes: Arc<dyn Content>,
        identity: Identity,
        crc32: u32,
        resources: Arc<Resources>,
        listed: ListedMember,
        facts: MemberFacts,
    ) -> Self {
        let damage = facts.damage.map(|damage| Err(damage.error));
        let passed = damage.or(facts.sha256.map(Ok)).map_or_else(OnceLock::new, OnceLock::from);
        Self { entry, bytes, identity, crc32, resources, _listed: listed, passed }
    }

    /// What is known about the content.
    pub(super) fn facts(&self) -> MemberFacts {
        let sha256 = self.passed.get().and_then(|passed| passed.as_ref().ok()).copied();
        let damage = self.damage().map(|error| Box::new(StreamDamage { readable: 0, error: error.clone() }));
        MemberFacts { sha256, is_passed: sha256.is_some(), inflated: 0, damage }
    }

    fn damage(&self) -> Option<&ReadError> {
        self.passed.get()?.as_ref().err()
    }
}

impl Content for StoredMember {
    fn size(&self) -> u64 {
        self.bytes.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        self.damage().map_or_else(|| self.bytes.read_at(offset, buffer), |error| Err(error.clone()))
    }

    fn is_nonblocking(&self, offset: u64, length: usize) -> bool {
        self.damage().is_some() || self.bytes.is_nonblocking(offset, length)
    }

    fn check(&self) -> Result<(), ReadError> {
        self.sha256().map(drop)
    }
}

impl PackedContent for StoredMember {
    fn packed(&self) -> Packed {
        let bytes: Arc<dyn Content> = match self.damage() {
            None => Arc::clone(&self.bytes),
            Some(error) => Arc::new(UnreadableContent { size: self.bytes.size(), error: error.clone() }),
        };
        Packed { bytes, deflated: false, crc32: self.crc32 }
    }

    /// Compares the CRC-32 of all bytes in the same pass.
    fn sha256(&self) -> Result<Option<[u8; 32]>, ReadError> {
        if let Some(result) = self.passed.get() {
            return result.clone().map(Some);
        }
        let (mut sha256, mut crc32) = (Sha256::default(), crc32fast::Hasher::new());
        read_all(&*self.bytes, |piece| {
            sha256.update(piece);
            crc32.update(piece);
        })?;
        self.resources.counters.bytes_hashed.add(self.bytes.size());
        let passed = self.passed.get_or_init(|| {
            if crc32.finalize() == self.crc32 {
                return Ok(sha256.finish());
            }
            let error = ReadError::damaged(&self.entry.label(), WRONG_CRC32);
            damage::remember(&self.resources, &self.identity, &error);
            Err(error)
        });
        passed.clone().map(Some)
    }
}
