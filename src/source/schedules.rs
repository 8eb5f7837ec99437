//! Decoders of deflated members under many schedules.

use std::sync::LazyLock;

use super::decoders::{CHUNK, Decoders};
use super::deflated::tests::{member, read};
use super::inflate::testing::{Z_NO_FLUSH, deflated};
use crate::memory::Budget;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, check, thread};

/// Three chunks and a part of a fourth.
const SIZE: usize = 3 * CHUNK as usize + 1000;

static BYTES: LazyLock<Vec<u8>> = LazyLock::new(|| (0..SIZE).map(|at| (at / 1000).to_le_bytes()[0]).collect());
static PACKED: LazyLock<Vec<u8>> = LazyLock::new(|| deflated(&BYTES, 6, SIZE, Z_NO_FLUSH));

fn crc32() -> u32 {
    static CRC32: LazyLock<u32> = LazyLock::new(|| crc32fast::hash(&BYTES));
    *CRC32
}

#[test]
fn no_more_decode_at_a_time_than_there_is_memory_for() {
    check(|| {
        let budget = Budget::new(0);
        let decoders = Decoders::new(&budget);
        let at_work = Arc::new(AtomicU64::new(0));
        let threads = [(); 6].map(|()| {
            let (decoders, at_work) = (Arc::clone(&decoders), Arc::clone(&at_work));
            thread::spawn(move || {
                let permit = decoders.permit();
                assert!(at_work.fetch_add(1, Ordering::SeqCst) < 4);
                at_work.fetch_sub(1, Ordering::SeqCst);
                drop(permit);
            })
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(budget.gauges().total(), 0);
    });
}

/// Threads that read at random, and one that reads sequentially with readahead. With room in the cache, no byte is
/// inflated twice.
#[test]
fn a_member_is_inflated_once_for_all_its_readers() {
    check(|| {
        let (content, resources) = member(&PACKED, SIZE, crc32(), 64 << 20);
        let content = Arc::new(content);
        let chunk = usize::try_from(CHUNK).unwrap();
        let offsets = [vec![2 * chunk, 5], vec![0, chunk, 2 * chunk, 3 * chunk], vec![SIZE - 10, chunk + 7]];
        let threads = offsets.map(|offsets| {
            let content = Arc::clone(&content);
            thread::spawn(move || {
                for offset in offsets {
                    let length = chunk.min(SIZE - offset);
                    assert!(read(&*content, offset, length).unwrap() == BYTES[offset..offset + length]);
                }
            })
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(resources.counters.bytes_inflated.get(), SIZE as u64);
    });
}

/// Without a cache they still wait for each other, and no wait is endless.
#[test]
fn readers_without_memory_go_on() {
    check(|| {
        let (content, _) = member(&PACKED, SIZE, crc32(), 0);
        let content = Arc::new(content);
        let threads = [SIZE - 10, 0].map(|offset| {
            let content = Arc::clone(&content);
            thread::spawn(move || assert!(read(&*content, offset, 10).unwrap() == BYTES[offset..offset + 10]))
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// Each reader gets the error, and none waits for a decode that has failed.
#[test]
fn damage_ends_all_waits() {
    check(|| {
        let (content, _) = member(&PACKED, SIZE, crc32() ^ 1, 64 << 20);
        let content = Arc::new(content);
        let threads = [SIZE - 10, SIZE - 20].map(|offset| {
            let content = Arc::clone(&content);
            thread::spawn(move || drop(read(&*content, offset, 10).unwrap_err()))
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        read(&*content, 0, 1).unwrap_err();
    });
}

/// What precedes damage is exact for each reader, in whatever order they come.
#[test]
fn damage_with_a_place_ends_no_wait_for_what_precedes_it() {
    check(|| {
        let cut = &PACKED[..PACKED.len() / 2];
        let (content, _) = member(cut, SIZE, crc32(), 64 << 20);
        let content = Arc::new(content);
        let threads = [SIZE - 10, 0, SIZE / 4].map(|offset| {
            let content = Arc::clone(&content);
            thread::spawn(move || match read(&*content, offset, 10) {
                Ok(bytes) => assert!(offset < SIZE - 10 && bytes == BYTES[offset..offset + 10]),
                Err(_) => assert_eq!(offset, SIZE - 10),
            })
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}
