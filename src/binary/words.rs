//! Words of memory as it is when a file is loaded.

use super::BinaryError;

/// Bytes of memory that are read at a time.
pub(super) const WINDOW: u64 = 64 << 10;

/// A part of memory, from which neighbouring words are read.
#[derive(Default)]
pub(super) struct WordWindow {
    /// The address of the first byte.
    start: u64,
    bytes: Vec<u8>,
}

impl WordWindow {
    /// The word of `width` bytes at an address; `None` if memory is shorter. What is not held is filled with memory from this address on.
    pub(super) fn word(
        &mut self,
        address: u64,
        width: u8,
        fill: impl FnOnce() -> Result<Vec<u8>, BinaryError>,
    ) -> Result<Option<u64>, BinaryError> {
        if self.held(address, width).is_none() {
            (self.start, self.bytes) = (address, fill()?);
        }
        Ok(self.held(address, width))
    }

    fn held(&self, address: u64, width: u8) -> Option<u64> {
        let at = usize::try_from(address.checked_sub(self.start)?).ok()?;
        let bytes = self.bytes.get(at..at.checked_add(width.into())?)?;
        let mut word = [0; 8];
        word.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(u64::from_le_bytes(word))
    }
}
