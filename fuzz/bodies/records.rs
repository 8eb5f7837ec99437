//! Disassembles the file of an index and assembles it again: the magic, a checksum, and a zstd frame.

#![allow(dead_code, reason = "each fuzz target takes what it needs")]

use std::fs;
use std::path::Path;

use kpackfs::rope::Identity;

use crate::support::Random;

const MAGIC: &[u8; 8] = b"KPFSIDX\n";

/// The most bytes that are read.
const MOST: usize = 64 << 20;

/// The content of an index.
pub(crate) fn open(file: &[u8]) -> Option<Vec<u8>> {
    let (_checksum, frame) = file.strip_prefix(MAGIC)?.split_first_chunk::<16>()?;
    zstd::bulk::decompress(frame, MOST).ok()
}

/// An index with this content.
pub(crate) fn close(body: &[u8]) -> Vec<u8> {
    let frame = zstd::bulk::compress(body, 1).expect("memory");
    let checksum = Identity::describe("index").add(&frame).finish().0;
    [MAGIC, &checksum[..], &frame].concat()
}

/// The header of an index, including its length.
pub(crate) fn header(body: &[u8]) -> Option<&[u8]> {
    let length = u32::from_le_bytes(*body.first_chunk()?);
    body.get(..usize::try_from(length).ok()?.checked_add(4)?)
}

/// Changes some bytes after the header, and corrects the checksum.
pub(crate) fn damage(index: &Path, random: &mut Random) {
    let mut body = open(&fs::read(index).expect("it was saved")).expect("it is whole");
    let start = header(&body).expect("it is whole").len();
    if start == body.len() {
        return;
    }
    for _ in 0..=random.below(4) {
        let at = start + usize::try_from(random.below((body.len() - start) as u64)).expect("in memory");
        body[at] = match random.next() % 3 {
            0 => body[at].wrapping_add(1),
            1 => body[at] ^ (1 << (random.next() % 8)),
            _ => random.next().to_le_bytes()[0],
        };
    }
    fs::write(index, close(&body)).expect("a file can be written");
}
