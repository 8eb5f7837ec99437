//! A bound on the work for what looks like device code.

use std::cell::Cell;
use std::io::{self, Read};
use std::sync::Arc;

use crate::resources::Resources;
use crate::rope::{Content, to_usize};

/// What each step costs at least: one that reads a few bytes takes as long as one that reads these.
const STEP: u64 = 2 << 10;

/// A limit on the bytes that are read or decompressed of what looks like code in a file. Something that looks like a
/// bundle's table may have 16 MiB, and another one may begin in each of its entries.
#[derive(Debug)]
pub struct Effort {
    rest: Cell<u64>,
}

impl Effort {
    /// Enough for all real code in a file of `size` bytes. Tables are shorter than their code. deflate makes less than 32 bytes of
    /// a byte of code, and of a zstd frame only the beginning is decompressed.
    pub fn of(size: u64) -> Self {
        Self { rest: Cell::new(size.saturating_mul(32).saturating_add(64 << 20)) }
    }

    /// Takes what something costs. `None` if that is more than the rest.
    pub(super) fn spend(&self, bytes: u64) -> Option<()> {
        let rest = self.rest.get().checked_sub(bytes.max(STEP));
        self.rest.set(rest.unwrap_or(0));
        rest.map(drop)
    }

    /// Whether a search stopped early.
    pub fn is_spent(&self) -> bool {
        self.rest.get() == 0
    }
}

/// A range of a content that is searched. Reading it costs its bytes: a decoder may read without end and decode nothing, since a
/// block of zstd may be empty, and so may one of deflate.
#[derive(Clone, Copy)]
pub(super) struct SearchedRange<'a> {
    pub(super) content: &'a Arc<dyn Content>,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) resources: &'a Arc<Resources>,
    pub(super) effort: &'a Effort,
}

impl SearchedRange<'_> {
    pub(super) fn is_whole(&self) -> bool {
        self.start == 0 && self.end == self.content.size()
    }
}

impl Read for SearchedRange<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = to_usize(self.end.saturating_sub(self.start)).min(buffer.len());
        self.effort.spend(length as u64).ok_or(io::ErrorKind::QuotaExceeded)?;
        let piece = buffer.get_mut(..length).unwrap_or_default();
        self.content.read_at(self.start, piece).map_err(io::Error::other)?;
        self.start += length as u64;
        Ok(length)
    }
}
