//! Disassembles the file of an index and assembles it again: the magic, a block for the header, and blocks for records.

#![allow(dead_code, reason = "each fuzz target takes what it needs")]

use std::fs;
use std::path::Path;

use kpackfs::rope::Xxh3;

use super::support::Random;

const MAGIC: &[u8; 8] = b"KPFSIDX\n";

/// Bytes of a block before its frame.
const HEAD: usize = 45;

/// Bytes of the head of a record.
const RECORD: usize = 21;

/// The most bytes that are read.
const MOST: usize = 64 << 20;

/// The contents of the blocks of an index. The first one is the header. The head of a large record is left out.
pub(crate) fn open(file: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut rest = file.strip_prefix(MAGIC)?;
    let mut contents = Vec::new();
    while !rest.is_empty() {
        let length = usize::try_from(u32::from_le_bytes(*rest.first_chunk()?)).ok()?;
        contents.push(zstd::bulk::decompress(rest.get(HEAD..HEAD + length)?, MOST).ok()?);
        rest = rest.get(HEAD + length..)?;
    }
    Some(contents)
}

/// An index whose blocks have these contents.
pub(crate) fn close(contents: &[&[u8]]) -> Vec<u8> {
    let mut file = MAGIC.to_vec();
    let mut first = [0; 16];
    for content in contents {
        let frame = zstd::bulk::compress(content, 1).expect("memory");
        let block = block(&first, file.len(), content.len(), &frame);
        if file.len() == MAGIC.len() {
            first.copy_from_slice(&block[8..24]);
        }
        file.extend(block);
    }
    file
}

/// The block at an offset, with a right sum. `first` is the sum of the first one.
pub(crate) fn block(first: &[u8; 16], at: usize, size: usize, frame: &[u8]) -> Vec<u8> {
    record_block(first, at, size, &[0; RECORD], frame)
}

/// The same of a large record with this head.
pub(crate) fn record_block(first: &[u8; 16], at: usize, size: usize, record: &[u8; RECORD], frame: &[u8]) -> Vec<u8> {
    let [length, size] = [frame.len(), size].map(|length| u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
    let sum = Xxh3::of(&[&first[..], &(at as u64).to_le_bytes(), &length, &size, record, frame].concat());
    [&length[..], &size, &sum, record, frame].concat()
}

/// Changes some bytes after the header, and corrects the checksum.
pub(crate) fn damage(index: &Path, random: &mut Random) {
    let mut contents = open(&fs::read(index).expect("it was saved")).expect("it is whole");
    let (_header, records) = contents.split_first_mut().expect("it has a header");
    if records.is_empty() {
        return;
    }
    for _ in 0..=random.below(4) {
        let which = usize::try_from(random.below(records.len() as u64)).expect("in memory");
        let body = &mut records[which];
        let at = usize::try_from(random.below(body.len() as u64)).expect("in memory");
        body[at] = match random.next() % 3 {
            0 => body[at].wrapping_add(1),
            1 => body[at] ^ (1 << (random.next() % 8)),
            _ => random.next().to_le_bytes()[0],
        };
    }
    let contents: Vec<_> = contents.iter().map(Vec::as_slice).collect();
    fs::write(index, close(&contents)).expect("a file can be written");
}
