use std::io::Read;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::change::{ChangedRange, changes};
use super::plan::{StreamPart, plan};
use super::{DeflateLevel, Deflation, StreamDigests, splice};
use crate::metrics::Counters;
use crate::rope::testing::literal;
use crate::rope::{BlockBoundary, Content, Edit, Rope, Segment, Sha256, edited};
use crate::source::testing::{
    Z_DEFAULT_STRATEGY, Z_FIXED, Z_FULL_FLUSH, Z_HUFFMAN_ONLY, Z_NO_FLUSH, Z_PARTIAL_FLUSH, Z_SYNC_FLUSH, data,
    deflated, deflated_by, deflated_member,
};

/// Inflates with another decoder than ours. Also returns the number of compressed bytes used.
fn inflated(stream: &[u8]) -> (Vec<u8>, u64) {
    let mut decoder = flate2::bufread::DeflateDecoder::new(stream);
    let mut bytes = Vec::new();
    decoder.read_to_end(&mut bytes).unwrap();
    (bytes, decoder.total_in())
}

/// Checks a stream against its content, and returns its bytes.
fn check(deflation: &Deflation, expected: &[u8]) -> Vec<u8> {
    let stream = deflation.stream.to_vec().unwrap();
    assert_eq!(deflation.size, expected.len() as u64);
    assert_eq!(deflation.crc32, crc32fast::hash(expected));
    let (bytes, used) = inflated(&stream);
    assert!(bytes == expected);
    assert_eq!(used, stream.len() as u64);
    // Our own decoder checks the CRC-32, too.
    let member = deflated_member(&stream, deflation.size, deflation.crc32);
    let mut bytes = vec![0; expected.len()];
    member.read_at(0, &mut bytes).unwrap();
    assert!(bytes == expected);
    stream
}

#[derive(Clone, Debug)]
enum Kind {
    Cut,
    Patch,
    Literal(usize),
    Zeros(u64),
    /// Replaces bytes with themselves, except for one.
    Touch,
}

fn kind() -> impl Strategy<Value = (Index, Index, Kind)> {
    let change = prop_oneof![
        Just(Kind::Cut),
        Just(Kind::Patch),
        Just(Kind::Touch),
        (0_usize..3000).prop_map(Kind::Literal),
        (0_u64..200_000).prop_map(Kind::Zeros),
    ];
    (any::<Index>(), any::<Index>(), change)
}

/// Edits that do not overlap: each begins after the one before. Patches are short; all others have any length. Many are
/// at the end of the content.
fn edits(original: &Arc<dyn Content>, kinds: &[(Index, Index, Kind)]) -> Vec<Edit> {
    let size = usize::try_from(original.size()).unwrap();
    let start = |index: &Index| index.index(size + size / 8 + 1).min(size);
    let mut starts: Vec<_> = kinds.iter().map(|(index, ..)| start(index)).collect();
    starts.sort_unstable();
    starts.push(size);
    let mut edits = Vec::new();
    for ((_, length, kind), bounds) in kinds.iter().zip(starts.windows(2)) {
        let (start, room) = (bounds[0], bounds[1] - bounds[0]);
        let length = length.index(room + 1);
        let (start, end) = (start as u64, (start + length) as u64);
        edits.push(match kind {
            Kind::Cut => Edit::cut(start, end),
            Kind::Patch => Edit::patch(start, vec![0xa5; length.min(24)]),
            Kind::Literal(length) => Edit::replace(start, end, data(*length, start)),
            Kind::Zeros(length) => Edit { start, end, replacement: vec![Segment::zeros(*length)] },
            Kind::Touch => {
                let middle = u64::midpoint(start, end);
                let part = |start, end| Segment::range(Arc::clone(original), start, end - start).unwrap();
                let replacement = vec![part(start, middle), Segment::literal([7]), part((middle + 1).min(end), end)];
                Edit { start, end, replacement }
            }
        });
    }
    edits.reverse();
    edits
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_spliced_stream_inflates_to_what_the_edits_say(
        seed in any::<u64>(),
        size in 0_usize..2_500_000,
        level in select(vec![0, 1, 6, 9]),
        strategy in select(vec![Z_DEFAULT_STRATEGY, Z_DEFAULT_STRATEGY, Z_FIXED, Z_HUFFMAN_ONLY]),
        flush in select(vec![Z_NO_FLUSH, Z_NO_FLUSH, Z_PARTIAL_FLUSH, Z_SYNC_FLUSH, Z_FULL_FLUSH]),
        every in 1_000_usize..300_000,
        changes in prop::collection::vec(kind(), 0..5),
        again in prop::collection::vec(kind(), 0..3),
        (a, b) in any::<(Index, Index)>(),
    ) {
        let whole = data(size, seed);
        let packed = deflated_by(&whole, level, strategy, every, flush);
        let original = deflated_member(&packed, size as u64, crc32fast::hash(&whole));
        let counters = Counters::default();
        let changes = edits(&original, &changes);
        let expected = edited(&original, changes.clone()).unwrap().to_vec().unwrap();
        let spliced = splice(&original, &changes, DeflateLevel::default(), None, &counters).unwrap().unwrap();
        let stream = check(&spliced, &expected);
        prop_assert!(counters.bytes_deflated.get() <= expected.len() as u64);
        let sums = Some(StreamDigests::default());
        let hashed = splice(&original, &changes, DeflateLevel::default(), sums, &counters).unwrap().unwrap();
        let mut sum = Sha256::default();
        sum.update(&expected);
        prop_assert!(hashed.stream.to_vec().unwrap() == stream && hashed.sha256 == Some(sum.finish()));

        let (a, b) = (a.index(stream.len() + 1), b.index(stream.len() + 1));
        let (start, end) = (a.min(b), a.max(b));
        let mut part = vec![0; end - start];
        spliced.stream.read_at(start as u64, &mut part).unwrap();
        prop_assert!(part == stream[start..end]);

        // A spliced stream can be spliced again.
        let original = deflated_member(&stream, spliced.size, spliced.crc32);
        let changes = edits(&original, &again);
        let expected = edited(&original, changes.clone()).unwrap().to_vec().unwrap();
        check(&splice(&original, &changes, DeflateLevel::default(), None, &counters).unwrap().unwrap(), &expected);
    }

    #[test]
    fn a_plan_covers_the_new_content_once(
        steps in prop::collection::vec((1_u64..100_000, 1_u64..60_000), 0..40),
        kinds in prop::collection::vec(kind(), 0..6),
    ) {
        let mut boundaries = vec![BlockBoundary::default()];
        for (output, bits) in steps {
            let last = boundaries[boundaries.len() - 1];
            boundaries.push(BlockBoundary { output: last.output + output, bit: last.bit + bits, crc32: 0 });
        }
        let size = boundaries[boundaries.len() - 1].output;
        let original: Arc<dyn Content> = Arc::new(Rope::new([Segment::zeros(size)]).unwrap());
        let edits = edits(&original, &kinds);
        let new_size = edited(&original, edits.clone()).unwrap().size();
        let changes = changes(&*original, &edits).unwrap();
        let mut at = 0;
        for part in plan(&changes, &boundaries, size) {
            match part {
                StreamPart::Encoded(range) => {
                    prop_assert!(range.start == at && range.end > at);
                    at = range.end;
                }
                StreamPart::Reused(from, to) => {
                    // The final block is only at the end.
                    prop_assert!(to.output < size || to != boundaries[boundaries.len() - 1] || at + to.output - from.output == new_size);
                    // Neither the blocks nor the 32 KiB before them are changed.
                    let history = from.output.saturating_sub(32 << 10);
                    let outside = |change: &ChangedRange| change.end <= history || change.start >= to.output;
                    prop_assert!(changes.iter().all(outside), "{changes:?} {from:?} {to:?}");
                    at += to.output - from.output;
                }
            }
        }
        prop_assert_eq!(at, new_size);
    }
}

#[test]
fn little_is_encoded_again() {
    let whole = data(8 << 20, 5);
    let packed = deflated(&whole, 6, whole.len(), Z_NO_FLUSH);
    let original = deflated_member(&packed, whole.len() as u64, crc32fast::hash(&whole));
    let boundaries = original.member().unwrap().block_boundaries().unwrap().unwrap();
    let longest = boundaries.windows(2).map(|pair| pair[1].output - pair[0].output).max().unwrap();
    assert_eq!(boundaries[0], BlockBoundary::default());
    let end = BlockBoundary { bit: packed.len() as u64 * 8, output: 8 << 20, crc32: crc32fast::hash(&whole) };
    assert_eq!(*boundaries.last().unwrap(), end);

    // Without changes nothing is encoded: the result is the same stream.
    let counters = Counters::default();
    for edits in [vec![], vec![Edit::cut(7, 7)]] {
        let spliced = splice(&original, &edits, DeflateLevel::default(), None, &counters).unwrap().unwrap();
        assert_eq!(check(&spliced, &whole), packed);
    }
    assert_eq!(counters.bytes_deflated.get(), 0);

    // A patch costs its block, and up to 32 KiB and a block after it.
    let edits = [Edit::patch(3 << 20, *b"kpackfs")];
    let expected = edited(&original, edits.to_vec()).unwrap().to_vec().unwrap();
    check(&splice(&original, &edits, DeflateLevel::default(), None, &counters).unwrap().unwrap(), &expected);
    assert!(counters.bytes_deflated.get() < (32 << 10) + 2 * longest, "{}", counters.bytes_deflated.get());

    // An insertion at the beginning: no history, no loss.
    let counters = Counters::default();
    let edits = [Edit::replace(0, 0, *b"kpackfs")];
    let expected = [&b"kpackfs"[..], &whole].concat();
    check(&splice(&original, &edits, DeflateLevel::default(), None, &counters).unwrap().unwrap(), &expected);
    assert_eq!(counters.bytes_deflated.get(), 7);

    // An addition at the end: the final block is encoded again, with everything that shares its boundary.
    let counters = Counters::default();
    let edits = [Edit::replace(8 << 20, 8 << 20, *b"kpackfs")];
    let expected = [&whole, &b"kpackfs"[..]].concat();
    check(&splice(&original, &edits, DeflateLevel::default(), None, &counters).unwrap().unwrap(), &expected);
    assert!((8..7 + longest + 1).contains(&counters.bytes_deflated.get()), "{}", counters.bytes_deflated.get());

    // The end truncated at a block boundary: only the final block is new.
    let counters = Counters::default();
    let middle = boundaries[boundaries.len() / 2].output;
    let edits = [Edit::cut(middle, 8 << 20)];
    check(
        &splice(&original, &edits, DeflateLevel::default(), None, &counters).unwrap().unwrap(),
        &whole[..usize::try_from(middle).unwrap()],
    );
    assert_eq!(counters.bytes_deflated.get(), 0);
}

#[test]
fn what_edits_do_not_change_is_not_encoded_again() {
    let content = literal(data(1 << 20, 9));
    let mut bytes = data(1 << 20, 9);
    for at in [1000, 1300, 30_000, 62_999, 200_000, 800_000] {
        bytes[at] ^= 1;
    }
    let same = Edit::patch(900_000, bytes[900_000..].to_vec());
    let other = Edit::patch(100, bytes[100..900_000].to_vec());
    let found = changes(&*content, &[same, Edit::cut(50, 50), other, Edit::cut(20, 30)]).unwrap();
    let change = |start, end| ChangedRange { start, end, added: end - start };
    let patched = [change(868, 30_052), change(62_820, 63_076), change(199_780, 200_036), change(799_844, 800_100)];
    assert_eq!(found, [&[ChangedRange { start: 20, end: 30, added: 0 }][..], &patched].concat());
}

#[test]
fn what_cannot_be_spliced_is_left_to_the_caller() {
    let counters = Counters::default();
    assert!(splice(&literal(b"stored"), &[], DeflateLevel::default(), None, &counters).unwrap().is_none());
    let whole = vec![0; 100];
    let original = deflated_member(&deflated(&whole, 6, 100, Z_NO_FLUSH), 100, crc32fast::hash(&whole));
    assert!(splice(&original, &[Edit::cut(90, 101)], DeflateLevel::default(), None, &counters).is_err());
    let zeros = Edit { start: 0, end: 100, replacement: vec![Segment::zeros(super::MAX_SPLICED + 1)] };
    assert!(splice(&original, &[zeros], DeflateLevel::default(), None, &counters).unwrap().is_none());
    let nothing = splice(&original, &[Edit::cut(0, 100)], DeflateLevel::default(), None, &counters).unwrap().unwrap();
    assert_eq!(check(&nothing, &[]), [3, 0]);
    let damaged = deflated_member(&[7], 100, 0);
    assert!(splice(&damaged, &[], DeflateLevel::default(), None, &counters).is_err());
}
