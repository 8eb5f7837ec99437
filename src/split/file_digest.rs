//! The digests of files in manifests.

use std::sync::OnceLock;

use crate::rope::{Content, InPassing, ReadError, Sha256, Xxh3, read_all};

/// Zeros that are hashed at a time.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

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

    /// The digest of a content. `count` is called with the number of bytes of each piece that was read.
    pub fn of(self, content: &dyn Content, mut count: impl FnMut(u64)) -> Result<Vec<u8>, ReadError> {
        let sum = FileSum::new(self);
        let mut passing = sum.pass(content);
        read_all(content, |piece| {
            passing.take(piece);
            count(piece.len() as u64);
        })?;
        Ok(passing.hasher.finish())
    }

    /// Bytes of a digest.
    pub fn size(self) -> usize {
        match self {
            Self::Sha256 => 32,
            Self::Xxh3 => 16,
        }
    }
}

/// A digest that is being computed.
enum Hasher {
    Sha256(Box<Sha256>),
    Xxh3(Box<Xxh3>),
}

impl Hasher {
    fn new(digest: FileDigest) -> Self {
        match digest {
            FileDigest::Sha256 => Self::Sha256(Box::default()),
            FileDigest::Xxh3 => Self::Xxh3(Box::default()),
        }
    }

    fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(sum) => sum.update(bytes),
            Self::Xxh3(sum) => sum.update(bytes),
        }
    }

    fn finish(self) -> Vec<u8> {
        match self {
            Self::Sha256(sum) => sum.finish().to_vec(),
            Self::Xxh3(sum) => sum.finish().to_vec(),
        }
    }
}

/// The digest of a file: taken from its bytes when it is written, or computed when it is asked for.
#[derive(Debug)]
pub struct FileSum {
    digest: FileDigest,
    sum: OnceLock<Vec<u8>>,
}

impl FileSum {
    /// An unknown digest.
    pub fn new(digest: FileDigest) -> Self {
        Self { digest, sum: OnceLock::new() }
    }

    /// The digest if it is known, else that of the content.
    pub fn of(&self, content: &dyn Content) -> Result<Vec<u8>, ReadError> {
        match self.sum.get() {
            Some(sum) => Ok(sum.clone()),
            None => self.digest.of(content, |_| {}).map(|sum| self.sum.get_or_init(|| sum).clone()),
        }
    }

    /// Takes the digest from all bytes of the file, which is `content`, in order.
    pub fn pass<'a>(&'a self, content: &'a dyn Content) -> PassingSum<'a> {
        PassingSum { sum: self, hasher: Hasher::new(self.digest), passing: content.in_passing() }
    }
}

/// A digest that is computed while its file is written.
pub struct PassingSum<'a> {
    sum: &'a FileSum,
    hasher: Hasher,
    passing: Option<Box<dyn InPassing + 'a>>,
}

impl PassingSum<'_> {
    /// Takes zeros.
    pub fn take_zeros(&mut self, length: u64) {
        let mut left = length;
        while left > 0 {
            let zeros = usize::try_from(left).ok().and_then(|left| ZEROS.get(..left)).unwrap_or(&ZEROS);
            self.take(zeros);
            left -= zeros.len() as u64;
        }
    }

    /// Sets the digest, after the last byte.
    pub fn finish(self) {
        let sum = self.hasher.finish();
        self.sum.sum.get_or_init(|| sum);
    }
}

impl InPassing for PassingSum<'_> {
    fn take(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        self.passing.iter_mut().for_each(|passing| passing.take(bytes));
    }
}
