use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;

use super::*;

fn identity(number: u64) -> Identity {
    Identity::describe("test").number(number).finish()
}

/// An input in a directory.
fn input() -> (tempfile::TempDir, PathBuf) {
    let place = tempfile::tempdir().unwrap();
    let input = place.path().join("x.whl");
    fs::write(&input, "input").unwrap();
    (place, input)
}

#[test]
fn what_was_put_is_there_in_the_next_session() {
    let (place, input) = input();
    let cache = place.path().join("cache/deep");
    let index = Index::open(&cache, &input);
    assert_eq!(index.get::<u64>(RecordKind::Scan, &identity(1)), None);
    index.save().unwrap();
    assert!(!cache.exists(), "nothing was put, so nothing is written");
    index.put(RecordKind::Scan, &identity(1), &7_u64);
    index.put(RecordKind::Digest, &identity(1), &"text");
    assert!(index.is_changed());
    index.save().unwrap();
    assert!(!index.is_changed());

    let next = Index::open(&cache, &input);
    assert_eq!(next.get::<u64>(RecordKind::Scan, &identity(1)), Some(7));
    assert_eq!(next.get::<String>(RecordKind::Digest, &identity(1)), Some("text".to_owned()));
    assert_eq!(next.get::<u64>(RecordKind::Digest, &identity(1)), None, "of another type");
    assert_eq!(next.get::<u64>(RecordKind::Scan, &identity(2)), None);
}

/// Names are bytes.
#[test]
fn an_input_may_have_any_path() {
    let place = tempfile::tempdir().unwrap();
    for name in [&b"\xff"[..], b"od\xffdir\n", "\u{e9}".as_bytes()] {
        let input = place.path().join(OsStr::from_bytes(name));
        fs::create_dir(&input).unwrap();
        let index = Index::open(place.path(), &input);
        index.put(RecordKind::Scan, &identity(1), &7_u64);
        index.save().unwrap();
        assert_eq!(Index::open(place.path(), &input).get::<u64>(RecordKind::Scan, &identity(1)), Some(7));
        let listed = crate::index::list(place.path()).unwrap();
        let found = listed.iter().find(|it| it.location.as_ref() == Some(&input.canonicalize().unwrap()));
        assert!(found.is_some_and(|it| it.is_usable), "{name:?}");
    }
}

/// Autosave runs while the session ends. A save that began earlier must not write later.
#[test]
fn one_saves_at_a_time() {
    let (place, input) = input();
    let index = Index::open(place.path(), &input);
    index.put(RecordKind::Scan, &identity(1), &1_u64);
    std::thread::scope(|scope| {
        let other = index.saving.lock();
        let waiting = scope.spawn(|| index.save().unwrap());
        (0..1000).for_each(|_| std::thread::yield_now());
        assert!(index.is_changed() && !waiting.is_finished());
        index.put(RecordKind::Scan, &identity(2), &2_u64);
        drop(other);
    });
    let next = Index::open(place.path(), &input);
    assert_eq!([1, 2].map(|number| next.get::<u64>(RecordKind::Scan, &identity(number))), [Some(1), Some(2)]);
}

#[test]
fn two_sessions_at_once_lose_nothing() {
    let (place, input) = input();
    let [one, two] = [(); 2].map(|()| Index::open(place.path(), &input));
    one.put(RecordKind::Scan, &identity(1), &1);
    two.put(RecordKind::Scan, &identity(2), &2);
    one.save().unwrap();
    two.save().unwrap();
    let next = Index::open(place.path(), &input);
    let found = [1, 2].map(|number| next.get::<u64>(RecordKind::Scan, &identity(number)));
    assert_eq!(found, [Some(1), Some(2)]);
}

#[test]
fn a_changed_input_and_a_damaged_index_start_anew() {
    let (place, input) = input();
    let index = Index::open(place.path(), &input);
    let file = index.file().unwrap().to_owned();
    index.put(RecordKind::Scan, &identity(1), &1);
    index.save().unwrap();
    let known = || Index::open(place.path(), &input).get::<u64>(RecordKind::Scan, &identity(1)).is_some();
    assert!(known());
    let good = fs::read(&file).unwrap();
    for at in 0..good.len() {
        let index = fs::File::options().write(true).open(&file).unwrap();
        index.write_all_at(&[good[at] ^ 0x20], at as u64).unwrap();
        assert!(!known(), "byte {at} is wrong");
        fs::write(&file, &good[..at]).unwrap();
        assert!(!known(), "{at} bytes only");
        fs::write(&file, &good).unwrap();
    }
    assert!(known());
    fs::write(&input, "other").unwrap();
    assert!(!known());
}

/// Several groups of small records, and large ones between them.
#[test]
fn damage_anywhere_loses_records_and_never_changes_one() {
    let (place, input) = input();
    let value = |number: u64| {
        let length = if number.is_multiple_of(7) { LARGE } else { LARGE - 100 };
        let bytes: Vec<u8> = (0..length as u64).map(|at| ((at * (number + 3)) >> 4).to_le_bytes()[0]).collect();
        serde_bytes::ByteBuf::from(bytes)
    };
    let values: Vec<_> = (0..14).map(value).collect();
    let index = Index::open(place.path(), &input);
    let all = || (0..).map(identity).zip(&values);
    all().for_each(|(identity, value)| index.put(RecordKind::Frames, &identity, value));
    index.save().unwrap();
    let file = index.file().unwrap();
    let good = fs::read(file).unwrap();
    let known = |bytes: &[u8]| {
        fs::write(file, bytes).unwrap();
        let next = Index::open(place.path(), &input);
        let found = all().filter_map(|(identity, value)| Some((next.get(RecordKind::Frames, &identity)?, value)));
        found.inspect(|(found, value): &(serde_bytes::ByteBuf, _)| assert_eq!(found, *value)).count()
    };
    let (mut at, mut blocks) = (8, Vec::new());
    while at < good.len() {
        let length = 45 + usize::try_from(u32::from_le_bytes(*good[at..].first_chunk().unwrap())).unwrap();
        blocks.push(at..at + length);
        at += length;
    }
    assert!(blocks.len() > 5 && known(&good) == values.len(), "{blocks:?}");
    for block in blocks {
        let before = known(&good[..block.start]);
        assert_eq!(known(&good[..block.end - 1]), before);
        for at in (block.start..block.start + 46).chain([block.start + block.len() / 2, block.end - 1]) {
            let found = known(&[&good[..at], &[good[at] ^ 1], &good[at + 1..]].concat());
            assert!((before..values.len()).contains(&found), "byte {at}: {found}, {before} are before it");
        }
    }
}

/// Records of block indexes can have many MB.
#[test]
fn large_records_leave_memory_when_they_are_saved_and_are_read_again() {
    let (place, input) = input();
    let large = |number: u64| serde_bytes::ByteBuf::from(vec![u8::try_from(number).unwrap(); LARGE]);
    let known = |index: &Index, number| index.get(RecordKind::Stream, &identity(number)) == Some(large(number));
    let resident = |index: &Index| index.records.iter().filter(|held| held.bytes.is_some()).count();
    let index = Index::open(place.path(), &input);
    index.put(RecordKind::Scan, &identity(1), &7_u64);
    index.put(RecordKind::Stream, &identity(2), &large(2));
    assert_eq!(resident(&index), 2);
    index.save().unwrap();
    assert_eq!(resident(&index), 1);
    assert!(known(&index, 2));
    // They are copied from the old file to the new one, even after the old one was unlinked. The next session does
    // the same.
    fs::remove_file(index.file().unwrap()).unwrap();
    index.put(RecordKind::Stream, &identity(3), &large(3));
    index.save().unwrap();
    let next = Index::open(place.path(), &input);
    assert_eq!(resident(&next), 1);
    next.put(RecordKind::Stream, &identity(4), &large(4));
    next.save().unwrap();
    assert!((2..5).all(|number| known(&next, number)));
    // Another session has saved without them.
    fs::remove_file(index.file().unwrap()).unwrap();
    let other = Index::open(place.path(), &input);
    other.put(RecordKind::Scan, &identity(5), &7_u64);
    other.save().unwrap();
    next.put(RecordKind::Stream, &identity(6), &large(6));
    next.save().unwrap();
    assert!(known(&next, 6) && known(&next, 2), "the file that was replaced is still open");
    assert_eq!(Index::open(place.path(), &input).get::<u64>(RecordKind::Scan, &identity(5)), Some(7));
}

/// The head of a large record is not checked before the record is read.
#[test]
fn a_damaged_large_record_is_none_and_the_others_stay() {
    let (place, input) = input();
    let index = Index::open(place.path(), &input);
    let large = serde_bytes::ByteBuf::from(vec![7; LARGE]);
    index.put(RecordKind::Rewritten, &identity(1), &1);
    index.put(RecordKind::Stream, &identity(2), &large);
    index.put(RecordKind::Digest, &identity(3), &3);
    index.save().unwrap();
    let file = index.file().unwrap();
    let good = fs::read(file).unwrap();
    let at = good.windows(16).position(|bytes| bytes == identity(2).0).unwrap() - 25;
    let length = 45 + usize::try_from(u32::from_le_bytes(*good[at..].first_chunk().unwrap())).unwrap();
    for byte in at..at + length {
        let damaged = [&good[..byte], &[good[byte] ^ 0x20], &good[byte + 1..]].concat();
        fs::write(file, damaged).unwrap();
        let next = Index::open(place.path(), &input);
        // A wrong day is found, too, as are records behind a block whose length is right.
        let found = next.get::<serde_bytes::ByteBuf>(RecordKind::Stream, &identity(2));
        assert_eq!((next.get(RecordKind::Rewritten, &identity(1)), found), (Some(1), None), "byte {}", byte - at);
        if byte - at >= 4 {
            assert_eq!(next.get(RecordKind::Digest, &identity(3)), Some(3), "byte {}", byte - at);
        }
        // Damage is not copied.
        next.put(RecordKind::Digest, &identity(4), &4);
        next.save().unwrap();
        let kept = fs::read(file).unwrap();
        assert!(!kept.windows(16).any(|bytes| bytes == identity(2).0), "byte {}", byte - at);
        assert_eq!(Index::open(place.path(), &input).get(RecordKind::Digest, &identity(4)), Some(4));
    }
}

#[test]
fn what_is_not_saved_is_bounded() {
    let (place, input) = input();
    let index = Index::open(place.path(), &input);
    let value = serde_bytes::ByteBuf::from(vec![1; 1 << 20]);
    for number in 0..20 {
        index.put(RecordKind::Stream, &identity(number), &value);
        let unsaved: u64 =
            index.records.iter().filter_map(|held| held.bytes.as_ref().map(|bytes| bytes.len() as u64)).sum();
        assert!(unsaved <= MAX_UNSAVED, "{unsaved}");
    }
}

#[test]
fn without_a_place_nothing_is_put_down() {
    let index = Index::default();
    index.put(RecordKind::Scan, &identity(1), &1);
    assert!(index.get::<u64>(RecordKind::Scan, &identity(1)).is_none() && !index.is_changed());
    index.save().unwrap();
}

#[test]
fn a_folder_that_cannot_be_written_is_an_error_and_costs_nothing_else() {
    let (_place, input) = input();
    let index = Index::open(&input.join("below a file"), &input);
    index.put(RecordKind::Scan, &identity(1), &1_u64);
    assert!(index.save().unwrap_err().to_string().contains("below a file"));
    assert!(index.is_changed());
    assert_eq!(index.get::<u64>(RecordKind::Scan, &identity(1)), Some(1));
}
