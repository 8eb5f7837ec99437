use std::sync::Arc;

use proptest::prelude::*;

use super::{Deflated, LONGEST_KEPT, SPAN};
use crate::index::Resources;
use crate::rope::{Content, Identity, ReadError, Rope, Segment};
use crate::source::decoder::{Stream, Tools};
use crate::source::inflate::testing::{Z_FULL_FLUSH, Z_NO_FLUSH, Z_PARTIAL_FLUSH, Z_SYNC_FLUSH, deflated};
use crate::source::testing::data;

fn member(packed: &[u8], size: usize, crc32: u32, budget: u64) -> (Deflated, Arc<Resources>) {
    let resources = Resources::new(budget);
    let stream = Stream {
        entry: "x".into(),
        packed: Arc::new(Rope::new([Segment::literal(packed)]).unwrap()),
        size: size as u64,
        identity: Identity::describe("test").finish(),
        tools: Arc::new(Tools::default()),
        resources: Arc::clone(&resources),
    };
    (Deflated::new(stream, crc32), resources)
}

fn read(content: &dyn Content, offset: usize, length: usize) -> Result<Vec<u8>, ReadError> {
    let mut buffer = vec![0xee; length];
    content.read_at(offset as u64, &mut buffer).map(|()| buffer)
}

fn reason(result: Result<Vec<u8>, ReadError>) -> String {
    match result.unwrap_err() {
        ReadError::Damaged { reason, .. } => reason.to_string(),
        other => panic!("{other:?}"),
    }
}

/// One block with fixed codes (RFC 1951, 3.2.6): a zero, then matches of length 258 and distance 1.
fn giant_block(matches: usize) -> (Vec<u8>, usize) {
    let mut bits: Vec<bool> = vec![true, true, false];
    let mut code = |code: u32, length: u32| bits.extend((0..length).rev().map(|bit| code >> bit & 1 == 1));
    code(0b0011_0000, 8);
    for _ in 0..matches {
        code(0b1100_0101, 8);
        code(0, 5);
    }
    code(0, 7);
    let byte = |bits: &[bool]| bits.iter().enumerate().fold(0, |byte, (at, &bit)| byte | u8::from(bit) << at);
    (bits.chunks(8).map(byte).collect(), 1 + 258 * matches)
}

#[test]
fn the_giant_block_is_what_it_says() {
    let (packed, size) = giant_block(10);
    let (content, _) = member(&packed, size, crc32fast::hash(&vec![0; size]), 1 << 20);
    assert_eq!(read(&content, 0, size).unwrap(), vec![0; size]);
}

#[test]
fn a_block_too_long_to_be_held_is_read_in_bounded_memory() {
    let (packed, size) = giant_block(160_000);
    assert!(size as u64 > 2 * LONGEST_KEPT);
    let (content, resources) = member(&packed, size, crc32fast::hash(&vec![0; size]), 1 << 30);
    for (offset, length) in [(size - 10, 10), (0, 1 << 20), (17 << 20, 300_000)] {
        assert_eq!(read(&content, offset, length).unwrap(), vec![0; length]);
    }
    assert_eq!(resources.spans.bytes(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn every_read_is_a_slice_of_the_whole(
        seed in any::<u64>(),
        size in 1_usize..5_000_000,
        level in 0..10,
        flush in prop::sample::select(vec![Z_NO_FLUSH, Z_PARTIAL_FLUSH, Z_SYNC_FLUSH, Z_FULL_FLUSH]),
        every in 1_000_usize..600_000,
        budget in prop::sample::select(vec![0_u64, 12 << 20, 1 << 30]),
        reads in prop::collection::vec((0.0..1.0, 0.0..1.0), 1..12),
    ) {
        let whole = data(size, seed);
        let packed = deflated(&whole, level, every, flush);
        let (content, resources) = member(&packed, size, crc32fast::hash(&whole), budget);
        let mut first = vec![0; size.min(64)];
        content.peek(&mut first).unwrap();
        prop_assert_eq!(&first, &whole[..first.len()]);
        prop_assert!(resources.counters.bytes_inflated.get() <= 64);
        #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        for (at, length) in reads {
            let offset = (size as f64 * at) as usize;
            let length = ((size - offset) as f64 * length * length) as usize;
            prop_assert!(read(&content, offset, length).unwrap() == whole[offset..offset + length]);
        }
        prop_assert!(read(&content, 0, size).unwrap() == whole);
        prop_assert!(read(&content, 1, size).is_err());
        prop_assert!(content.index().complete);
    }

    #[test]
    fn noise_is_refused_and_never_panics(
        noise in prop::collection::vec(any::<u8>(), 0..3000),
        size in 1_usize..100_000,
        cut in 0.0..1.0,
        flip in any::<prop::sample::Index>(),
    ) {
        let (content, _) = member(&noise, size, 0, 1 << 20);
        let _ = read(&content, size - 1, 1);
        let whole = data(size, 7);
        let crc = crc32fast::hash(&whole);
        let mut packed = deflated(&whole, 6, size, Z_NO_FLUSH);
        #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let kept = (packed.len() as f64 * cut) as usize;
        let (content, _) = member(&packed[..kept], size, crc, 1 << 20);
        prop_assert!(read(&content, 0, size).is_err());
        let at = flip.index(packed.len());
        packed[at] ^= 0x10;
        let (content, _) = member(&packed, size, crc, 1 << 20);
        if let Ok(bytes) = read(&content, 0, size) {
            prop_assert!(bytes == whole);
        }
    }
}

#[test]
fn the_index_grows_as_far_as_somebody_has_read() {
    let whole = data(9 << 20, 3);
    let packed = deflated(&whole, 6, whole.len(), Z_NO_FLUSH);
    let (content, resources) = member(&packed, whole.len(), crc32fast::hash(&whole), 1 << 30);
    read(&content, 2 << 20, 1).unwrap();
    let inflated = resources.counters.bytes_inflated.get();
    assert!((2 << 20..5 << 20).contains(&inflated), "{inflated}");
    read(&content, 0, 2 << 20).unwrap();
    assert_eq!(resources.counters.bytes_inflated.get(), inflated);
    read(&content, 0, whole.len()).unwrap();
    assert_eq!(resources.counters.bytes_inflated.get(), whole.len() as u64);
    assert!(content.index().starts.len() > 5);
    let (content, resources) = member(&packed, whole.len(), crc32fast::hash(&whole), 0);
    read(&content, 0, whole.len()).unwrap();
    let before = resources.counters.bytes_inflated.get();
    read(&content, 7 << 20, 1).unwrap();
    let one = resources.counters.bytes_inflated.get() - before;
    assert!((SPAN..3 * SPAN).contains(&one), "{one}");
}

#[test]
fn threads_share_the_work() {
    let whole = data(8 << 20, 5);
    let packed = deflated(&whole, 1, whole.len(), Z_NO_FLUSH);
    let (content, resources) = member(&packed, whole.len(), crc32fast::hash(&whole), 1 << 30);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (content, whole) = (&content, &whole);
            scope.spawn(move || {
                for turn in 0..200 {
                    let offset = (turn * 7_919_777 + thread * 1_048_573) % (whole.len() - 5000);
                    assert!(read(content, offset, 5000).unwrap() == whole[offset..offset + 5000]);
                }
            });
        }
    });
    read(&content, 0, whole.len()).unwrap();
    assert_eq!(resources.counters.bytes_inflated.get(), whole.len() as u64);
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
        (&packed[..packed.len() / 2], size, crc, "ends too early"),
        (&packed[..packed.len() - 1], size, crc, "ends too early"),
        (&[][..], size, crc, "ends too early"),
        (&[7][..], size, crc, "no valid deflate stream"),
    ] {
        let (content, _) = member(packed, size, crc, 1 << 30);
        if packed.len() > 1000 {
            read(&content, 0, 1000).unwrap();
        }
        for offset in [size - 1, 0] {
            let reason = reason(read(&content, offset, 1));
            assert!(reason.contains(expected), "{reason}");
        }
    }
}

#[test]
fn an_empty_last_block_does_not_hide_the_checksum() {
    let whole = data(usize::try_from(2 * SPAN).unwrap(), 13);
    let packed = deflated(&whole, 6, whole.len(), Z_FULL_FLUSH);
    let (content, _) = member(&packed, whole.len(), 1, 1 << 30);
    assert!(reason(read(&content, whole.len() - 1, 1)).contains("CRC-32"));
}
