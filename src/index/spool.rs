//! A file without a name that keeps compressed code objects until they are written where they belong: an archive's size
//! and digest stand before it, and are known only when all of it is made. The file goes with whoever holds it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that were put aside, by their offset.
#[derive(Debug)]
pub struct Spool {
    file: File,
    /// What it is, for messages.
    name: Arc<str>,
    end: AtomicU64,
}

impl Spool {
    /// An empty one on the disk that holds `directory`.
    pub fn new(directory: &Path) -> io::Result<Self> {
        let name = format!("a temporary file in {}", directory.display()).into();
        Ok(Self { file: tempfile::tempfile_in(directory)?, name, end: AtomicU64::new(0) })
    }

    /// What it is, for messages.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Puts bytes aside; their offset.
    pub fn put(&self, bytes: &[u8]) -> io::Result<u64> {
        let offset = self.end.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.file.write_all_at(bytes, offset)?;
        Ok(offset)
    }

    /// Fills `buffer` with what was put aside at `offset`.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }
}
