//! An archive that was made. Reading all of it also computes the sums of its code objects.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use rocm_kpack::HEADER_SIZE;

use super::frame::Frame;
use crate::rope::{Content, Extent, Identity, InOrderReader, InPassing, ReadError, Rope, Xxh3, to_usize};

/// The bytes of an archive.
#[derive(Debug)]
pub(super) struct ArchiveBytes {
    rope: Rope,
    /// Its code objects, in its order.
    frames: Vec<Arc<Frame>>,
    is_compressed: bool,
}

impl ArchiveBytes {
    pub(super) fn new(rope: Rope, frames: Vec<Arc<Frame>>, is_compressed: bool) -> Self {
        Self { rope, frames, is_compressed }
    }

    /// The places of code objects. A field of 4 bytes stands before all frames and before each.
    fn places(&self) -> impl Iterator<Item = (Range<u64>, &Arc<Frame>)> {
        let field = if self.is_compressed { 4 } else { 0 };
        self.frames.iter().scan(HEADER_SIZE + field, move |end, frame| {
            let length = if self.is_compressed { frame.known_length()? } else { frame.size() };
            let start = *end + field;
            *end = start + length;
            Some((start..*end, frame))
        })
    }
}

impl Content for ArchiveBytes {
    fn size(&self) -> u64 {
        self.rope.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        self.rope.read_at(offset, buffer)
    }

    fn reader(&self, offset: u64) -> Box<dyn InOrderReader + '_> {
        self.rope.reader(offset)
    }

    fn extents(&self, offset: u64, length: u64) -> Vec<Extent<'_>> {
        self.rope.extents(offset, length)
    }

    fn is_nonblocking(&self, offset: u64, length: usize) -> bool {
        self.rope.is_nonblocking(offset, length)
    }

    fn identity(&self) -> Option<Identity> {
        self.rope.identity()
    }

    fn in_passing(&self) -> Option<Box<dyn InPassing + '_>> {
        if self.frames.iter().all(|frame| frame.known_sum().is_some()) {
            return None;
        }
        Some(Box::new(PassingFrames { left: self.places().collect(), at: 0, sum: Xxh3::default() }))
    }
}

/// Computes the sum of each code object.
struct PassingFrames<'a> {
    /// The code objects that have not passed as a whole.
    left: VecDeque<(Range<u64>, &'a Arc<Frame>)>,
    /// The offset of the next byte.
    at: u64,
    /// That of the first one, so far.
    sum: Xxh3,
}

impl InPassing for PassingFrames<'_> {
    fn take(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let (Some((range, frame)), false) = (self.left.front(), rest.is_empty()) {
            let (skipped, behind) = rest.split_at(to_usize(range.start.saturating_sub(self.at)).min(rest.len()));
            self.at += skipped.len() as u64;
            let (piece, behind) = behind.split_at(to_usize(range.end - self.at).min(behind.len()));
            self.sum.update(piece);
            self.at += piece.len() as u64;
            if self.at == range.end {
                frame.set_sum(std::mem::take(&mut self.sum).finish());
                self.left.pop_front();
            }
            rest = behind;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fatbin::CodeObject;
    use crate::resources::Resources;
    use crate::rope::Segment;

    #[test]
    fn code_objects_are_summed_whatever_the_pieces() {
        let objects: [&[u8]; 3] = [b"one", b"", b"another"];
        let header = vec![b'h'; to_usize(HEADER_SIZE)];
        let segments = [&*header, &objects.concat(), b"toc"].map(|bytes| Segment::literal(bytes.to_vec()));
        let rope = || Rope::new(segments.clone()).unwrap();
        let resources = Resources::new(1 << 20);
        let frame = |bytes: &&[u8]| {
            let code = Rope::new([Segment::literal(bytes.to_vec())]).unwrap();
            Arc::new(Frame::new(CodeObject::new("gfx942".parse().unwrap(), Arc::new(code)), 3, &resources))
        };
        for length in [1, 2, 5, 1000] {
            let archive = ArchiveBytes::new(rope(), objects.iter().map(frame).collect(), false);
            let mut passing = archive.in_passing().unwrap();
            archive.rope.to_vec().unwrap().chunks(length).for_each(|piece| passing.take(piece));
            drop(passing);
            let sums: Vec<_> = archive.frames.iter().map(|frame| frame.known_sum().unwrap()).collect();
            assert_eq!(sums, objects.map(Xxh3::of));
            assert!(archive.in_passing().is_none());
        }
    }
}
