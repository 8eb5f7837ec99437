use std::sync::atomic::Ordering;
use std::sync::{Arc, Barrier};

use proptest::prelude::*;

use super::{AHEAD, CHUNK, Deflated};
use crate::resources::Resources;
use crate::rope::{Content, Identity, PackedContent, ReadError, Rope, Segment, Sha256};
use crate::source::EntryPath;
use crate::source::decoders::Decoders;
use crate::source::facts::MemberFacts;
use crate::source::inflate::testing::{Z_FULL_FLUSH, Z_NO_FLUSH, Z_PARTIAL_FLUSH, Z_SYNC_FLUSH, deflated};
use crate::source::stream::Stream;
use crate::source::testing::{data, opened};

pub(in crate::source) fn member(packed: &[u8], size: usize, crc32: u32, budget: u64) -> (Deflated, Arc<Resources>) {
    member_of(packed, size, crc32, Resources::new(budget))
}

pub(in crate::source) fn member_of(
    packed: &[u8],
    size: usize,
    crc32: u32,
    resources: Arc<Resources>,
) -> (Deflated, Arc<Resources>) {
    let stream = Stream {
        entry: EntryPath::root().child(b"x"),
        packed: Arc::new(Rope::new([Segment::literal(packed)]).unwrap()),
        size: size as u64,
        crc32,
        identity: Identity::describe("test").finish(),
        hashes: Some(Arc::default()),
        resources: Arc::clone(&resources),
    };
    (opened(stream, &Decoders::new(&resources.budget), MemberFacts::default()), resources)
}

fn hash_in_passing(content: &Deflated) {
    content.stream().hashes.as_ref().unwrap().store(true, Ordering::Relaxed);
}

pub(in crate::source) fn read(content: &dyn Content, offset: usize, length: usize) -> Result<Vec<u8>, ReadError> {
    let mut buffer = vec![0xee; length];
    content.read_at(offset as u64, &mut buffer).map(|()| buffer)
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
fn a_giant_block_is_decoded_once_by_who_reads_on_and_held_in_chunks_only() {
    let (packed, size) = giant_block(160_000);
    let (content, resources) = member(&packed, size, crc32fast::hash(&vec![0; size]), 64 * CHUNK);
    assert!(resources.spans.capacity() < size as u64 / 8);
    for offset in (0..size).step_by(100_000) {
        let length = 100_000.min(size - offset);
        assert_eq!(read(&content, offset, length).unwrap(), vec![0; length]);
    }
    assert_eq!(resources.counters.bytes_inflated.get(), size as u64);
    for (offset, length) in [(size - 10, 10), (0, 1 << 20), (17 << 20, 300_000)] {
        assert_eq!(read(&content, offset, length).unwrap(), vec![0; length]);
    }
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
        prop_assert_eq!(content.block_boundaries().unwrap().unwrap().last().unwrap().output, size as u64);
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

/// Content whose blocks are short enough for checkpoints at their least distance.
pub(in crate::source) fn with_checkpoints(size: usize, seed: u64) -> (Vec<u8>, Vec<u8>) {
    let whole = data(size, seed);
    let packed = deflated(&whole, 6, 100_000, Z_NO_FLUSH);
    (whole, packed)
}

#[test]
fn the_index_grows_as_far_as_somebody_has_read() {
    let (whole, packed) = with_checkpoints(9 << 20, 3);
    let (content, resources) = member(&packed, whole.len(), crc32fast::hash(&whole), 1 << 30);
    let inflated = || resources.counters.bytes_inflated.get();
    read(&content, 2 << 20, 1).unwrap();
    assert_eq!(inflated(), (2 << 20) + CHUNK);
    read(&content, (1 << 20) + 1, 1 << 20).unwrap();
    assert_eq!(inflated(), (2 << 20) + CHUNK, "what came just before is kept");
    content.block_boundaries().unwrap();
    assert_eq!(inflated(), whole.len() as u64);
    content.block_boundaries().unwrap();
    assert_eq!(inflated(), whole.len() as u64);
}

#[test]
fn reading_on_decodes_everything_once_with_room_for_a_few_chunks() {
    let (whole, packed) = with_checkpoints(9 << 20, 3);
    for chunks in [1, 3, 40] {
        let (content, resources) = member(&packed, whole.len(), crc32fast::hash(&whole), 16 * chunks * CHUNK);
        assert_eq!(resources.spans.capacity(), chunks * CHUNK);
        // Forty hold all of it.
        let decoded = |round| whole.len() as u64 * if chunks == 40 { 1 } else { round };
        for round in 1..4 {
            for offset in (0..whole.len()).step_by(64 << 10) {
                let length = (whole.len() - offset).min(64 << 10);
                assert!(read(&content, offset, length).unwrap() == whole[offset..offset + length]);
            }
            assert_eq!(resources.counters.bytes_inflated.get(), decoded(round), "{chunks} chunks");
        }
    }
}

#[test]
fn a_far_read_decodes_from_the_checkpoint_before_it_only() {
    let (whole, packed) = with_checkpoints(24 << 20, 3);
    let (content, resources) = member(&packed, whole.len(), crc32fast::hash(&whole), 0);
    let boundaries = content.block_boundaries().unwrap().unwrap();
    let checkpoints = content.chunks.checkpoints();
    assert!(checkpoints.len() > 3, "{checkpoints:?}");
    assert!(checkpoints.iter().all(|output| boundaries.iter().any(|boundary| boundary.output == *output)));
    for offset in (0..whole.len()).step_by(777_777).rev() {
        let before = resources.counters.bytes_inflated.get();
        assert_eq!(read(&content, offset, 1).unwrap(), whole[offset..=offset]);
        let start = offset as u64 / CHUNK * CHUNK;
        let from = checkpoints.iter().rfind(|&&output| output <= start).unwrap();
        let end = (start + CHUNK).min(whole.len() as u64);
        assert_eq!(resources.counters.bytes_inflated.get() - before, end - from);
    }
}

#[test]
fn block_boundaries_do_not_depend_on_who_read_what_when() {
    let (whole, packed) = with_checkpoints(6 << 20, 21);
    let crc = crc32fast::hash(&whole);
    let (straight, _) = member(&packed, whole.len(), crc, 0);
    let (hopping, resources) = member(&packed, whole.len(), crc, 0);
    // Other members take the decoder away in between, so that another one has to seek to its position.
    let (other, _) = member_of(&packed, whole.len(), crc, resources);
    for offset in (0..whole.len()).step_by(300_000) {
        read(&hopping, offset, 1).unwrap();
        hopping.chunks.decoders.clear();
        read(&other, offset, 1).unwrap();
    }
    let expected = straight.block_boundaries().unwrap();
    assert_eq!(hopping.block_boundaries().unwrap(), expected);
    assert_eq!(other.block_boundaries().unwrap(), expected);
    assert_eq!(hopping.chunks.checkpoints(), straight.chunks.checkpoints());
}

/// The same member, closed and opened again.
fn reopened(content: &Deflated) -> Deflated {
    opened(content.stream().clone(), &content.chunks.decoders, content.idle_facts().unwrap())
}

#[test]
fn the_index_of_a_closed_member_is_built_again() {
    let (whole, packed) = with_checkpoints(6 << 20, 21);
    let (content, resources) = member(&packed, whole.len(), crc32fast::hash(&whole), 64 << 20);
    let (boundaries, checkpoints) = (content.block_boundaries().unwrap(), content.chunks.checkpoints());
    assert!(checkpoints.len() > 1);
    let before = resources.budget.gauges().streams;
    let again = reopened(&content);
    drop(content);
    assert!(resources.budget.gauges().streams < before && again.chunks.checkpoints() == [0]);
    assert!(read(&again, 3 << 20, 999).unwrap() == whole[3 << 20..][..999]);
    assert_eq!(again.block_boundaries().unwrap(), boundaries);
    assert_eq!(again.chunks.checkpoints(), checkpoints);
}

/// Waits until no readahead is running.
pub(in crate::source) fn settle(content: &Deflated) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(300);
    while content.chunks.decoders.ahead.load(Ordering::Relaxed) > 0 {
        assert!(std::time::Instant::now() < deadline);
        std::thread::yield_now();
    }
}

#[test]
fn reading_on_is_prepared_for() {
    let (whole, packed) = with_checkpoints(12 << 20, 15);
    let (content, resources) = member(&packed, whole.len(), crc32fast::hash(&whole), 1 << 30);
    assert!(!content.is_nonblocking(0, 1) && content.is_nonblocking(0, 0));
    for offset in (0..1 << 20).step_by(128 << 10) {
        read(&content, offset, 128 << 10).unwrap();
    }
    assert!(content.is_nonblocking(0, 1 << 20));
    let least = usize::try_from((AHEAD - AHEAD / 4) * CHUNK).unwrap();
    settle(&content);
    assert!(content.is_nonblocking(1 << 20, least));
    assert!(resources.counters.bytes_inflated.get() <= (1 << 20) + AHEAD * CHUNK, "and no farther");
    assert!(read(&content, 0, whole.len()).unwrap() == whole);
}

/// As of two programs that read one file at the same time.
#[test]
fn each_of_several_sequential_readers_is_prepared_for() {
    let (whole, packed) = with_checkpoints(16 << 20, 15);
    let (content, _resources) = member(&packed, whole.len(), crc32fast::hash(&whole), 1 << 30);
    content.block_boundaries().unwrap();
    let starts = [0, 5 << 20, 10 << 20];
    for offset in (0..1 << 20).step_by(128 << 10) {
        for start in starts {
            read(&content, start + offset, 128 << 10).unwrap();
        }
    }
    settle(&content);
    for start in starts {
        assert!(content.is_nonblocking((start + (1 << 20)) as u64, 1 << 20), "{start}");
    }
}

/// A content that panics when bytes beyond an offset are read.
#[derive(Debug)]
struct Panicking(Vec<u8>, u64);

impl Content for Panicking {
    fn size(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        assert!(offset + (buffer.len() as u64) < self.1, "on purpose");
        let start = usize::try_from(offset).unwrap();
        buffer.copy_from_slice(&self.0[start..start + buffer.len()]);
        Ok(())
    }
}

#[test]
fn a_panic_ahead_of_the_reader_ends_the_readahead() {
    let (whole, packed) = with_checkpoints(8 << 20, 15);
    let resources = Resources::new(1 << 30);
    let half = packed.len() as u64 / 2;
    let stream = Stream {
        entry: EntryPath::root().child(b"x"),
        packed: Arc::new(Panicking(packed, half)),
        size: whole.len() as u64,
        crc32: crc32fast::hash(&whole),
        identity: Identity::describe("test").finish(),
        hashes: Some(Arc::default()),
        resources: Arc::clone(&resources),
    };
    let content = opened(stream, &Decoders::new(&resources.budget), MemberFacts::default());
    for offset in (0..3 << 20).step_by(128 << 10) {
        read(&content, offset, 128 << 10).unwrap();
    }
    settle(&content);
    assert!(content.readers.lock().iter().all(|reader| !reader.lock().is_served));
}

#[test]
fn threads_share_the_work() {
    let (whole, packed) = with_checkpoints(8 << 20, 5);
    let crc = crc32fast::hash(&whole);
    for (budget, step) in [(1 << 30, 10_007), (1 << 30, 7_919_777), (20 << 20, 3_000_017), (0, 1_000_003)] {
        let (content, resources) = member(&packed, whole.len(), crc, budget);
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (content, whole) = (&content, &whole);
                scope.spawn(move || {
                    for turn in 0..40 {
                        let offset = (turn * step + thread * 1_048_573) % (whole.len() - 5000);
                        assert!(read(content, offset, 5000).unwrap() == whole[offset..offset + 5000]);
                    }
                });
            }
        });
        assert!(content.chunks.is_idle());
        if budget == 1 << 30 {
            // Each of the decodes that began at the same place may pass a chunk once.
            let inflated = resources.counters.bytes_inflated.get();
            assert!(inflated < 4 * whole.len() as u64, "{inflated}");
        }
    }
}

#[test]
fn who_asks_for_the_same_at_the_same_time_gets_it_decoded_once() {
    let (whole, packed) = with_checkpoints(6 << 20, 5);
    let (content, resources) = member(&packed, whole.len(), crc32fast::hash(&whole), 1 << 30);
    // With the index known, a reader that runs ahead of the others may start at a checkpoint. These are in step.
    let together = Barrier::new(8);
    for known in [false, true] {
        let before = resources.counters.bytes_inflated.get();
        for offset in (0..whole.len()).step_by(100_000) {
            let length = (whole.len() - offset).min(100_000);
            std::thread::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(|| {
                        together.wait();
                        assert!(read(&content, offset, length).unwrap() == whole[offset..offset + length]);
                    });
                }
            });
        }
        settle(&content);
        assert_eq!(resources.counters.bytes_inflated.get() - before, whole.len() as u64, "known: {known}");
        content.chunks.forget();
    }
}

#[test]
fn the_pass_that_builds_the_index_computes_the_sha256_if_that_is_wanted() {
    let (whole, packed) = with_checkpoints(6 << 20, 9);
    let (size, crc) = (whole.len(), crc32fast::hash(&whole));
    let mut sum = Sha256::default();
    sum.update(&whole);
    let sum = sum.finish();
    let (content, resources) = member(&packed, size, crc, 1 << 20);
    assert_eq!((content.sha256().unwrap(), resources.counters.bytes_inflated.get()), (None, 0));

    for reads in [&[][..], &[0, size / 2, 1 << 20], &[size - 10, 0]] {
        let resources = Resources::new(1 << 20);
        let (content, resources) = member_of(&packed, size, crc, resources);
        hash_in_passing(&content);
        for &offset in reads {
            read(&content, offset, 10).unwrap();
        }
        assert_eq!(content.sha256().unwrap(), Some(sum));
        let count = || (resources.counters.bytes_inflated.get(), resources.counters.bytes_hashed.get());
        let (inflated, hashed) = count();
        assert_eq!(hashed, size as u64, "{reads:?}");
        assert!(reads.len() > 1 || inflated == size as u64, "{inflated}");
        settle(&content);
        assert_eq!(
            (reopened(&content).sha256().unwrap(), count()),
            (Some(sum), (inflated, hashed)),
            "without its index"
        );
    }
    let (content, _) = member(&packed, size, crc ^ 1, 1 << 20);
    hash_in_passing(&content);
    assert!(content.sha256().is_err(), "a wrong CRC-32");
}

/// The dynamic loader reads a program at its beginning and at its end in turn, back and forth.
#[test]
fn reading_back_and_forth_through_more_than_the_usual_cache_inflates_little_again() {
    const PIECE: usize = 64 << 10;
    let size = 16 << 20;
    let whole = data(size, 7);
    let packed = deflated(&whole, 1, size, Z_NO_FLUSH);
    let (content, resources) = member(&packed, size, crc32fast::hash(&whole), 48 << 20);
    assert!(resources.spans.capacity() <= size as u64 / 4);
    let inflated = || resources.counters.bytes_inflated.get();
    let round = || {
        for step in (0..size / 2).step_by(96 << 10) {
            for offset in [step, size - step - PIECE] {
                assert_eq!(read(&content, offset, PIECE).unwrap(), whole[offset..offset + PIECE]);
            }
        }
    };
    (0..2).for_each(|_| round());
    let before = inflated();
    (0..4).for_each(|_| round());
    let again = inflated() - before;
    assert!(again < size as u64, "{again} bytes of {size} in four rounds");
}

#[test]
fn a_damaged_member_serves_no_captured_headers() {
    let mut whole = data(4096, 1);
    whole.extend(b"__CLANG_OFFLOAD_BUNDLE__");
    whole.resize(3 << 20, 7);
    let packed = deflated(&whole, 6, whole.len(), Z_NO_FLUSH);
    let bad = crc32fast::hash(&whole) ^ 1;
    let (content, _) = member(&packed, whole.len(), bad, 64 << 20);
    // What begins where the member does is inflated again otherwise.
    read(&content, 1 << 20, 1).unwrap();
    assert!(content.chunks.read_header(4096, &mut [0; 24]));
    read(&content, whole.len() - 1, 1).unwrap_err();
    read(&content, 4096, 24).unwrap_err();
}

/// Databases are compared with RECORD and copied as they are, so that nobody needs their blocks.
#[test]
fn a_pass_for_digests_inflates_once_and_leaves_no_index() {
    let whole = data((1 << 20) + 1000, 7);
    let packed = deflated(&whole, 6, whole.len(), Z_NO_FLUSH);
    let (content, resources) = member(&packed, whole.len(), crc32fast::hash(&whole), 1 << 20);
    hash_in_passing(&content);
    let mut sha256 = Sha256::default();
    sha256.update(&whole);
    assert_eq!(content.sha256().unwrap(), Some(sha256.finish()));
    content.check().unwrap();
    let counters = &resources.counters;
    assert_eq!((counters.bytes_inflated.get(), counters.bytes_hashed.get()), (whole.len() as u64, whole.len() as u64));
    assert!(content.export().is_none(), "there is no index");
    assert_eq!(read(&content, whole.len() - 9, 9).unwrap(), whole[whole.len() - 9..]);
}
