//! Random access inside a raw deflate stream.
//!
//! The output is divided into *spans* of about 1 MiB that end at deflate block boundaries. A *checkpoint* remembers
//! what is needed to start decoding at a span: bit position, output offset and the 32 KiB before it. The first pass
//! over a span makes the checkpoint of the next one, so the index grows exactly as far as somebody has read. On its way it
//! notes the block boundaries, of which `deflate` makes other streams.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::decoder::{Checkpoint, Decoder, OUTPUT, Stream, copy};
use super::inflate::Place;
use crate::rope::{Content, Identity, Joint, Packed, ReadError, check_range};

/// A span ends at the first block boundary after so many bytes of output. Random reads of 128 KiB then take
/// 0.4..1 ms, and the index 0.3..1 % of the output.
const SPAN: u64 = 1 << 20;

/// Longer spans are never held as a whole. zlib's blocks end after at most 8.4 MB (32767 matches of 258 bytes), so
/// only unusual or hostile streams have them; each read then decodes from the span's start.
const LONGEST_KEPT: u64 = 16 << 20;

/// Compressed bytes read at once.
const INPUT: usize = 128 << 10;

/// Compressed bytes read at once for the first bytes of a member.
const PEEK_INPUT: usize = 4 << 10;

/// Boundaries are noted at least so many bytes of output apart, so that no stream can make their list longer than 0.3 %
/// of its content. zlib's blocks of incompressible data, the shortest usual ones, have 16 KiB.
const JOINT_DISTANCE: u64 = 8 << 10;

/// The content of a deflated member.
#[derive(Debug)]
pub(super) struct Deflated {
    stream: Stream,
    crc32: u32,
    /// First half of the key in the span cache.
    id: usize,
    /// Held only for look-ups and updates, never while decoding.
    index: Mutex<Index>,
    /// Held while decoding past the end of the index: the CRC-32 of everything before it.
    frontier: Mutex<crc32fast::Hasher>,
}

#[derive(Debug, Default)]
struct Index {
    /// Where each span starts; the last one's end is not known until `complete`.
    starts: Vec<Arc<Checkpoint>>,
    complete: bool,
    /// Where blocks begin, as far as `starts` goes; at last, where the stream ends.
    joints: Vec<Joint>,
    damage: Option<ReadError>,
}

/// A span and where it ends.
#[derive(Debug)]
struct Span {
    number: usize,
    start: Arc<Checkpoint>,
    /// `None` if nobody has decoded it yet.
    end: Option<u64>,
}

impl Deflated {
    /// The content into which `stream` inflates, with the CRC-32 that the zip file claims for it.
    pub(super) fn new(stream: Stream, crc32: u32) -> Self {
        let id = usize::try_from(stream.resources.next_id()).unwrap_or(usize::MAX);
        let index = Index { starts: vec![Arc::default()], joints: vec![Joint::default()], ..Index::default() };
        Self { stream, crc32, id, index: Mutex::new(index), frontier: Mutex::default() }
    }

    fn damaged(&self, reason: impl Into<Arc<str>>) -> ReadError {
        self.stream.damaged(reason)
    }

    fn index(&self) -> MutexGuard<'_, Index> {
        // The state is consistent after every statement, so a panic elsewhere does not spoil it.
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The span that holds `offset`, or else the first one that is not decoded.
    fn locate(&self, offset: u64) -> Result<Span, ReadError> {
        let index = self.index();
        if let Some(damage) = &index.damage {
            return Err(damage.clone());
        }
        let number = index.starts.partition_point(|start| start.output <= offset).saturating_sub(1);
        let start = index.starts.get(number).map(Arc::clone).unwrap_or_default();
        let end = match index.starts.get(number + 1) {
            Some(next) => Some(next.output),
            None => index.complete.then_some(self.stream.size),
        };
        Ok(Span { number, start, end })
    }

    /// Decodes spans beyond the index until the one that holds `offset` is known. Returns that one's bytes unless
    /// they are too many, or somebody else did the work meanwhile.
    fn grow(&self, offset: u64) -> Result<Option<Arc<[u8]>>, ReadError> {
        let mut frontier = self.frontier.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let span = self.locate(offset)?;
            if span.end.is_some() {
                return Ok(None);
            }
            let mut crc = frontier.clone();
            let mut kept = Vec::with_capacity(usize::try_from(SPAN + SPAN / 4).unwrap_or(0));
            let mut last = self.index().joints.last().map_or(0, |joint| joint.output);
            let mut joints = Vec::new();
            let decoded = self.decode(&span, |decoder, place| {
                crc.update(decoder.produced());
                if kept.len() as u64 <= LONGEST_KEPT {
                    kept.extend_from_slice(decoder.produced());
                }
                let unused = match place {
                    Place::Boundary(bits) if decoder.output.saturating_sub(last) >= JOINT_DISTANCE => bits,
                    Place::End => 0,
                    _ => return,
                };
                last = decoder.output;
                joints.push(Joint { bit: decoder.bit(unused), output: last, crc32: crc.clone().finalize() });
            });
            let end = decoded.and_then(|next| match next {
                None if crc.clone().finalize() != self.crc32 => {
                    Err(self.damaged("the content does not have the CRC-32 that the zip file claims"))
                }
                next => Ok(next),
            });
            let next = match end {
                Ok(next) => next,
                Err(error) => {
                    if matches!(error, ReadError::Damaged { .. }) {
                        self.index().damage = Some(error.clone());
                    }
                    return Err(error);
                }
            };
            *frontier = crc;
            let end = next.as_ref().map_or(self.stream.size, |next| next.output);
            let kept = (kept.len() as u64 <= LONGEST_KEPT).then(|| Arc::<[u8]>::from(kept));
            if let Some(bytes) = &kept {
                self.stream.resources.spans.put((self.id, span.number), Arc::clone(bytes));
            }
            let mut index = self.index();
            index.joints.extend(joints);
            match next {
                Some(next) => index.starts.push(Arc::new(next)),
                None => index.complete = true,
            }
            drop(index);
            if offset < end {
                return Ok(kept);
            }
        }
    }

    /// Decodes a span and shows the decoder to `sink` after each piece. Returns where the next span starts, or `None` at
    /// the end of the stream.
    fn decode(&self, span: &Span, mut sink: impl FnMut(&Decoder<'_>, Place)) -> Result<Option<Checkpoint>, ReadError> {
        let size = self.stream.size;
        let stop = span.start.output.saturating_add(SPAN);
        self.stream.decode(&span.start, INPUT, OUTPUT, |decoder| {
            loop {
                let place = decoder.step()?;
                sink(decoder, place);
                match place {
                    // An empty block may follow the last byte. It belongs to the last span: nobody would ever read a
                    // span of its own, and so nobody would check the CRC-32.
                    Place::Boundary(bits) if decoder.output >= stop && decoder.output < size => {
                        return match span.end {
                            None => decoder.checkpoint(bits).map(Some),
                            Some(_) => Ok(Some(Checkpoint { output: decoder.output, ..Checkpoint::default() })),
                        };
                    }
                    Place::Boundary(_) | Place::Inside | Place::Stuck => {}
                    Place::End if decoder.output < size => return Err(self.stream.too_short(decoder.output)),
                    Place::End => return Ok(None),
                }
            }
        })
    }

    /// All bytes of a span that was decoded before.
    fn whole(&self, span: &Span, length: u64) -> Result<Arc<[u8]>, ReadError> {
        let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
        let next = self.decode(span, |decoder, _| bytes.extend_from_slice(decoder.produced()))?;
        if bytes.len() as u64 == length && next.is_none_or(|next| Some(next.output) == span.end) {
            Ok(bytes.into())
        } else {
            Err(self.damaged("inflates differently than before"))
        }
    }

    /// Copies a part of a span that is too long to be held.
    fn part(&self, span: &Span, skip: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        let from = span.start.output.saturating_add(skip);
        self.stream.decode(&span.start, INPUT, OUTPUT, |decoder| {
            let mut filled = 0;
            while filled < buffer.len() {
                let before = decoder.output;
                let place = decoder.step()?;
                let skip = usize::try_from(from.saturating_sub(before)).unwrap_or(usize::MAX);
                let piece = decoder.produced().get(skip..).unwrap_or_default();
                filled += copy(piece, buffer.get_mut(filled..).unwrap_or_default());
                if place == Place::End && filled < buffer.len() {
                    return Err(self.damaged("inflates differently than before"));
                }
            }
            Ok(())
        })
    }
}

impl Content for Deflated {
    fn size(&self) -> u64 {
        self.stream.size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        check_range(offset, buffer.len(), self.stream.size)?;
        let mut at = offset;
        let mut rest = buffer;
        while !rest.is_empty() {
            let mut span = self.locate(at)?;
            let mut fresh = None;
            if span.end.is_none() {
                fresh = self.grow(at)?;
                span = self.locate(at)?;
            }
            let skip = at.saturating_sub(span.start.output);
            let length = span.end.unwrap_or(self.stream.size).saturating_sub(span.start.output);
            let here = usize::try_from(length.saturating_sub(skip)).unwrap_or(usize::MAX).min(rest.len());
            let (piece, after) = rest.split_at_mut(here);
            if length > LONGEST_KEPT {
                self.part(&span, skip, piece)?;
            } else {
                let key = (self.id, span.number);
                let bytes = match fresh {
                    Some(bytes) => bytes,
                    None => self.stream.resources.spans.get_or_make(&key, || self.whole(&span, length))?,
                };
                let skip = usize::try_from(skip).unwrap_or(usize::MAX);
                let found = bytes.get(skip..).and_then(|bytes| bytes.get(..here));
                piece.copy_from_slice(found.ok_or_else(|| self.damaged("inflates differently than before"))?);
            }
            at = at.saturating_add(here as u64);
            rest = after;
            if here == 0 {
                return Err(self.damaged("a span is empty"));
            }
        }
        Ok(())
    }

    fn peek(&self, buffer: &mut [u8]) -> Result<(), ReadError> {
        check_range(0, buffer.len(), self.stream.size)?;
        let first = self.locate(0)?;
        if first.end.is_some() || buffer.len() > OUTPUT {
            return self.read_at(0, buffer);
        }
        if buffer.is_empty() {
            return Ok(());
        }
        self.stream.decode(&first.start, PEEK_INPUT, buffer.len(), |decoder| {
            let mut filled = 0;
            loop {
                let place = decoder.step()?;
                filled += copy(decoder.produced(), buffer.get_mut(filled..).unwrap_or_default());
                if filled == buffer.len() {
                    return Ok(());
                }
                if place == Place::End {
                    return Err(self.stream.too_short(decoder.output));
                }
            }
        })
    }

    fn is_prompt(&self, _: u64, _: usize) -> bool {
        false
    }

    fn identity(&self) -> Option<Identity> {
        Some(self.stream.identity)
    }

    fn packed(&self) -> Option<Packed> {
        Some(Packed { bytes: Arc::clone(&self.stream.packed), deflated: true, crc32: self.crc32 })
    }

    fn joints(&self) -> Result<Option<Arc<[Joint]>>, ReadError> {
        if let Some(last) = self.stream.size.checked_sub(1) {
            self.grow(last)?;
        }
        Ok(Some(self.index().joints.as_slice().into()))
    }
}

#[cfg(test)]
#[path = "deflated_tests.rs"]
mod tests;
