//! Compresses code objects: zstd contexts with their buffers, reused, in the memory budget.

use std::io;
use std::sync::Arc;

use zstd::zstd_safe::zstd_sys::{ZSTD_EndDirective, ZSTD_estimateCStreamSize};
use zstd::zstd_safe::{self, CCtx, CParameter, InBuffer, OutBuffer, ResetDirective};

use super::budget::Budget;
use super::pool::{Pool, Pooled};
use crate::metrics::MemoryClass;
use crate::rope::{head, head_mut, tail, to_usize};

/// Larger contents are compressed as a stream, which bounds the memory of a compressor. Part of the format: zstd makes
/// other bytes of a stream than of the same content in one call.
pub(crate) const STREAMED: u64 = 32 << 20;

/// A stream is fed in pieces of exactly this many bytes, since zstd may end a block where a piece ends.
const PIECE: usize = 128 << 10;

/// Where the bytes to compress come from.
pub enum Original<'a, E> {
    /// From memory.
    Memory(&'a [u8]),
    /// From a function that fills a buffer with the next bytes.
    Source(&'a mut dyn FnMut(&mut [u8]) -> Result<(), E>),
}

/// A pool of zstd contexts.
#[derive(Debug)]
pub struct Compressors(Pool<CompressionContext>);

/// A zstd context with its buffers.
#[derive(Default)]
struct CompressionContext {
    zstd: Option<(i32, CCtx<'static>)>,
    original: Vec<u8>,
    frame: Vec<u8>,
}

impl Compressors {
    pub(crate) fn new(budget: &Arc<Budget>) -> Self {
        Self(Pool::new(budget, MemoryClass::Compression))
    }

    /// Passes the zstd frame of the `size` bytes of `original` to `sink`, in pieces. It has the same bytes for the same
    /// level on every machine. Waits until the budget has room for the context.
    pub fn compress<E>(
        &self,
        level: i32,
        size: u64,
        mut original: Original<'_, E>,
        sink: impl FnMut(&[u8]) -> Result<(), E>,
        failed: impl Fn(io::Error) -> E,
    ) -> Result<(), E> {
        let whole = usize::try_from(size).ok().filter(|_| size <= STREAMED);
        let copied = if let Original::Memory(_) = original { 0 } else { whole.unwrap_or(PIECE) };
        let bound = whole.map_or(PIECE, zstd_safe::compress_bound);
        let mut context = self.lend(level, copied, bound);
        let result = match (whole, &mut original) {
            (Some(size), Original::Source(read)) => {
                let mut copy = std::mem::take(&mut context.original);
                copy.resize(size.max(copy.len()), 0);
                let bytes = head_mut(&mut copy, size);
                let result = read(bytes).and_then(|()| context.compress(level, bytes, sink, failed));
                context.original = copy;
                result
            }
            (Some(_), Original::Memory(bytes)) => context.compress(level, bytes, sink, failed),
            (None, original) => context.compress_stream(level, size, original, sink, failed),
        };
        if result.is_err() {
            // It may have stopped in the middle of a frame.
            context.zstd = None;
        }
        let memory = context.memory();
        context.account_for(memory);
        result
    }

    fn lend(&self, level: i32, copied: usize, bound: usize) -> Pooled<CompressionContext> {
        let is_fit = |context: &CompressionContext| {
            let is_of_level = context.zstd.as_ref().is_some_and(|(other, _)| *other == level);
            is_of_level && context.original.capacity() >= copied && context.frame.capacity() >= bound
        };
        if let Some(idle) = self.0.idle(is_fit) {
            return idle;
        }
        // A context that does not fit is replaced, so that there are no more contexts than parallel jobs.
        self.0.discard();
        let bytes = estimate(level).saturating_add(copied as u64).saturating_add(bound as u64);
        self.0.get(bytes, is_fit).unwrap_or_else(|reservation| {
            let buffers = CompressionContext {
                zstd: None,
                original: Vec::with_capacity(copied),
                frame: Vec::with_capacity(bound),
            };
            self.0.lend(buffers, reservation)
        })
    }
}

/// Bytes that a zstd context of a level uses at most.
fn estimate(level: i32) -> u64 {
    #[expect(unsafe_code, reason = "zstd-safe has no interface to it")]
    // SAFETY: it computes a number from a number.
    let size = unsafe { ZSTD_estimateCStreamSize(level) };
    size as u64
}

impl CompressionContext {
    fn zstd(&mut self, level: i32) -> io::Result<&mut CCtx<'static>> {
        if self.zstd.as_ref().is_none_or(|(other, _)| *other != level) {
            let mut context = CCtx::try_create().ok_or(io::ErrorKind::OutOfMemory)?;
            context.set_parameter(CParameter::CompressionLevel(level)).map_err(zstd_error)?;
            self.zstd = Some((level, context));
        }
        let (_, context) = self.zstd.as_mut().ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(context)
    }

    fn compress<E>(
        &mut self,
        level: i32,
        original: &[u8],
        mut sink: impl FnMut(&[u8]) -> Result<(), E>,
        failed: impl Fn(io::Error) -> E,
    ) -> Result<(), E> {
        let mut frame = std::mem::take(&mut self.frame);
        frame.clear();
        frame.reserve(zstd_safe::compress_bound(original.len()));
        let made = self.zstd(level).and_then(|zstd| zstd.compress2(&mut frame, original).map_err(zstd_error));
        let result = made.map_err(failed).and_then(|_| sink(&frame));
        self.frame = frame;
        result
    }

    fn compress_stream<E>(
        &mut self,
        level: i32,
        size: u64,
        original: &mut Original<'_, E>,
        mut sink: impl FnMut(&[u8]) -> Result<(), E>,
        failed: impl Fn(io::Error) -> E,
    ) -> Result<(), E> {
        let (mut piece, mut frame) = (std::mem::take(&mut self.original), std::mem::take(&mut self.frame));
        piece.resize(PIECE, 0);
        frame.reserve(PIECE);
        let zstd = self.zstd(level).map_err(&failed)?;
        zstd.reset(ResetDirective::SessionOnly).map_err(zstd_error).map_err(&failed)?;
        zstd.set_pledged_src_size(Some(size)).map_err(zstd_error).map_err(&failed)?;
        let mut at = 0_u64;
        loop {
            let length = to_usize(size - at).min(PIECE);
            let bytes = match original {
                Original::Memory(bytes) => head(tail(bytes, to_usize(at)), length),
                Original::Source(read) => {
                    let piece = head_mut(&mut piece, length);
                    read(piece)?;
                    piece
                }
            };
            at += length as u64;
            // The end of the frame is a step of its own, without input.
            let step = if length == 0 { ZSTD_EndDirective::ZSTD_e_end } else { ZSTD_EndDirective::ZSTD_e_continue };
            let mut input = InBuffer::around(bytes);
            loop {
                frame.clear();
                let left = zstd.compress_stream2(&mut OutBuffer::around(&mut frame), &mut input, step);
                let left = left.map_err(zstd_error).map_err(&failed)?;
                sink(&frame)?;
                if input.pos() == length && (length > 0 || left == 0) {
                    break;
                }
            }
            if length == 0 {
                break;
            }
        }
        (self.original, self.frame) = (piece, frame);
        Ok(())
    }

    fn memory(&self) -> u64 {
        let context = self.zstd.as_ref().map_or(0, |(_, context)| context.sizeof());
        (context + self.original.capacity() + self.frame.capacity()) as u64
    }
}

fn zstd_error(code: usize) -> io::Error {
    io::Error::other(zstd_safe::get_error_name(code))
}
