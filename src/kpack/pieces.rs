//! Reads a stored code object in pieces of a fixed size.

use std::fmt::Display;
use std::io::{self, BufReader, Read};
use std::sync::Arc;

use rocm_kpack::{Blob, Error, MAX_OBJECT_SIZE};

use crate::fatbin::{DECODER, WINDOW_LOG, window_of};
use crate::memory::Budget;
use crate::metrics::MemoryClass;
use crate::rope::{Content, ReadError, head, to_usize};

/// Bytes of a piece.
const PIECE: usize = 128 << 10;

/// Bytes of the longest header of a zstd frame, including its magic (RFC 8878, 3.1.1).
const MAX_HEADER: u64 = 18;

/// Collects the bytes of one code object and passes them on in pieces.
pub(super) struct Pieces<F> {
    sink: F,
    buffer: Vec<u8>,
    size: u64,
    done: u64,
}

impl<F: FnMut(&[u8]) -> io::Result<()>> Pieces<F> {
    /// For a code object of `size` bytes, according to the table of contents.
    pub(super) fn new(size: u64, sink: F) -> Result<Self, Error> {
        if size > MAX_OBJECT_SIZE {
            return Err(Error::Malformed(format!("a code object of {size} bytes is too large")));
        }
        Ok(Self { sink, buffer: vec![0; PIECE], size, done: 0 })
    }

    /// Copies all bytes of `source`. Fails if there are too many.
    pub(super) fn copy(&mut self, mut source: impl Read) -> Result<(), Error> {
        loop {
            let length = source.read(&mut self.buffer).map_err(failed)?;
            if length == 0 {
                return Ok(());
            }
            self.done += length as u64;
            if self.done > self.size {
                return Err(disagree(format_args!("at least {}", self.done), self.size));
            }
            (self.sink)(head(&self.buffer, length))?;
        }
    }

    /// Decompresses the zstd frames in `blob`, one after the other, as zstd's own functions do. The memory for their
    /// windows is reserved from `budget`.
    pub(super) fn decompress(
        &mut self,
        content: &Arc<dyn Content>,
        mut blob: Blob,
        budget: &Arc<Budget>,
    ) -> Result<(), Error> {
        while blob.size > 0 {
            let mut header = vec![0; to_usize(blob.size.min(MAX_HEADER))];
            content.read_at(blob.offset, &mut header).map_err(io::Error::other)?;
            let window = window_of(&header).unwrap_or(0);
            if window > 1 << WINDOW_LOG {
                let limit = 1_u64 << WINDOW_LOG;
                return Err(Error::Frame(format!(
                    "a zstd frame needs a window of {window} bytes; the limit is {limit}"
                )));
            }
            let _window = budget.reserve(MemoryClass::Bundles, window.saturating_add(DECODER));
            let part = BufReader::with_capacity(PIECE, ArchivePart::new(content, blob));
            let mut decoder = zstd::stream::read::Decoder::with_buffer(part)?.single_frame();
            decoder.window_log_max(WINDOW_LOG)?;
            self.copy(&mut decoder)?;
            blob = behind(decoder.finish());
        }
        Ok(())
    }

    /// Fails unless all bytes have been passed on.
    pub(super) fn finish(self) -> Result<(), Error> {
        if self.done == self.size {
            return Ok(());
        }
        Err(disagree(self.done, self.size))
    }
}

fn disagree(found: impl Display, size: u64) -> Error {
    let reason = "a frame and the table of contents disagree on a size";
    Error::Frame(format!("{reason}: it becomes {found} bytes instead of {size}"))
}

/// Keeps errors of reading the archive as they are. All others are errors of the decoder.
fn failed(error: io::Error) -> Error {
    match error.get_ref() {
        Some(inner) if inner.is::<ReadError>() => Error::Read(error),
        _ => Error::Frame(format!("a zstd frame is broken: {error}")),
    }
}

/// A part of an archive, read sequentially.
pub(super) struct ArchivePart<'a> {
    content: &'a Arc<dyn Content>,
    rest: Blob,
}

impl<'a> ArchivePart<'a> {
    pub(super) fn new(content: &'a Arc<dyn Content>, rest: Blob) -> Self {
        Self { content, rest }
    }
}

impl Read for ArchivePart<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = buffer.len().min(to_usize(self.rest.size));
        let (buffer, _) = buffer.split_at_mut(length);
        self.content.read_at(self.rest.offset, buffer).map_err(io::Error::other)?;
        self.rest = Blob { offset: self.rest.offset + length as u64, size: self.rest.size - length as u64 };
        Ok(length)
    }
}

/// The rest of a part after a decoder has ended. Bytes that were buffered belong to it.
fn behind(part: BufReader<ArchivePart<'_>>) -> Blob {
    let ahead = part.buffer().len() as u64;
    let Blob { offset, size } = part.into_inner().rest;
    Blob { offset: offset - ahead, size: size + ahead }
}
