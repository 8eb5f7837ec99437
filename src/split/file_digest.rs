//! The digests of files in manifests.

use crate::rope::{Content, ReadError, Sha256, Xxh3, read_all};

/// How the digests of files are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileDigest {
    /// SHA-256, as in RECORD.
    Sha256,
    /// XXH3-128: it finds damage, but nothing that was forged.
    #[default]
    Xxh3,
}

impl FileDigest {
    /// Its name in manifests.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Xxh3 => "xxh3-128",
        }
    }

    /// The digest of a content.
    pub fn of(self, content: &dyn Content) -> Result<Vec<u8>, ReadError> {
        match self {
            Self::Sha256 => {
                let mut sum = Sha256::default();
                read_all(content, |piece| sum.update(piece))?;
                Ok(sum.finish().to_vec())
            }
            Self::Xxh3 => {
                let mut sum = Xxh3::default();
                read_all(content, |piece| sum.update(piece))?;
                Ok(sum.finish().to_vec())
            }
        }
    }

    /// Bytes of a digest.
    pub fn size(self) -> usize {
        match self {
            Self::Sha256 => 32,
            Self::Xxh3 => 16,
        }
    }
}
