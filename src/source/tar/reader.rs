//! A content as a stream of bytes.

use std::cell::Cell;
use std::io::{self, Read, Seek, SeekFrom};
use std::rc::Rc;
use std::sync::Arc;

use crate::rope::{Content, to_usize};

/// The most bytes of the headers of a member, which are held in memory.
pub(super) const MAX_HEADER: u64 = 1 << 20;

/// Reads a content sequentially.
pub(super) struct ContentReader {
    content: Arc<dyn Content>,
    at: u64,
    /// The bytes that may still be read; `None` for no limit.
    pub(super) allowance: Option<Rc<Cell<u64>>>,
    /// Set when bytes behind the end were asked for.
    pub(super) is_at_end: Rc<Cell<bool>>,
}

impl ContentReader {
    pub(super) fn new(content: &Arc<dyn Content>) -> Self {
        Self { content: Arc::clone(content), at: 0, allowance: None, is_at_end: Rc::default() }
    }

    fn spend(&self, count: usize) -> io::Result<()> {
        let Some(allowance) = &self.allowance else { return Ok(()) };
        let rest = allowance.get().checked_sub(count as u64);
        let rest = rest.ok_or_else(|| io::Error::other(format!("a header of more than {MAX_HEADER} bytes")))?;
        allowance.set(rest);
        Ok(())
    }
}

impl Read for ContentReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = self.content.size().saturating_sub(self.at);
        let count = to_usize(rest).min(buffer.len());
        self.spend(count)?;
        self.is_at_end.set(count == 0 && !buffer.is_empty());
        // A seek may lead behind the end, as over the padding that the last member lacks.
        if count == 0 {
            return Ok(0);
        }
        let buffer = buffer.get_mut(..count).unwrap_or_default();
        self.content.read_at(self.at, buffer).map_err(io::Error::other)?;
        self.at += count as u64;
        Ok(count)
    }
}

impl Seek for ContentReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.at = sought(to, self.at, self.content.size())?;
        Ok(self.at)
    }
}

/// The offset to which a seek leads from `at`.
pub(in crate::source) fn sought(to: SeekFrom, at: u64, size: u64) -> io::Result<u64> {
    let to = match to {
        SeekFrom::Start(to) => Some(to),
        SeekFrom::End(by) => size.checked_add_signed(by),
        SeekFrom::Current(by) => at.checked_add_signed(by),
    };
    to.ok_or_else(|| io::ErrorKind::InvalidInput.into())
}
