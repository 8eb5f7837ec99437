//! What reading a member has shown about it. This stays when the member is closed.

use super::damage::StreamDamage;

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub(super) struct MemberFacts {
    /// SHA-256 of the content, if it was computed.
    pub(super) sha256: Option<[u8; 32]>,
    /// Whether a pass over the whole content has found its size and CRC-32 right.
    pub(super) is_passed: bool,
    /// Bytes that were inflated of it. They are no reason to keep the facts.
    pub(super) inflated: u64,
    /// What is wrong with it. Boxed, since few members are damaged.
    pub(super) damage: Option<Box<StreamDamage>>,
}

impl MemberFacts {
    /// `None` if nothing is known.
    pub(super) fn into_box(self) -> Option<Box<Self>> {
        let is_empty = self.sha256.is_none() && !self.is_passed && self.damage.is_none();
        (!is_empty).then(|| Box::new(self))
    }
}
