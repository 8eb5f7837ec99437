use std::collections::BTreeSet;

use crate::index::Index;
use crate::resources::Resources;
use crate::rope::{Content, PackedContent, ReadError, to_usize};
use crate::source::decoders::CHUNK;
use crate::source::deflated::tests::{member, member_of, read, settle, with_checkpoints};
use crate::source::inflate::testing::{Z_FULL_FLUSH, Z_NO_FLUSH, deflated};
use crate::source::inflate::{DecoderPosition, Inflater, Stops};
use crate::source::testing::data;

fn reason(result: Result<Vec<u8>, ReadError>) -> String {
    match result.unwrap_err() {
        ReadError::Damaged { reason, .. } => reason.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn false_claims_are_found_and_not_forgotten() {
    let whole = data(3 << 20, 11);
    let packed = deflated(&whole, 6, whole.len(), Z_NO_FLUSH);
    let (size, crc) = (whole.len(), crc32fast::hash(&whole));
    for (packed, size, crc, expected) in [
        (&packed[..], size, crc ^ 1, "CRC-32"),
        (&packed[..], size + 1, crc, "inflates to 3145728 bytes, but claims 3145729"),
        (&packed[..], size - 1, crc, "inflates to more than the 3145727 bytes"),
    ] {
        let (content, resources) = member(packed, size, crc, 1 << 30);
        read(&content, 0, 1000).unwrap();
        for offset in [size - 1, 0] {
            let reason = reason(read(&content, offset, 1));
            assert!(reason.contains(expected), "{reason}");
        }
        let inflated = resources.counters.bytes_inflated.get();
        assert!(content.check().is_err() && content.block_boundaries().is_err() && content.is_nonblocking(0, 1));
        assert_eq!(resources.counters.bytes_inflated.get(), inflated, "the answer is remembered");
        assert_eq!(resources.spans.bytes(), 0, "what was inflated is dropped");
        assert!(content.packed().bytes.read_at(0, &mut [0]).is_err());
    }
}

/// What one call of the inflater for the whole stream makes of it.
fn inflated_at_once(packed: &[u8], size: usize) -> (Vec<u8>, DecoderPosition) {
    let mut inflater = Inflater::new().unwrap();
    inflater.enter(0, 0, &[]).unwrap();
    let (mut bytes, mut consumed, mut at) = (vec![0; size + 1], 0, 0);
    loop {
        let step = inflater.step(&packed[consumed..], &mut bytes[at..], Stops::Never).unwrap();
        consumed += step.consumed;
        at += step.produced;
        if step.place != DecoderPosition::Inside {
            bytes.truncate(at);
            return (bytes, step.place);
        }
    }
}

/// Each answer depends on the stream alone, not on earlier reads, on the size of the cache, or on where
/// decoding begins.
#[test]
fn damage_with_a_place_has_one_answer() {
    let (whole, packed) = with_checkpoints(3 << 20, 31);
    let (size, crc) = (whole.len(), crc32fast::hash(&whole));
    let mut places = BTreeSet::new();
    let flipped = |at: usize| {
        let mut packed = packed.clone();
        // Many invalid codes in a row, so that one of them ends decoding soon.
        packed[at..].iter_mut().take(4000).for_each(|byte| *byte = 0xff);
        packed
    };
    let mut damaged = vec![packed[..packed.len() - 1].to_vec(), Vec::new(), vec![7]];
    for tenth in [0, 3, 7, 9] {
        let at = packed.len() / 10 * tenth + 5;
        damaged.extend([packed[..at].to_vec(), flipped(at)]);
    }
    for packed in damaged {
        let (prefix, end) = inflated_at_once(&packed, size);
        // Damage that changes lengths only is found by the sizes.
        if end == DecoderPosition::End || prefix.len() > size {
            continue;
        }
        let place = prefix.len();
        places.insert(place);
        let chunk = to_usize(CHUNK);
        let near =
            [0, place / 2, place / chunk * chunk, place.saturating_sub(1), place, place + 1, place + chunk, size - 1];
        let near = near.map(|offset| offset.min(size - 1));
        for (budget, rotation) in [0, 3, 6].into_iter().flat_map(|rotation| [(0, rotation), (1 << 30, rotation)]) {
            let (content, resources) = member(&packed, size, crc, budget);
            let mut offsets = near;
            offsets.rotate_left(rotation);
            for round in 0..2 {
                for offset in offsets {
                    for length in [1, 3000] {
                        let length = length.min(size - offset);
                        let result = read(&content, offset, length);
                        let here = format!("{offset}+{length} of {place} in round {round} from {rotation}");
                        if offset + length <= place {
                            assert!(result.expect(&here) == prefix[offset..offset + length], "{here}");
                        } else {
                            let reason = reason(result);
                            assert!(reason.ends_with(&format!(", at byte {place} of the content")), "{here}: {reason}");
                        }
                    }
                }
            }
            let inflated = resources.counters.bytes_inflated.get();
            for offset in (place..size).step_by(100_000) {
                read(&content, offset, 1).unwrap_err();
            }
            assert!(content.check().is_err() && content.block_boundaries().is_err());
            assert!(place == size || content.is_nonblocking(size as u64 - 1, 1));
            assert_eq!(resources.counters.bytes_inflated.get(), inflated, "the answer is remembered");
        }
    }
    assert!(places.len() > 5 && places.contains(&0) && places.contains(&size), "{places:?}");
}

/// An index of an earlier session leads to the same answer.
#[test]
fn damage_with_a_place_has_one_answer_with_an_index_of_the_undamaged_stream() {
    let (whole, mut packed) = with_checkpoints(6 << 20, 33);
    let (size, crc) = (whole.len(), crc32fast::hash(&whole));
    let place = tempfile::tempdir().unwrap();
    let input = place.path().join("x.whl");
    std::fs::write(&input, "input").unwrap();
    let resources = || Resources::with_index(1 << 30, Index::open(place.path(), &input));
    let (content, first) = member_of(&packed, size, crc, resources());
    content.check().unwrap();
    first.index.save().unwrap();
    let half = packed.len() / 2;
    packed[half..half + 4000].fill(0xff);
    let (prefix, _) = inflated_at_once(&packed, size);
    for offset in [0, prefix.len()] {
        let (content, _resources) = member_of(&packed, size, crc, resources());
        // This is where the index turns out to be of other bytes.
        read(&content, prefix.len(), 1).unwrap_err();
        assert_eq!(read(&content, offset, 1).is_ok(), offset < prefix.len());
        assert!(read(&content, 0, prefix.len()).unwrap() == prefix);
        assert!(reason(read(&content, size - 1, 1)).contains(&format!("at byte {} ", prefix.len())));
    }
}

#[test]
fn readahead_never_completes_the_pass_that_compares_the_checksum() {
    let (whole, packed) = with_checkpoints(4 << 20, 15);
    let (content, resources) = member(&packed, whole.len(), crc32fast::hash(&whole) ^ 1, 1 << 30);
    let last = whole.len() - to_usize(CHUNK);
    for offset in (0..last).step_by(128 << 10) {
        assert!(read(&content, offset, 128 << 10).unwrap() == whole[offset..offset + (128 << 10)]);
    }
    settle(&content);
    assert_eq!(resources.counters.bytes_inflated.get(), last as u64);
    assert!(read(&content, 0, last).unwrap() == whole[..last]);
    read(&content, last, 1).unwrap_err();
    read(&content, 0, 1).unwrap_err();
}

#[test]
fn an_empty_last_block_does_not_hide_the_checksum() {
    let whole = data(usize::try_from(2 * CHUNK).unwrap(), 13);
    let packed = deflated(&whole, 6, whole.len(), Z_FULL_FLUSH);
    let (content, _) = member(&packed, whole.len(), 1, 1 << 30);
    assert!(reason(read(&content, whole.len() - 1, 1)).contains("CRC-32"));
}
