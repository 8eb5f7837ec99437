//! Where the bytes of an archive come from.

use std::borrow::Cow;
use std::io;

use crate::error::Error;

/// Bytes of a fixed length that can be read at any offset, from any thread.
pub trait Source: Send + Sync {
    /// Length in bytes. It never changes.
    fn size(&self) -> u64;

    /// Fills `buffer` with the bytes that start at `offset`. Fails unless there are as many.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// The bytes themselves, for a source that has them in memory. `None` outside of it.
    fn borrow(&self, _offset: u64, _length: usize) -> Option<&[u8]> {
        None
    }

    /// Fails if the bytes are not the ones any more that were there at first.
    fn check(&self) -> io::Result<()> {
        Ok(())
    }
}

/// `length` bytes from `offset`, borrowed if the source can. The caller bounds `length`.
pub(crate) fn bytes(source: &impl Source, offset: u64, length: usize) -> Result<Cow<'_, [u8]>, Error> {
    if let Some(bytes) = source.borrow(offset, length) {
        return Ok(Cow::Borrowed(bytes));
    }
    let mut bytes = reserved(length)?;
    bytes.resize(length, 0);
    source.read_at(offset, &mut bytes)?;
    Ok(Cow::Owned(bytes))
}

/// An empty vector with room for `length` elements.
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
