//! Bundle jobs under many schedules.

use std::sync::LazyLock;

use super::*;
use crate::sync::{check, thread as schedule};

const BUNDLES: usize = 2;
/// Bytes of a code object.
const SMALL: u64 = 3000;

/// Two compressed bundles with code for three targets each.
static PACKED: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| packed(at_once));

/// The same by zlib, which is decompressed to the byte that is needed.
static BY_ZLIB: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let mut bundles = packed(|bytes| {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut encoder, bytes).unwrap();
        encoder.finish().unwrap()
    });
    // The method in the header.
    bundles.iter_mut().for_each(|bytes| bytes[6] = 0);
    bundles
});

/// The same by zlib in blocks of 1000 bytes. One in the third code object cannot be decoded.
static DAMAGED: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let mut bundles = packed(|bytes| {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        let mut last = 0;
        for piece in bytes.chunks(1000) {
            last = encoder.get_ref().len();
            std::io::Write::write_all(&mut encoder, piece).unwrap();
            std::io::Write::flush(&mut encoder).unwrap();
        }
        let mut bytes = encoder.finish().unwrap();
        // There is no such type of block.
        bytes[last] |= 6;
        bytes
    });
    bundles.iter_mut().for_each(|bytes| bytes[6] = 0);
    bundles
});

fn packed(compress: fn(&[u8]) -> Vec<u8>) -> Vec<Vec<u8>> {
    let objects = |seed| (0..).zip(TARGETS).map(move |(number, target)| (target, code(seed * 10 + number, SMALL)));
    (0..BUNDLES as u64).map(|seed| bundle(&objects(seed).collect::<Vec<_>>(), compress)).collect()
}

/// Jobs on three threads, and the frames of each bundle.
fn frames(packed: &[Vec<u8>], resources: &Arc<Resources>) -> (Arc<BundleJobs>, [Vec<Arc<Frame>>; BUNDLES]) {
    let jobs = BundleJobs::with_threads(resources, 3);
    let mut bundles = packed.iter().map(|bytes| {
        let content: Arc<dyn Content> = Arc::new(Rope::new([Segment::literal(bytes.clone())]).unwrap());
        let objects = read_bundle(&content, 0, bytes.len() as u64, resources).unwrap();
        let frames: Vec<_> = objects.into_iter().map(|object| Arc::new(Frame::new(object, 1, resources))).collect();
        frames.iter().for_each(|frame| jobs.register(frame));
        frames
    });
    let frames = [(); BUNDLES].map(|()| bundles.next().unwrap());
    (jobs, frames)
}

/// Demands each of these lists of frames on a thread of its own, all at the same time.
fn demand(jobs: &Arc<BundleJobs>, lists: Vec<Vec<Arc<Frame>>>) {
    let callers: Vec<_> = lists
        .into_iter()
        .map(|list| {
            let jobs = Arc::clone(jobs);
            schedule::spawn(move || {
                for frame in &list {
                    assert!(jobs.get(frame).unwrap().length() > 0);
                }
            })
        })
        .collect();
    callers.into_iter().for_each(|caller| caller.join().unwrap());
}

/// Waits until no job is running: a frame can be read before its job ends.
fn settle(jobs: &BundleJobs) {
    while !jobs.is_idle() {
        schedule::yield_now();
    }
}

fn decompressed(bundles: usize) -> u64 {
    (4096 + TARGETS.len() as u64 * SMALL) * bundles as u64
}

#[test]
fn a_bundle_is_decompressed_once_for_all_callers_and_gives_its_memory_back() {
    check(|| {
        let resources = Resources::new(64 << 20);
        let (jobs, [a, b]) = frames(&PACKED, &resources);
        let before = resources.counters.bytes_decompressed.get();
        let lists = vec![vec![a[0].clone(), b[1].clone()], vec![b[0].clone(), a[2].clone()], vec![a[0].clone()]];
        demand(&jobs, lists);
        // All other frames are made after those that callers wait for.
        demand(&jobs, [a, b].concat().into_iter().map(|frame| vec![frame]).collect());
        settle(&jobs);
        assert_eq!(resources.counters.bytes_decompressed.get() - before, decompressed(BUNDLES));
        assert_eq!(resources.counters.frames_made.get(), (BUNDLES * TARGETS.len()) as u64);
        resources.budget.release_idle();
        let gauges = resources.budget.gauges();
        assert_eq!(gauges.buffers(), 0, "{gauges:?}");
    });
}

/// Concurrent readers of uncompressed code objects, which no job combines.
#[test]
fn a_bundle_is_decompressed_once_for_all_its_readers() {
    check(|| {
        let resources = Resources::new(64 << 20);
        let (_jobs, [a, _]) = frames(&PACKED, &resources);
        let before = resources.counters.bytes_decompressed.get();
        let readers: Vec<_> = a
            .iter()
            .map(|frame| {
                let frame = Arc::clone(frame);
                schedule::spawn(move || frame.object.content.read_at(1, &mut [0; 100]).unwrap())
            })
            .collect();
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        assert_eq!(resources.counters.bytes_decompressed.get() - before, decompressed(1));
    });
}

/// A bundle of which only the beginning is decompressed is opened again for callers that need more.
#[test]
fn callers_that_need_more_of_a_bundle_are_served() {
    check(|| {
        let directory = tempfile::tempdir().unwrap();
        let resources = with_store(64 << 20, directory.path(), 1 << 30);
        let (jobs, [a, b]) = frames(&BY_ZLIB, &resources);
        let before = resources.counters.bytes_decompressed.get();
        let lists = vec![vec![a[0].clone(), b[2].clone()], vec![a[2].clone(), b[1].clone()], vec![b[0].clone()]];
        demand(&jobs, lists);
        settle(&jobs);
        assert!(resources.counters.bytes_decompressed.get() - before <= 2 * decompressed(BUNDLES));
        resources.budget.release_idle();
        let gauges = resources.budget.gauges();
        assert_eq!(gauges.buffers(), 0, "{gauges:?}");
    });
}

/// Without memory, bundles are opened one after the other, and frames are made whenever they are read.
#[test]
fn callers_without_memory_go_on() {
    check(|| {
        let resources = Resources::new(0);
        let (jobs, [a, b]) = frames(&PACKED, &resources);
        demand(&jobs, vec![vec![a[0].clone()], vec![b[0].clone()]]);
        settle(&jobs);
        resources.budget.release_idle();
        assert_eq!(resources.budget.gauges().buffers(), 0);
    });
}

/// Prefetching ends, too, and demands of callers join it meanwhile.
#[test]
fn work_in_the_background_joins_that_of_callers() {
    check(|| {
        let resources = Resources::new(64 << 20);
        let (jobs, [a, b]) = frames(&PACKED, &resources);
        let before = resources.counters.bytes_decompressed.get();
        jobs.prefetch(&[a[0].clone(), b[2].clone()]);
        demand(&jobs, vec![vec![b[2].clone()], vec![a[1].clone()]]);
        demand(&jobs, vec![[a, b].concat()]);
        assert_eq!(resources.counters.bytes_decompressed.get() - before, decompressed(BUNDLES));
    });
}

/// Callers of sound frames get them in every order, also when the others are made while nobody waits.
#[test]
fn damage_fails_only_the_frames_behind_it() {
    check(|| {
        let directory = tempfile::tempdir().unwrap();
        let resources = with_store(64 << 20, directory.path(), 1 << 30);
        let (jobs, [a, b]) = frames(&DAMAGED, &resources);
        let lists = [[(&a, 0), (&a, 2), (&b, 1)], [(&a, 2), (&a, 1), (&b, 2)], [(&b, 0), (&b, 2), (&a, 1)]];
        let callers: Vec<_> = lists
            .into_iter()
            .map(|list| {
                let list = list.map(|(frames, number)| (Arc::clone(&frames[number]), number < 2));
                let jobs = Arc::clone(&jobs);
                schedule::spawn(move || {
                    for (frame, is_sound) in list {
                        assert_eq!(jobs.get(&frame).is_ok(), is_sound);
                    }
                })
            })
            .collect();
        callers.into_iter().for_each(|caller| caller.join().unwrap());
        settle(&jobs);
        resources.budget.release_idle();
        let gauges = resources.budget.gauges();
        assert_eq!(gauges.buffers(), 0, "{gauges:?}");
    });
}
