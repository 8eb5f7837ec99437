//! A bound on the work for what looks like device code.

use std::cell::Cell;

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
        Self { rest: Cell::new(size.saturating_mul(32).saturating_add(16 << 20)) }
    }

    /// Takes what something costs. `None` if that is more than the rest.
    pub(super) fn spend(&self, bytes: u64) -> Option<()> {
        let rest = self.rest.get().checked_sub(bytes);
        self.rest.set(rest.unwrap_or(0));
        rest.map(drop)
    }

    /// Whether a search stopped early.
    pub fn is_spent(&self) -> bool {
        self.rest.get() == 0
    }
}
