//! Files that are read in pieces, since they may be large.

use std::io::{self, BufRead, BufReader};
use std::path::Path;

use crate::disk;

/// Bytes that are read at a time.
const PIECE: usize = 256 << 10;

/// Hands all bytes of a file to `take`, in pieces.
pub(super) fn read_pieces(path: &Path, mut take: impl FnMut(&[u8])) -> io::Result<()> {
    let mut file = BufReader::with_capacity(PIECE, disk::open(path)?.0);
    while let piece @ [_, ..] = file.fill_buf()? {
        take(piece);
        let length = piece.len();
        file.consume(length);
    }
    Ok(())
}
