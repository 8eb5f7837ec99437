use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;

use super::{DeflatedContent, Uncompressed, deflate};
use crate::deflate::{BLOCK, DeflateLevel};
use crate::index::Index;
use crate::resources::Resources;
use crate::rope::{Content, Identity, LazyContent, Rope, Segment, Sha256};
use crate::source::testing::data;

const SIZE: usize = 1 << 20;

/// A content with an identity, so that facts about it are recorded.
fn content(bytes: &[u8], is_hashed: bool) -> Uncompressed {
    let identity = Identity::describe("test").add(bytes).finish();
    let rope = Rope::new([Segment::literal(bytes)]).unwrap();
    let content = Arc::new(LazyContent::done("test", Some(identity), rope));
    Uncompressed { entry: "test".into(), content, is_hashed }
}

/// Deflates with this many threads.
fn deflated(
    contents: &[Vec<u8>],
    level: DeflateLevel,
    threads: usize,
    resources: &Arc<Resources>,
) -> Vec<DeflatedContent> {
    let contents: Vec<_> = contents.iter().map(|bytes| content(bytes, true)).collect();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    pool.install(|| deflate(contents, level, resources, &AtomicU64::new(0)).unwrap())
}

fn streams(made: &[DeflatedContent]) -> Vec<Vec<u8>> {
    made.iter().map(|made| made.stream.to_vec().unwrap()).collect()
}

/// Inflates with another decoder than ours, which must use the whole stream.
fn inflated(stream: &[u8]) -> Vec<u8> {
    let mut decoder = flate2::bufread::DeflateDecoder::new(stream);
    let mut bytes = Vec::new();
    decoder.read_to_end(&mut bytes).unwrap();
    assert_eq!(decoder.total_in(), stream.len() as u64);
    bytes
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut sum = Sha256::default();
    sum.update(bytes);
    sum.finish()
}

/// Removes all blocks from memory.
fn forget(resources: &Resources) {
    (0..1000).for_each(|id| resources.frames.remove(&id));
}

/// Sizes at the boundaries of blocks and of windows, and others.
fn size() -> impl Strategy<Value = usize> {
    prop_oneof![
        (0_usize..3, -2_isize..3).prop_map(|(blocks, more)| (blocks * SIZE).saturating_add_signed(more)),
        (-2_isize..3).prop_map(|more| (SIZE + (32 << 10)).saturating_add_signed(more)),
        0_usize..2000,
        0_usize..2_500_000,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn a_stream_inflates_to_its_content_and_depends_on_nothing_else(
        contents in prop::collection::vec((size(), any::<u64>()), 1..5),
        level in 1_u8..10,
        (a, b) in any::<(prop::sample::Index, prop::sample::Index)>(),
    ) {
        let level = DeflateLevel::new(level).unwrap();
        let contents: Vec<_> = contents.into_iter().map(|(size, seed)| data(size, seed)).collect();
        let total: usize = contents.iter().map(Vec::len).sum();
        let resources = Resources::new(64 << 20);
        let made = deflated(&contents, level, 1, &resources);
        let expected = streams(&made);
        for ((content, made), stream) in contents.iter().zip(&made).zip(&expected) {
            prop_assert!(inflated(stream) == *content);
            prop_assert_eq!((made.crc32, made.sha256), (crc32fast::hash(content), Some(sha256(content))));
            let (a, b) = (a.index(stream.len() + 1), b.index(stream.len() + 1));
            let mut part = vec![0; a.abs_diff(b)];
            made.stream.read_at(a.min(b) as u64, &mut part).unwrap();
            prop_assert!(part == stream[a.min(b)..a.max(b)]);
        }
        prop_assert_eq!(resources.counters.bytes_deflated.get(), total as u64);
        // Blocks that were lost are made again, each by an encoder of its own.
        forget(&resources);
        prop_assert!(streams(&made) == expected);
        prop_assert_eq!(resources.counters.bytes_deflated.get(), 2 * total as u64);

        let others = Resources::new(64 << 20);
        prop_assert!(streams(&deflated(&contents, level, 4, &others)) == expected);
        prop_assert_eq!(others.counters.bytes_deflated.get(), total as u64);
        prop_assert_eq!(others.budget.gauges().compression, 0);
        // Alone or with others, in memory for two blocks.
        let last = contents.last().cloned().unwrap();
        let least = Resources::new(4 << 20);
        prop_assert!(streams(&deflated(&[last], level, 4, &least)) == expected[expected.len() - 1..]);
    }
}

/// The bytes of wheels depend on these. If zlib-rs or the size of a block changes, wheels of one input and version differ
/// between releases: say so in CHANGELOG.md.
#[test]
fn the_bytes_are_those_of_other_machines_and_releases() {
    let content = [data(2 * SIZE + 12_345, 7), vec![0; 100_000], data(70_000, 8)].concat();
    let digest = |level| {
        let made =
            deflated(std::slice::from_ref(&content), DeflateLevel::new(level).unwrap(), 2, &Resources::new(64 << 20));
        u64::from_be_bytes(*sha256(&streams(&made)[0]).first_chunk().unwrap())
    };
    assert_eq!([1, 2, 3, 4, 5, 6, 7, 8, 9].map(digest), GOLDEN);
    assert!(
        DeflateLevel::new(0).is_none()
            && DeflateLevel::new(10).is_none()
            && DeflateLevel::default() == DeflateLevel::new(6).unwrap()
    );
    // The version is a part of each identity in the index.
    let pinned = super::super::block::ENCODER.replace("zlib-rs ", "zlib-rs = { version = \"=");
    assert!(include_str!("../../Cargo.toml").contains(&format!("\n{pinned}\"")), "{pinned}");
}

/// The first bytes of the SHA-256 for each level.
const GOLDEN: [u64; 9] = [
    0x34a1_5a49_640f_68b0,
    0xe33d_b030_e3d2_2e95,
    0x07df_b46c_746b_6721,
    0xcc81_18a0_8cba_860f,
    0x7d83_9cdf_3602_4277,
    0x0335_acff_3c3d_2181,
    0x9ac1_53e1_2feb_5428,
    0x9cad_3480_4d3f_7923,
    0x5607_4700_bcfb_fe27,
];

#[test]
fn a_stream_is_within_a_percent_of_one_without_blocks() {
    let content = data(3 * SIZE, 11);
    let made = deflated(std::slice::from_ref(&content), DeflateLevel::default(), 2, &Resources::new(64 << 20));
    let whole = crate::source::testing::deflated(&content, 6, content.len(), crate::source::testing::Z_NO_FLUSH);
    assert!(made[0].stream.size() * 100 <= whole.len() as u64 * 101, "{} {}", made[0].stream.size(), whole.len());
}

#[test]
fn what_the_index_knows_is_not_deflated_before_it_is_read() {
    let place = tempfile::tempdir().unwrap();
    let input = place.path().join("input");
    std::fs::write(&input, "x").unwrap();
    let resources = || Resources::with_index(64 << 20, Index::open(place.path(), &input));
    let contents = [data(SIZE + 1, 1), data(100, 2), Vec::new()];
    let first = resources();
    let expected = streams(&deflated(&contents, DeflateLevel::default(), 2, &first));
    first.index.save().unwrap();

    let second = resources();
    let made = deflated(&contents, DeflateLevel::default(), 2, &second);
    assert_eq!(second.counters.bytes_deflated.get(), 0);
    assert!(made.iter().all(|made| made.sha256.is_none()));
    let sizes: Vec<_> = made.iter().map(|made| usize::try_from(made.stream.size()).unwrap()).collect();
    assert_eq!(sizes, expected.iter().map(Vec::len).collect::<Vec<_>>());
    let crcs: Vec<_> = made.iter().map(|made| made.crc32).collect();
    assert_eq!(crcs, contents.iter().map(|content| crc32fast::hash(content)).collect::<Vec<_>>());
    assert!(streams(&made) == expected);
    // Another level is another stream.
    deflated(&contents[1..2], DeflateLevel::new(9).unwrap(), 2, &second);
    assert_eq!(second.counters.bytes_deflated.get(), SIZE as u64 + 1 + 100 + 100);

    // Before an output is written, the blocks have to be there as well.
    let third = resources();
    third.store.spool_to(place.path());
    deflated(&contents[..1], DeflateLevel::default(), 2, &third);
    assert_eq!(third.counters.bytes_deflated.get(), SIZE as u64 + 1);
}

/// A content that cannot be read from this offset on.
#[derive(Debug)]
struct Torn(u64);

impl Content for Torn {
    fn size(&self) -> u64 {
        5 * BLOCK
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), crate::rope::ReadError> {
        if offset + buffer.len() as u64 > self.0 {
            return Err(crate::rope::ReadError::damaged(&"torn".into(), "it ends"));
        }
        buffer.fill(1);
        Ok(())
    }
}

#[test]
fn an_error_ends_the_work_and_nobody_waits() {
    for torn in [0, BLOCK, 4 * BLOCK] {
        let contents = vec![
            content(&data(2 * SIZE, 1), false),
            Uncompressed { entry: "torn".into(), content: Arc::new(Torn(torn)), is_hashed: true },
        ];
        let (resources, done) = (Resources::new(64 << 20), AtomicU64::new(0));
        let error = deflate(contents, DeflateLevel::default(), &resources, &done).unwrap_err();
        assert_eq!(error.to_string(), "torn: it ends");
        assert_eq!(done.load(Ordering::Relaxed), resources.counters.bytes_deflated.get());
        assert_eq!(resources.budget.gauges().compression, 0);
    }
}

/// With this content and a state of zlib-rs that was reset, the second block differs from one that is made alone.
#[test]
fn a_block_does_not_depend_on_those_before_it() {
    let content = data(SIZE + (32 << 10), 15_890_930_442_990_449_774);
    let resources = Resources::new(64 << 20);
    let made = deflated(&[content], DeflateLevel::new(3).unwrap(), 1, &resources);
    let expected = streams(&made);
    forget(&resources);
    assert!(streams(&made) == expected);
}
