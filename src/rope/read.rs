//! Reading contents from the beginning to the end.

use std::fs::File;
use std::ops::Range;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

use super::content::PositionedReader;
use super::{Content, InOrderReader, ReadError, head_mut, to_usize};

/// Bytes read at a time: few enough to be in the processor's cache when they are used, and for each thread to have as many.
const STEP: usize = 256 << 10;

/// Bytes that are compared at a time. Bundles that differ do so in their first bytes, where their tables are.
const COMPARED: usize = 64 << 10;

/// Passes all bytes of a content to `take`, in pieces. The content may be larger than the memory.
pub fn read_all(content: &dyn Content, take: impl FnMut(&[u8])) -> Result<(), ReadError> {
    read_range(content, 0..content.size(), take)
}

/// Passes a range of a content to `take`, in pieces. `take` must not wait for memory; see [`super::InOrderReader`].
pub fn read_range(content: &dyn Content, range: Range<u64>, mut take: impl FnMut(&[u8])) -> Result<(), ReadError> {
    let mut reader = content.reader(range.start);
    let pass = |piece: &[u8]| {
        take(piece);
        Ok(())
    };
    in_pieces(range.end.saturating_sub(range.start), |piece| reader.read(piece), pass)
}

/// Passes `length` bytes to `take`, in pieces that `read` fills.
pub(crate) fn in_pieces<E>(
    length: u64,
    mut read: impl FnMut(&mut [u8]) -> Result<(), E>,
    mut take: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut buffer = vec![0; to_usize(length).min(STEP)];
    let mut left = length;
    while left > 0 {
        let piece = head_mut(&mut buffer, to_usize(left).min(STEP));
        read(piece)?;
        take(piece)?;
        left -= piece.len() as u64;
    }
    Ok(())
}

/// Bytes that are compared before holes are looked for again. Shorter files are read as a whole.
const RUN: u64 = 64 << 20;

/// Whether two contents have the same bytes. Of long files, what is a hole in both is not read.
pub fn equal(a: &dyn Content, b: &dyn Content) -> Result<bool, ReadError> {
    if a.size() != b.size() {
        return Ok(false);
    }
    let (contents, size) = ([a, b], a.size());
    let open = |content: &dyn Content| content.backing().filter(|_| size > RUN).and_then(|file| file.open().ok());
    let files = contents.map(open);
    let mut at = 0;
    loop {
        at = files.iter().map(|file| next_stored(file.as_ref(), at, size)).min().unwrap_or(at);
        if at >= size {
            return Ok(true);
        }
        // Their own readers may hold memory of one class each, for which one of them would wait.
        let readers = contents.map(|content| Box::new(PositionedReader { content, at }) as Box<dyn InOrderReader>);
        let run = RUN.min(size - at);
        if !are_equal(readers, run)? {
            return Ok(false);
        }
        at += run;
    }
}

/// The place of the next bytes of a file that are stored, from a place on; its size if only a hole follows.
fn next_stored(file: Option<&File>, at: u64, size: u64) -> u64 {
    let Some(file) = file.filter(|_| at < size) else { return at };
    match seek(file, SeekFrom::Data(at)) {
        Ok(next) => next.clamp(at, size),
        Err(Errno::NXIO) => size,
        // The file system knows of no holes.
        Err(_) => at,
    }
}

/// Whether the next `length` bytes of two readers are equal.
pub(crate) fn are_equal(
    [mut left, mut right]: [Box<dyn InOrderReader + '_>; 2],
    length: u64,
) -> Result<bool, ReadError> {
    let mut buffers = [(); 2].map(|()| vec![0; to_usize(length).min(COMPARED)]);
    let mut rest = length;
    while rest > 0 {
        let here = to_usize(rest).min(COMPARED);
        let [mine, others] = buffers.each_mut().map(|buffer| head_mut(buffer, here));
        left.read(mine)?;
        right.read(others)?;
        if mine != others {
            return Ok(false);
        }
        rest -= here as u64;
    }
    Ok(true)
}
