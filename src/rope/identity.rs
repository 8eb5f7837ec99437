//! A content's identity: a hash of what it is made of, in 16 bytes.

use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};

use super::head;

/// Identifies a content across sessions without reading it. Two contents have the same identity only if they are made
/// of the same bytes of the same unchanged files in the same way. A fact that is recorded about one of them therefore
/// holds for the other.
///
/// It is the first half of a SHA-256 over a description, so a crafted file cannot take the identity of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Identity(pub [u8; 16]);

/// Describes a content field by field. A copy describes one that begins alike.
#[derive(Clone, derive_more::Debug)]
#[debug("Identifier")]
pub struct Identifier(Context);

impl Identity {
    /// Begins the description of a kind of content.
    pub fn describe(kind: &str) -> Identifier {
        let mut identifier = Identifier(Context::new(&SHA256));
        identifier.add(kind.as_bytes());
        identifier
    }
}

impl Identifier {
    /// Adds a field of any length.
    pub fn add(&mut self, field: &[u8]) -> &mut Self {
        self.number(field.len() as u64);
        self.0.update(field);
        self
    }

    /// Adds a number.
    pub fn number(&mut self, number: u64) -> &mut Self {
        self.numbers([number])
    }

    /// Adds numbers one after the other.
    pub fn numbers<const COUNT: usize>(&mut self, numbers: [u64; COUNT]) -> &mut Self {
        self.0.update(numbers.map(u64::to_le_bytes).as_flattened());
        self
    }

    /// The identity of what was described so far.
    pub fn finish(&self) -> Identity {
        let digest = self.0.clone().finish();
        let mut identity = Identity([0; 16]);
        identity.0.copy_from_slice(head(digest.as_ref(), 16));
        identity
    }
}
