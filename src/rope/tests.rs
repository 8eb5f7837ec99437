use std::sync::Arc;

use proptest::prelude::*;

use super::testing::literal;
use super::*;

#[derive(Clone, Debug)]
enum AnyPiece {
    Literal(Vec<u8>),
    Range(Vec<u8>, usize, usize),
    Zeros(u8),
}

fn piece() -> impl Strategy<Value = AnyPiece> {
    let bytes = proptest::collection::vec(any::<u8>(), 0..40);
    prop_oneof![
        bytes.clone().prop_map(AnyPiece::Literal),
        (bytes, any::<prop::sample::Index>(), any::<prop::sample::Index>()).prop_map(|(bytes, a, b)| {
            let (a, b) = (a.index(bytes.len() + 1), b.index(bytes.len() + 1));
            AnyPiece::Range(bytes, a.min(b), a.max(b))
        }),
        any::<u8>().prop_map(AnyPiece::Zeros),
    ]
}

proptest! {
    #[test]
    fn any_read_is_a_slice_of_the_whole(pieces in proptest::collection::vec(piece(), 0..12), a in any::<prop::sample::Index>(), b in any::<prop::sample::Index>()) {
        let mut whole = Vec::new();
        let mut segments = Vec::new();
        for piece in pieces {
            match piece {
                AnyPiece::Literal(bytes) => { whole.extend(&bytes); segments.push(Segment::literal(bytes)); }
                AnyPiece::Range(bytes, start, end) => {
                    whole.extend(&bytes[start..end]);
                    segments.push(Segment::range(literal(&bytes), start as u64, (end - start) as u64).unwrap());
                }
                AnyPiece::Zeros(n) => { whole.extend(std::iter::repeat_n(0, n.into())); segments.push(Segment::zeros(n.into())); }
            }
        }
        let rope = Rope::new(segments).unwrap();
        prop_assert_eq!(rope.size(), whole.len() as u64);
        let (a, b) = (a.index(whole.len() + 1), b.index(whole.len() + 1));
        let (start, end) = (a.min(b), a.max(b));
        let mut read = vec![0xAA; end - start];
        rope.read_at(start as u64, &mut read).unwrap();
        prop_assert_eq!(read, &whole[start..end]);
    }

    #[test]
    fn edits_equal_splicing_a_vector(bytes in proptest::collection::vec(any::<u8>(), 0..200), cuts in proptest::collection::vec((any::<prop::sample::Index>(), proptest::collection::vec(any::<u8>(), 0..9)), 0..6)) {
        let mut points: Vec<_> = cuts.iter().map(|(index, _)| index.index(bytes.len() + 1)).collect();
        points.sort_unstable();
        points.dedup();
        points.dedup();
        let mut expected: Vec<u8> = Vec::new();
        let mut edits = Vec::new();
        let mut at = 0;
        for (pair, (_, new)) in points.chunks_exact(2).zip(&cuts) {
            expected.extend(&bytes[at..pair[0]]);
            expected.extend(new);
            at = pair[1];
            edits.push(Edit::replace(pair[0] as u64, pair[1] as u64, new.clone()));
        }
        expected.extend(&bytes[at..]);
        edits.reverse();
        prop_assert_eq!(edited(&literal(&bytes), edits).unwrap().to_vec().unwrap(), expected);
    }
}

#[test]
fn nothing_is_read_outside() {
    let rope = Rope::new([Segment::literal(*b"abc"), Segment::zeros(2)]).unwrap();
    assert!(matches!(rope.read_at(4, &mut [0; 2]), Err(ReadError::OutOfRange { .. })));
    assert!(matches!(rope.read_at(u64::MAX, &mut [0; 2]), Err(ReadError::OutOfRange { .. })));
    assert!(rope.read_at(5, &mut []).is_ok());
    assert!(matches!(Segment::range(Arc::new(rope), 3, 3), Err(ReadError::OutOfRange { .. })));
}

#[test]
fn a_rope_longer_than_a_file_can_be_is_refused() {
    assert!(Rope::new([Segment::zeros(i64::MAX.unsigned_abs()), Segment::zeros(1)]).is_err());
}

#[test]
fn overlapping_edits_are_refused() {
    let edits = vec![Edit::patch(1, *b"xy"), Edit::cut(2, 3)];
    assert!(matches!(edited(&literal(b"abcdef"), edits), Err(EditError::Overlap(2))));
    assert!(edited(&literal(b"abc"), vec![Edit::cut(2, 9)]).is_err());
}
