//! Reading archives whose frames had no room, on disk or in memory. All of them are read together in the order of the input, so
//! that each bundle is decompressed once for all archives with code objects of it.

use std::collections::HashSet;

use rocm_kpack::HEADER_SIZE;

use super::frame::Frame;
use super::layout::{ArchiveRope, LENGTH_FIELD};
use super::schedule::key;
use crate::rope::{Materialize, ReadError, read_range};
use crate::sync::Arc;

/// Of the room for frames, those of one batch that are outside of compressed bundles take at most this part, as the budget
/// guarantees: other work evicts none of them before it is read.
const PART: u64 = 16;

/// Passes the bytes of archives to `take`, with the number of the archive. Those of each archive come in order.
pub(crate) fn read_together(archives: &[&ArchiveRope], mut take: impl FnMut(usize, &[u8])) -> Result<(), ReadError> {
    let Some(jobs) = archives.first().map(|archive| &archive.jobs) else { return Ok(()) };
    let mut left = archives.iter().map(|archive| Ok((archive.make()?, 0))).collect::<Result<Vec<_>, ReadError>>()?;
    let mut read = |number: usize, end: Option<u64>| {
        let Some((content, at)) = left.get_mut(number) else { return Ok(()) };
        let start = std::mem::replace(at, end.unwrap_or(content.size()));
        read_range(&**content, start..*at, |piece| take(number, piece))
    };
    let places = places(archives);
    for batch in batches(&places, jobs.resources().frames.capacity() / PART) {
        let frames: Vec<_> = batch.iter().map(|place| Arc::clone(place.frame)).collect();
        jobs.demand(&frames).wait(|_| ())?;
        batch.iter().try_for_each(|place| read(place.archive, Some(place.end)))?;
    }
    (0..archives.len()).try_for_each(|number| read(number, None))
}

/// A frame in an archive.
struct FramePlace<'a> {
    /// The number of its binary, and its wrapper.
    source: (usize, Option<usize>),
    archive: usize,
    frame: &'a Arc<Frame>,
    /// Where it ends in the archive.
    end: u64,
}

/// The frames of archives whose lengths are known, in the order of the input. Those of one archive are in its order.
fn places<'a>(archives: &[&'a ArchiveRope]) -> Vec<FramePlace<'a>> {
    let mut places = Vec::new();
    for (archive, rope) in archives.iter().enumerate() {
        let (mut seen, mut end) = (HashSet::new(), HEADER_SIZE + LENGTH_FIELD);
        for entry in rope.compressed().iter().filter(|entry| seen.insert((entry.binary, entry.frame.id()))) {
            end += LENGTH_FIELD + length(&entry.frame);
            places.push(FramePlace { source: (entry.binary, entry.wrapper), archive, frame: &entry.frame, end });
        }
    }
    places.sort_by_key(|place| place.source);
    places
}

/// The length of a frame that was made.
fn length(frame: &Frame) -> u64 {
    frame.known_length().unwrap_or_default()
}

/// What is made at a time: all of a compressed bundle, or as much as takes `room` bytes. The memory of a second bundle would be that of the
/// frames of the first.
fn batches<'a, 'b>(places: &'b [FramePlace<'a>], room: u64) -> impl Iterator<Item = &'b [FramePlace<'a>]> {
    let mut bytes = 0;
    places.chunk_by(move |one, next| {
        let (one, next) = (one.frame, next.frame);
        bytes += length(one);
        let is_together = key(one) == key(next) && (key(one).is_some() || bytes + length(next) <= room);
        bytes = if is_together { bytes } else { 0 };
        is_together
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fatbin::CodeObject;
    use crate::resources::Resources;
    use crate::rope::{Rope, Segment};

    #[test]
    fn frames_outside_of_bundles_are_made_together_up_to_the_room() {
        let resources = Resources::new(0);
        let frame = |length| {
            let content = Rope::new([Segment::literal(vec![0; 100])]).unwrap();
            let object = CodeObject::new("gfx942".parse().unwrap(), Arc::new(content));
            let frame = Arc::new(Frame::new(object, 3, &resources));
            assert!(frame.restore_length(length));
            frame
        };
        let frames = [40, 60, 1, 99, 100, 101, 50, 51].map(frame);
        let place = |frame| FramePlace { source: (0, None), archive: 0, frame, end: 0 };
        let places: Vec<_> = frames.iter().map(place).collect();
        let lengths = |batch: &[FramePlace<'_>]| batch.iter().map(|place| length(place.frame)).collect::<Vec<_>>();
        let found: Vec<_> = batches(&places, 100).map(lengths).collect();
        assert_eq!(found, [&[40, 60][..], &[1, 99], &[100], &[101], &[50], &[51]]);
    }
}
