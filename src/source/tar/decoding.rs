//! What the decoders of compressed archives have in common: how large a content may be, and errors with their place.

use std::io::{self, Read};
use std::path::Path;

use super::super::SourceError;
use crate::resources::Resources;

/// Bytes read at a time.
pub(super) const PIECE: usize = 256 << 10;

/// An archive that unpacks to more than [`MIN_SUSPECT`] bytes, and to more than this many times its size, is not
/// unpacked unless the user wants it: its content is the same few bytes over and over. Real archives of ROCm shrink 3 to
/// 30 times.
const MAX_RATIO: u64 = 1000;
const MIN_SUSPECT: u64 = 1 << 30;

/// The error of an archive that cannot be read.
pub(super) fn unusable(location: &Path, error: &io::Error) -> SourceError {
    SourceError::NotATar { path: location.to_owned(), reason: error.to_string() }
}

/// Fails if an archive that has unpacked to `unpacked` bytes so far is not wanted.
pub(super) fn check_ratio(
    location: &Path,
    unpacked: u64,
    packed: u64,
    resources: &Resources,
) -> Result<(), SourceError> {
    let is_wanted = resources.store.scratch.allows_any_ratio || !is_suspect(unpacked, packed);
    if is_wanted {
        Ok(())
    } else {
        Err(SourceError::Ratio { path: location.to_owned(), size: packed, most: MAX_RATIO })
    }
}

/// See [`MAX_RATIO`].
pub(super) fn is_suspect(unpacked: u64, packed: u64) -> bool {
    unpacked > MIN_SUSPECT.max(packed.saturating_mul(MAX_RATIO))
}

/// A stream whose errors say where it is damaged: after how many bytes of its content.
pub(super) struct Located<R> {
    stream: R,
    pub(super) at: u64,
}

impl<R> Located<R> {
    pub(super) fn new(stream: R) -> Self {
        Self { stream, at: 0 }
    }
}

impl<R: Read> Read for Located<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.stream.read(buffer).map_err(|error| located(&error, self.at))?;
        self.at = self.at.saturating_add(count as u64);
        Ok(count)
    }
}

/// An error with its place: after how many bytes of the content.
pub(super) fn located(error: &io::Error, at: u64) -> io::Error {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        return io::Error::new(
            error.kind(),
            format!("it ends after {at} bytes of its content: it is truncated; get it again"),
        );
    }
    io::Error::new(error.kind(), format!("after {at} bytes of its content: {error}"))
}
