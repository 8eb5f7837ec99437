use std::sync::Arc;

use super::StreamIndex;
use crate::index::{Index, RecordKind};
use crate::resources::Resources;
use crate::rope::{Content, PackedContent};
use crate::source::deflated::tests::{member, member_of, read, with_checkpoints};
use crate::source::inflate::testing::{Z_NO_FLUSH, deflated};

/// Resources with an index of the input `input` in the directory `place`.
fn remembering(place: &std::path::Path) -> Arc<Resources> {
    let input = place.join("input");
    if !input.exists() {
        std::fs::write(&input, "x").unwrap();
    }
    Resources::with_index(0, Index::open(place, &input))
}

#[test]
fn the_next_session_starts_at_checkpoints_at_once() {
    let (whole, packed) = with_checkpoints(20 << 20, 5);
    let place = tempfile::tempdir().unwrap();
    let crc = crc32fast::hash(&whole);
    let (content, resources) = member_of(&packed, whole.len(), crc, remembering(place.path()));
    let boundaries = content.block_boundaries().unwrap();
    resources.index.save().unwrap();
    let (content, resources) = member_of(&packed, whole.len(), crc, remembering(place.path()));
    assert_eq!(content.block_boundaries().unwrap(), boundaries);
    assert_eq!(resources.counters.bytes_inflated.get(), 0);
    let offset = 19 << 20;
    assert_eq!(read(&content, offset, 99).unwrap(), whole[offset..offset + 99]);
    let inflated = resources.counters.bytes_inflated.get();
    assert!(inflated < 12 << 20, "{inflated}");
    assert!(read(&content, 0, whole.len()).unwrap() == whole);
}

fn noise(size: usize) -> Vec<u8> {
    let mut state = 5_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..size).map(|_| next()).collect()
}

type Lie = Box<dyn Fn(&mut StreamIndex)>;

#[test]
fn an_index_that_lies_is_never_believed() {
    let noise = noise(8 << 20);
    // The beginning of each range is repeated in the next one, so that the effect of a wrong window never ends.
    let mut whole = noise.clone();
    whole.chunks_mut(18_000).for_each(|stretch| {
        let echo = stretch.len().min(12_000);
        stretch[..echo].copy_from_slice(&noise[..echo]);
    });
    let packed = deflated(&whole, 6, whole.len(), Z_NO_FLUSH);
    let crc = crc32fast::hash(&whole);
    let (content, _) = member(&packed, whole.len(), crc, 0);
    content.block_boundaries().unwrap();
    let good = content.export().unwrap();
    let lies: Vec<(&str, Lie)> = vec![
        ("another window", Box::new(|index| index.checkpoints[0].1 = index.checkpoints[1].1.clone())),
        ("no zstd frame", Box::new(|index| index.checkpoints[0].1 = vec![1, 2, 3].into())),
        (
            "too long a window",
            Box::new(|index| {
                index.checkpoints[0].1 = zstd::bulk::compress(&vec![0; 40_000], 1).unwrap().into();
            }),
        ),
        (
            "another bit",
            Box::new(|index| {
                index.bits[index.checkpoints[0].0 - 1] += 1;
                index.bits[index.checkpoints[0].0] -= 1;
            }),
        ),
        (
            "another byte",
            Box::new(|index| {
                index.outputs[index.checkpoints[0].0 - 1] += 1;
                index.outputs[index.checkpoints[0].0] -= 1;
            }),
        ),
        ("another boundary", Box::new(|index| index.checkpoints[0].0 += 1)),
        ("no such boundary", Box::new(|index| index.checkpoints.last_mut().unwrap().0 += 1 << 30)),
        ("checkpoints that go back", Box::new(|index| index.checkpoints.swap(0, 1))),
        ("another size", Box::new(|index| index.size += 1)),
        ("another sum", Box::new(|index| index.crcs[3] ^= 1)),
        ("a sum of the end", Box::new(|index| *index.crcs.last_mut().unwrap() ^= 1)),
        ("beyond the stream", Box::new(|index| *index.bits.last_mut().unwrap() += 1 << 40)),
        ("without bounds", Box::new(|index| index.outputs[0] = u64::MAX)),
        ("columns of unequal length", Box::new(|index| index.crcs.truncate(5))),
    ];
    let place = tempfile::tempdir().unwrap();
    for (what, lie) in lies {
        let mut index = good.clone();
        lie(&mut index);
        let (content, resources) = member_of(&packed, whole.len(), crc, remembering(place.path()));
        resources.index.put(RecordKind::Stream, &content.identity().unwrap(), &index);
        for offset in (0..whole.len()).step_by(900_000).rev() {
            assert!(read(&content, offset, 999).unwrap() == whole[offset..offset + 999], "{what}, at {offset}");
        }
    }
}
