//! Writes the bytes of one file. Ranges of other files are shared with them or copied by the kernel, and zeros become
//! holes. Everything else goes through a buffer.

use std::fs::{File, Metadata};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

use super::error::{ExportError, at, published, reading};
use super::sharing::{Reflink, Sharing, SystemCalls, Way};
use crate::disk::write_at;
use crate::rope::{Backing, Content, Extent, ExtentSource, InPassing, ReadError, to_usize};
use crate::split::{FileSum, PassingSum};

/// Bytes that are read and written at a time, and those that the kernel copies if their digest is wanted: few enough to be
/// in the processor's cache when they are hashed. Each thread has a buffer of as many.
const STEP: u64 = 256 << 10;

/// The fewest bytes that the kernel is asked to copy. For fewer, that takes longer than reading and writing them.
const LEAST_COPIED: u64 = 64 << 10;

/// Ranges of files with fewer bytes than this are read and written, except for the end of a file: the blocks of most
/// filesystems are not smaller, so that nothing of these can be shared, and they have no holes.
const LEAST_SHARED: u64 = 4 << 10;

/// Bytes that the kernel copies at a time, so that progress is visible.
const KERNEL_STEP: u64 = 64 << 20;

/// A file that is being written.
struct TargetFile<'a, K> {
    content: &'a dyn Content,
    file: &'a File,
    /// Its path in errors.
    path: &'a Path,
    device: u64,
    /// Bytes of a block of its filesystem.
    block: u64,
    sharing: &'a Sharing<K>,
    /// Takes all bytes in order, if their digest is wanted.
    passing: Option<PassingSum<'a>>,
    buffer: Vec<u8>,
    /// The end of the last byte that was written.
    end: u64,
}

/// An open file of the input.
struct InputFile<'a> {
    backing: &'a dyn Backing,
    file: File,
    device: u64,
    size: u64,
    has_holes: bool,
}

/// A range of a file of the input, and its place in the new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    from: u64,
    to: u64,
    length: u64,
}

/// Writes a content to an empty file with this metadata, and computes its digest for `sum`. `path` names it in errors.
/// Adds the bytes to `done`.
pub(super) fn write<K: SystemCalls>(
    content: &dyn Content,
    sum: Option<&FileSum>,
    file: &File,
    metadata: &Metadata,
    path: &Path,
    sharing: &Sharing<K>,
    done: &AtomicU64,
) -> Result<(), ExportError> {
    let block = metadata.blksize().max(1);
    let (device, buffer) = (metadata.dev(), Vec::new());
    let passing = sum.map(|sum| sum.pass(content));
    let mut target = TargetFile { content, file, path, device, block, sharing, passing, buffer, end: 0 };
    let mut input: Option<InputFile<'_>> = None;
    let mut to = 0;
    for Extent { length, source } in merged(content.extents(0, content.size())) {
        match source {
            ExtentSource::Zeros => target.pass_zeros(length),
            ExtentSource::Read => {
                let mut reader = content.reader(to);
                target.write_read(to, length, |_, piece| reader.read(piece))?;
            }
            ExtentSource::File { file, offset } => {
                if !input.as_ref().is_some_and(|input| std::ptr::addr_eq(input.backing, file)) {
                    input.iter().try_for_each(InputFile::check).map_err(reading(path))?;
                    input = Some(InputFile::open(file).map_err(reading(path))?);
                }
                if let Some(input) = &input {
                    target.write_range(input, Range { from: offset, to, length })?;
                }
            }
        }
        to += length;
        done.fetch_add(length, Ordering::Relaxed);
    }
    if target.end < content.size() {
        // The rest is a hole.
        file.set_len(content.size()).map_err(at(path))?;
    }
    // Checked after the last byte, so that bytes of a changed file are never kept.
    input.iter().try_for_each(InputFile::check).map_err(reading(path))?;
    target.passing.into_iter().for_each(PassingSum::finish);
    Ok(())
}

/// The extents of a content with fewer boundaries: those that are read are joined up to `STEP`, also with short ranges of
/// files. Each extent takes a system call at least, and wheels have several for each member. The last range stays: its end
/// may be shared if it is that of its file, too.
fn merged(mut extents: Vec<Extent<'_>>) -> Vec<Extent<'_>> {
    let end = extents.pop_if(|last| matches!(last.source, ExtentSource::File { .. }));
    // In place: a wheel of 200,000 members has several times as many extents.
    extents.dedup_by(|next, joined| {
        let is_read = match next.source {
            ExtentSource::Read => true,
            ExtentSource::File { .. } => next.length < LEAST_SHARED,
            ExtentSource::Zeros => false,
        };
        let is_joined = is_read && matches!(joined.source, ExtentSource::Read) && joined.length + next.length <= STEP;
        if is_joined {
            joined.length += next.length;
        }
        is_joined
    });
    extents.extend(end);
    extents
}

impl<'a> InputFile<'a> {
    fn open(backing: &'a dyn Backing) -> Result<Self, ReadError> {
        let file = backing.open()?;
        let metadata = file.metadata().map_err(|source| ReadError::io(&"input".into(), source))?;
        // `st_blocks` counts 512 bytes each (inode(7)).
        let has_holes = metadata.blocks().saturating_mul(512) < metadata.size();
        Ok(Self { backing, file, device: metadata.dev(), size: metadata.size(), has_holes })
    }

    fn check(&self) -> Result<(), ReadError> {
        self.backing.check(&self.file)
    }

    /// The parts of a range that are not holes.
    fn data(&self, range: Range) -> Vec<Range> {
        if !self.has_holes {
            return vec![range];
        }
        let end = range.from + range.length;
        let (mut parts, mut at) = (Vec::new(), range.from);
        while at < end {
            let start = match seek(&self.file, SeekFrom::Data(at)) {
                Ok(start) => start,
                // No data follows.
                Err(Errno::NXIO) => break,
                // The filesystem does not support it.
                Err(_) => at,
            };
            let stop =
                seek(&self.file, SeekFrom::Hole(start)).ok().filter(|&stop| stop > start).unwrap_or(end).min(end);
            if start >= end {
                break;
            }
            parts.push(Range { from: start, to: range.to + (start - range.from), length: stop - start });
            at = stop;
        }
        parts
    }
}

impl Range {
    /// The part that consists of whole blocks on both sides, if both are equally aligned. The last block of a file may
    /// be incomplete if it becomes the last one of the other file (`ioctl_ficlonerange(2)`).
    fn whole_blocks(self, block: u64, is_end_of_both: bool) -> Option<Self> {
        if self.from % block != self.to % block {
            return None;
        }
        let skipped = self.from.next_multiple_of(block) - self.from;
        let end = self.from + self.length;
        let end = if is_end_of_both { end } else { end / block * block };
        let length = end.checked_sub(self.from + skipped).filter(|&length| length > 0)?;
        Some(Self { from: self.from + skipped, to: self.to + skipped, length })
    }

    /// The ranges before and after a part of it.
    fn around(self, part: Self) -> [Self; 2] {
        let before = Self { length: part.from - self.from, ..self };
        let skipped = before.length + part.length;
        [before, Self { from: self.from + skipped, to: self.to + skipped, length: self.length - skipped }]
    }
}

impl<K: SystemCalls> TargetFile<'_, K> {
    /// Writes a range of a file of the input.
    fn write_range(&mut self, input: &InputFile<'_>, range: Range) -> Result<(), ExportError> {
        let is_end_of_both = range.from + range.length == input.size && range.to + range.length == self.content.size();
        let shared = range.whole_blocks(self.block, is_end_of_both);
        let shared = shared.map(|part| Ok(self.share(input, part)?.then_some(part))).transpose()?.flatten();
        match shared {
            Some(part) => {
                let [before, after] = range.around(part);
                self.copy(input, before)?;
                self.pass(input, part)?;
                self.copy(input, after)
            }
            None => self.copy(input, range),
        }
    }

    /// Shares the blocks of a range with the input. `false` if that is not possible.
    fn share(&mut self, input: &InputFile<'_>, range: Range) -> Result<bool, ExportError> {
        let Sharing { kernel, .. } = self.sharing;
        let pair = (input.device, self.device);
        if !self.sharing.may(Way::Share, pair) {
            return Ok(false);
        }
        match kernel.share(&input.file, range.from, self.file, range.to, range.length) {
            Ok(()) => {
                self.reaches(range.to + range.length);
                Ok(true)
            }
            Err(error) if self.sharing.reflink == Reflink::Always => {
                let source = std::io::Error::from(error);
                Err(ExportError::NotShared { path: published(self.path), source })
            }
            Err(error) => self.sharing.falls_back(Way::Share, pair, error).map(|()| false).map_err(at(self.path)),
        }
    }

    /// Copies a range except for its holes.
    fn copy(&mut self, input: &InputFile<'_>, range: Range) -> Result<(), ExportError> {
        if range.length == 0 {
            return Ok(());
        }
        let mut end = range.to;
        for part in input.data(range) {
            self.pass_zeros(part.to - end);
            end = part.to + part.length;
            let copied = self.copy_in_kernel(input, part)?;
            self.reaches(part.to + copied);
            let content = self.content;
            // Reading through the content would open the file again. The content is needed to name unreadable bytes.
            self.write_read(part.to + copied, part.length - copied, |offset, piece| {
                let read = input.file.read_exact_at(piece, part.from + (offset - part.to));
                read.or_else(|_| content.read_at(offset, piece))
            })?;
        }
        self.pass_zeros(range.to + range.length - end);
        Ok(())
    }

    /// Copies a range in the kernel. Returns the number of bytes copied.
    fn copy_in_kernel(&mut self, input: &InputFile<'_>, range: Range) -> Result<u64, ExportError> {
        let pair = (input.device, self.device);
        if range.length < LEAST_COPIED || !self.sharing.may(Way::Copy, pair) {
            return Ok(0);
        }
        let step = if self.passing.is_some() { STEP } else { KERNEL_STEP };
        let mut copied = 0;
        while copied < range.length {
            let length = (range.length - copied).min(step);
            let result =
                self.sharing.kernel.copy(&input.file, range.from + copied, self.file, range.to + copied, length);
            match result {
                // The file has become shorter, which is noticed when it is read.
                Ok(0) => break,
                Ok(bytes) => {
                    self.pass(input, Range { from: range.from + copied, to: range.to + copied, length: bytes })?;
                    copied += bytes;
                }
                Err(Errno::INTR) => {}
                Err(error) => {
                    self.sharing.falls_back(Way::Copy, pair, error).map_err(at(self.path))?;
                    break;
                }
            }
        }
        Ok(copied)
    }

    /// Reads bytes that the kernel has shared or copied, if the digest is wanted.
    fn pass(&mut self, input: &InputFile<'_>, range: Range) -> Result<(), ExportError> {
        let Some(passing) = &mut self.passing else { return Ok(()) };
        let mut done = 0;
        while done < range.length {
            let piece = piece_of(&mut self.buffer, range.length - done);
            let read = input.file.read_exact_at(piece, range.from + done);
            read.or_else(|_| self.content.read_at(range.to + done, piece)).map_err(reading(self.path))?;
            passing.take(piece);
            done += piece.len() as u64;
        }
        Ok(())
    }

    fn pass_zeros(&mut self, length: u64) {
        self.passing.iter_mut().for_each(|passing| passing.take_zeros(length));
    }

    /// Updates the end of the last byte that was written.
    fn reaches(&mut self, end: u64) {
        self.end = self.end.max(end);
    }

    /// Writes bytes of the content. `read` reads them in order, and is passed their offset.
    fn write_read(
        &mut self,
        start: u64,
        length: u64,
        mut read: impl FnMut(u64, &mut [u8]) -> Result<(), ReadError>,
    ) -> Result<(), ExportError> {
        let end = start + length;
        let mut offset = start;
        while offset < end {
            let piece = piece_of(&mut self.buffer, end - offset);
            read(offset, piece).map_err(reading(self.path))?;
            write_at(self.file, piece, offset).map_err(at(self.path))?;
            self.passing.iter_mut().for_each(|passing| passing.take(piece));
            offset += piece.len() as u64;
            self.reaches(offset);
        }
        Ok(())
    }
}

/// The part of a buffer for the next bytes of `left`. The buffer grows to at most `STEP`.
fn piece_of(buffer: &mut Vec<u8>, left: u64) -> &mut [u8] {
    let here = to_usize(STEP.min(left));
    if buffer.len() < here {
        *buffer = vec![0; here];
    }
    buffer.split_at_mut(here).0
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
