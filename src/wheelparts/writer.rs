//! Ropes of text and binary records with fields that are filled in later.

use std::mem;
use std::sync::Arc;

use super::digest::{Deferred, Digest};
use crate::rope::{Content, ReadError, Rope, Segment};
use crate::wheel::sha256_text;

/// Builds a rope. Adjacent literals become one segment.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    segments: Vec<Segment>,
    literal: Vec<u8>,
    pub(super) position: u64,
}

impl Writer {
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.literal.extend_from_slice(bytes);
        self.position = self.position.saturating_add(bytes.len() as u64);
    }

    pub(crate) fn content(&mut self, content: Arc<dyn Content>) {
        self.flush();
        self.position = self.position.saturating_add(content.size());
        self.segments.push(Segment::whole(content));
    }

    /// The SHA-256 as text.
    pub(crate) fn sha256(&mut self, digest: &Arc<Digest>) {
        match digest.known_sha256() {
            Some(sha256) => self.put(&sha256_text(&sha256)),
            None => self.content(Arc::new(Deferred::Sha256(Arc::clone(digest)))),
        }
    }

    /// The CRC-32 as four bytes.
    pub(crate) fn crc32(&mut self, digest: &Arc<Digest>) {
        match digest.known_crc32() {
            Some(crc32) => self.put(&crc32.to_le_bytes()),
            None => self.content(Arc::new(Deferred::Crc32(Arc::clone(digest)))),
        }
    }

    pub(crate) fn finish(mut self) -> Result<Rope, ReadError> {
        self.flush();
        Rope::new(self.segments)
    }

    fn flush(&mut self) {
        if !self.literal.is_empty() {
            self.segments.push(Segment::literal(mem::take(&mut self.literal)));
        }
    }
}
