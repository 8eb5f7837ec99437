//! Where the bytes of an archive come from.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;

use crate::error::Error;
use crate::uninit;

/// Bytes of a fixed length that can be read at any offset, from any thread.
pub trait Source: Send + Sync {
    /// Length in bytes, which never changes.
    fn size(&self) -> u64;

    /// Fills `buffer` with the bytes from `offset` on. Fails if there are fewer.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// The bytes themselves, for a source in memory. `None` if they are not in memory, or out of range.
    fn borrow(&self, _offset: u64, _length: usize) -> Option<&[u8]> {
        None
    }

    /// The file that contains these bytes. Reading from a file needs no memory that was zeroed before.
    fn file(&self) -> Option<&File> {
        None
    }

    /// Fails if the bytes have changed since the source was opened.
    fn check(&self) -> io::Result<()> {
        Ok(())
    }
}

/// `length` bytes from `offset`, borrowed if the source can. The caller bounds `length`.
pub(crate) fn bytes(source: &impl Source, offset: u64, length: usize) -> Result<Cow<'_, [u8]>, Error> {
    if let Some(bytes) = source.borrow(offset, length) {
        return Ok(Cow::Borrowed(bytes));
    }
    uninit::vec(length, |bytes| read_at(source, offset, bytes)).map(Cow::Owned)
}

/// Fills memory that may be uninitialized.
pub(crate) fn read_at<'b>(
    source: &impl Source,
    offset: u64,
    memory: &'b mut [MaybeUninit<u8>],
) -> Result<&'b mut [u8], Error> {
    if let Some(file) = source.file() {
        return Ok(uninit::read_exact_at(file, offset, memory)?);
    }
    let bytes = uninit::zeroed(memory);
    source.read_at(offset, bytes)?;
    Ok(bytes)
}

/// An empty vector with capacity for `length` elements.
pub(crate) fn reserved<T>(length: usize) -> Result<Vec<T>, Error> {
    let mut elements = Vec::new();
    let no_memory = |_| Error::Memory(length.saturating_mul(size_of::<T>()));
    elements.try_reserve_exact(length).map_err(no_memory)?;
    Ok(elements)
}

impl Source for &[u8] {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let bytes = self.borrow(offset, buffer.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }

    fn borrow(&self, offset: u64, length: usize) -> Option<&[u8]> {
        self.get(usize::try_from(offset).ok()?..)?.get(..length)
    }
}
