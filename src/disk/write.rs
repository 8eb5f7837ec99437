//! Writing at a place of a file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes that are written at a time. Linux puts a larger write into larger folios of the page cache, for which it compacts
/// memory: on ext4 of Linux 6.18, 800 MB in pieces of 1 MiB take up to 1.5 s of CPU time, in these 0.15 s.
const PIECE: usize = 256 << 10;

/// Writes bytes at an offset.
pub(crate) fn write_at(file: &File, bytes: &[u8], mut offset: u64) -> io::Result<()> {
    for piece in bytes.chunks(PIECE) {
        file.write_all_at(piece, offset)?;
        offset = offset.saturating_add(piece.len() as u64);
    }
    Ok(())
}
