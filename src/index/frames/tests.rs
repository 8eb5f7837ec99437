use std::fs;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::time::{Duration, SystemTime};

use proptest::prelude::*;

use super::*;

fn identity(number: u64) -> Identity {
    Identity::describe("test").number(number).finish()
}

fn frame(number: u64, length: usize) -> Vec<u8> {
    (0..length).map(|at| u8::try_from((at as u64 * 31 + number * 7 + at as u64 / 251) % 256).unwrap()).collect()
}

fn put(store: &FrameStore, number: u64, length: usize) -> bool {
    let frame = frame(number, length);
    store.put(&identity(number), frame.len() as u64, |write| write(&frame)).unwrap().is_some()
}

fn get(store: &FrameStore, number: u64) -> Option<io::Result<Vec<u8>>> {
    let location = store.get(&identity(number))?;
    let mut bytes = vec![0; usize::try_from(location.length()).unwrap()];
    Some(location.read_at(0, &mut bytes).map(|()| bytes))
}

fn is_there(store: &FrameStore, number: u64, length: usize) -> bool {
    get(store, number).is_some_and(|bytes| bytes.is_ok_and(|bytes| bytes == frame(number, length)))
}

fn store(cache: &Path, input: &str, capacity: u64) -> FrameStore {
    FrameStore::open(Some(cache), &cache.join(input), Some(capacity))
}

fn segments(cache: &Path, input: &str) -> Vec<PathBuf> {
    let folder = disk::folder(cache, &records::stem(&cache.join(input)));
    disk::segments(&folder).unwrap().into_iter().map(|segment| segment.path).collect()
}

#[test]
fn the_next_session_finds_what_was_kept_and_many_sessions_leave_one_segment() {
    let cache = tempfile::tempdir().unwrap();
    for session in 0..5 {
        let store = store(cache.path(), "a.whl", 1 << 30);
        for before in 0..session {
            assert!(is_there(&store, before, 50_000), "{before} in session {session}");
        }
        assert!(store.get(&identity(session)).is_none());
        assert!(put(&store, session, 50_000) && is_there(&store, session, 50_000));
        store.finish();
        assert_eq!(segments(cache.path(), "a.whl").len(), 1, "session {session}");
    }
    assert!(store(cache.path(), "b.whl", 1 << 30).get(&identity(0)).is_none(), "of another input");
    let mode = fs::metadata(&segments(cache.path(), "a.whl")[0]).unwrap();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode.permissions()) & 0o777, 0o600);
}

/// Two concurrent sessions, as of two daemons, with equal process ids or not.
#[test]
fn sessions_at_the_same_time_have_segments_of_their_own() {
    let cache = tempfile::tempdir().unwrap();
    let [one, two] = [(); 2].map(|()| store(cache.path(), "a.whl", 1 << 30));
    assert!(put(&one, 1, 1000) && put(&two, 2, 1000));
    assert_eq!(segments(cache.path(), "a.whl").len(), 2);
    one.finish();
    assert!(is_there(&two, 2, 1000));
    assert_eq!(segments(cache.path(), "a.whl").len(), 2, "the second one is in use");
    let three = store(cache.path(), "a.whl", 1 << 30);
    assert!(is_there(&three, 1, 1000) && is_there(&three, 2, 1000));
}

#[test]
fn a_session_that_was_killed_leaves_what_is_complete() {
    let cache = tempfile::tempdir().unwrap();
    let first = store(cache.path(), "a.whl", 1 << 30);
    for number in 0..4 {
        assert!(put(&first, number, 40_000));
    }
    drop(first);
    let path = segments(cache.path(), "a.whl").remove(0);
    let whole = fs::read(&path).unwrap();
    for kept in (0..whole.len()).step_by(997) {
        fs::write(&path, &whole[..kept]).unwrap();
        let store = store(cache.path(), "a.whl", 1 << 30);
        let complete = kept / (whole.len() / 4);
        for number in 0..4 {
            let is_complete = usize::try_from(number).unwrap() < complete;
            assert_eq!(is_there(&store, number, 40_000), is_complete, "{number} of {kept} bytes");
        }
    }
}

#[test]
fn flipped_bytes_are_noticed() {
    let cache = tempfile::tempdir().unwrap();
    let first = store(cache.path(), "a.whl", 1 << 30);
    assert!(put(&first, 0, 40_000) && put(&first, 1, 40_000));
    drop(first);
    let path = segments(cache.path(), "a.whl").remove(0);
    let whole = fs::read(&path).unwrap();
    for at in (0..whole.len()).step_by(53).chain(0..80) {
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.write_all_at(&[whole[at] ^ 0x10], at as u64).unwrap();
        let store = store(cache.path(), "a.whl", 1 << 30);
        for number in 0..2 {
            let bytes = get(&store, number).and_then(Result::ok);
            assert!(bytes.is_none_or(|bytes| bytes == frame(number, 40_000)), "byte {at}");
        }
        file.write_all_at(&[whole[at]], at as u64).unwrap();
    }
    let last = store(cache.path(), "a.whl", 1 << 30);
    assert!(is_there(&last, 0, 40_000));
    fs::File::options().write(true).open(&path).unwrap().set_len(60_000).unwrap();
    assert!(is_there(&last, 0, 40_000) && get(&last, 1).unwrap().is_err(), "truncated while it is open");
}

#[test]
fn what_is_damaged_is_left_out_when_segments_are_merged() {
    let cache = tempfile::tempdir().unwrap();
    let first = store(cache.path(), "a.whl", 1 << 30);
    assert!(put(&first, 0, 40_000) && put(&first, 1, 40_000));
    drop(first);
    let file = fs::File::options().write(true).open(&segments(cache.path(), "a.whl")[0]).unwrap();
    file.write_all_at(b"damaged", 20_000).unwrap();
    let second = store(cache.path(), "a.whl", 1 << 30);
    assert!(put(&second, 2, 40_000));
    second.finish();
    assert_eq!(segments(cache.path(), "a.whl").len(), 1);
    let third = store(cache.path(), "a.whl", 1 << 30);
    assert!(get(&third, 0).is_none() && is_there(&third, 1, 40_000) && is_there(&third, 2, 40_000));
}

#[test]
fn the_least_recently_used_input_is_evicted_and_none_that_is_in_use() {
    const FRAME: usize = 1 << 20;
    let cache = tempfile::tempdir().unwrap();
    for (age, input) in [(3, "a"), (1, "b"), (2, "c"), (9, "used")] {
        let store = store(cache.path(), input, 1 << 30);
        assert!(put(&store, 0, FRAME));
        drop(store);
        let file = fs::File::open(&segments(cache.path(), input)[0]).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(age * 1000)).unwrap();
    }
    let used = store(cache.path(), "used", 1 << 30);
    let path = segments(cache.path(), "used").remove(0);
    assert!(is_there(&used, 0, FRAME));
    fs::File::open(path).unwrap().set_modified(SystemTime::now() - Duration::from_secs(9000)).unwrap();
    let store = store(cache.path(), "new", 7 << 19);
    assert!(put(&store, 0, FRAME));
    let left: Vec<_> = ["a", "b", "c", "used", "new"].map(|input| segments(cache.path(), input).len()).into();
    assert_eq!(left, [0, 1, 0, 1, 1]);
    assert!(is_there(&used, 0, FRAME));
    assert_eq!(frames_usage(cache.path()).unwrap().inputs, 3);
}

#[test]
fn at_the_bound_nothing_is_appended() {
    let cache = tempfile::tempdir().unwrap();
    let small = store(cache.path(), "a", 100_000);
    assert!(small.has_room());
    assert!(put(&small, 0, 60_000) && !put(&small, 1, 60_000) && !small.has_room());
    assert!(put(&small, 2, 20_000) && is_there(&small, 0, 60_000));
    assert!(!put(&store(cache.path(), "b", 0), 0, 1));
    assert!(!put(&FrameStore::default(), 0, 1));
}

#[test]
fn only_our_own_files_are_removed() {
    let cache = tempfile::tempdir().unwrap();
    assert!(put(&store(cache.path(), "a", 1 << 30), 0, 1000));
    let used = store(cache.path(), "b", 1 << 30);
    assert!(put(&used, 0, 1000));
    let folder = disk::folder(cache.path(), "c");
    fs::create_dir_all(&folder).unwrap();
    fs::File::create(folder.join("x.segment")).unwrap().write_all(b"somebody else's").unwrap();
    fs::write(folder.join("y"), "y").unwrap();
    let removed = remove_frames(cache.path(), |_| true).unwrap();
    assert_eq!(removed.inputs, 1);
    assert!(is_there(&used, 0, 1000) && folder.join("x.segment").exists() && folder.join("y").exists());
    assert!(segments(cache.path(), "a").is_empty());
}

#[test]
fn a_writer_that_fails_leaves_nothing_and_does_not_hide_what_follows() {
    let cache = tempfile::tempdir().unwrap();
    let store = store(cache.path(), "a", 1 << 30);
    let failed = store.put(&identity(0), 5000, |write| write(&[1; 100]).and(Err(io::Error::other("on purpose"))));
    assert!(failed.is_err() && store.get(&identity(0)).is_none());
    // More than announced.
    assert!(store.put(&identity(1), 10, |write| write(&[1; 11])).is_err());
    drop(store);
    let next = self::store(cache.path(), "a", 1 << 30);
    assert!(put(&next, 2, 100));
    drop(next);
    assert!(is_there(&self::store(cache.path(), "a", 1 << 30), 2, 100));
}

#[test]
fn without_a_cache_frames_are_in_a_file_without_a_name() {
    let store = FrameStore::open(None, Path::new("/x.whl"), None);
    assert!(put(&store, 0, 100_000) && is_there(&store, 0, 100_000));
    let nowhere = FrameStore::open(Some(Path::new("/proc/kpackfs")), Path::new("/x.whl"), None);
    assert!(put(&nowhere, 0, 100_000) && is_there(&nowhere, 0, 100_000));
}

proptest! {
    /// Any read is a slice of the whole, however the frame was written.
    #[test]
    fn reads_are_slices(length in 1_usize..100_000, pieces in prop::collection::vec(1_usize..40_000, 1..6), at: prop::sample::Index, count in 0_usize..60_000) {
        let cache = tempfile::tempdir().unwrap();
        let store = store(cache.path(), "a", 1 << 30);
        let whole = frame(3, length);
        let location = store.put(&identity(3), 200_000, |write| {
            let mut rest = whole.as_slice();
            for &piece in pieces.iter().cycle() {
                let (here, after) = rest.split_at(piece.min(rest.len()));
                write(here)?;
                rest = after;
                if rest.is_empty() {
                    break;
                }
            }
            Ok::<_, io::Error>(())
        });
        let location = location.unwrap().unwrap();
        let at = at.index(length);
        let mut bytes = vec![0; count.min(length - at)];
        location.read_at(at as u64, &mut bytes).unwrap();
        prop_assert_eq!(&bytes, &whole[at..at + bytes.len()]);
        prop_assert!(location.read_at(at as u64, &mut vec![0; length - at + 1]).is_err());
        drop(store);
        prop_assert!(is_there(&self::store(cache.path(), "a", 1 << 30), 3, length));
    }
}
