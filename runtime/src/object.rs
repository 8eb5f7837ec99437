//! A code object that was found in an archive, but not read yet.

use std::borrow::Cow;
use std::mem::MaybeUninit;

use crate::error::{Error, malformed};
use crate::format::Scheme;
use crate::frame;
use crate::source::{self, Source};
use crate::toc::Blob;

/// The largest code object that is read, in bytes. AMDGPU code is addressed by signed 32-bit offsets, so none is
/// larger.
pub const MAX_OBJECT_SIZE: u64 = 1 << 31;

/// A code object of known length. It was checked that the stored bytes can become that many bytes.
pub(crate) struct Object<'a, S> {
    source: &'a S,
    size: usize,
    stored: Stored<'a>,
}

enum Stored<'a> {
    Plain(u64),
    Frame(Cow<'a, [u8]>),
}

impl<'a, S: Source> Object<'a, S> {
    pub(crate) fn new(source: &'a S, scheme: Scheme, blob: Blob, original_size: u64) -> Result<Self, Error> {
        let size = usize::try_from(original_size).ok().filter(|_| original_size <= MAX_OBJECT_SIZE);
        let size = size.ok_or_else(|| malformed(format!("a code object of {original_size} bytes is too large")))?;
        let stored = match scheme {
            Scheme::None if blob.size == original_size => Stored::Plain(blob.offset),
            Scheme::None => {
                return Err(Error::Frame(format!("a code object has {} bytes instead of {original_size}", blob.size)));
            }
            Scheme::ZstdPerKernel => {
                let length = usize::try_from(blob.size).map_err(|_| malformed("a frame is too large"))?;
                let frame = source::bytes(source, blob.offset, length)?;
                frame::check(&frame, original_size)?;
                Stored::Frame(frame)
            }
        };
        Ok(Self { source, size, stored })
    }

    /// Its length in bytes.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Writes the code object to memory of exactly its size, and returns that memory initialized.
    pub(crate) fn write_to<'b>(&self, code: &'b mut [MaybeUninit<u8>]) -> Result<&'b mut [u8], Error> {
        match &self.stored {
            Stored::Plain(offset) => source::read_at(self.source, *offset, code),
            Stored::Frame(frame) => frame::decompress(frame, code),
        }
    }
}
