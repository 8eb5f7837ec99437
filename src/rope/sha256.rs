//! SHA-256 of bytes that come piece by piece.

use ring::digest::{Context, SHA256};

use super::content::Content;
use super::error::ReadError;
use super::read::read_all;

/// A SHA-256 that is being computed.
#[derive(Clone, derive_more::Debug)]
#[debug("Sha256")]
pub struct Sha256(Context);

impl Default for Sha256 {
    fn default() -> Self {
        Self(Context::new(&SHA256))
    }
}

impl Sha256 {
    /// The sum of these bytes.
    pub fn of(bytes: &[u8]) -> [u8; 32] {
        let mut sum = Self::default();
        sum.update(bytes);
        sum.finish()
    }

    /// The sum of a content, all of which is read.
    pub fn of_content(content: &dyn Content) -> Result<[u8; 32], ReadError> {
        Self::of_content_counted(content, |_| {})
    }

    /// The same. `count` is called with the number of bytes of each piece that was read.
    pub fn of_content_counted(content: &dyn Content, mut count: impl FnMut(u64)) -> Result<[u8; 32], ReadError> {
        let mut sum = Self::default();
        read_all(content, |piece| {
            sum.update(piece);
            count(piece.len() as u64);
        })?;
        Ok(sum.finish())
    }

    /// Adds the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The sum of all of them.
    pub fn finish(self) -> [u8; 32] {
        let mut sum = [0; 32];
        sum.copy_from_slice(self.0.finish().as_ref());
        sum
    }
}
